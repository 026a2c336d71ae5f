"""The examples of KIP-599, and today's controllers beside them."""

from __future__ import annotations

from dataclasses import replace

from docs.generate.gallery.example import TODAY, Basis, Example
from docs.generate.gallery.mutation_burst import (
    BURST,
    EXAMPLE,
    after_the_burst,
    broker_rate,
    sample_values,
)
from docs.generate.gallery.page import number, seconds
from docs.generate.gallery.traffic import T, create_topics
from spark_jobs.quota.java_math import LONG_MAX
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kip599.kip599_early import BURST as EARLY_BURST
from spark_jobs.whatif.policies.kip599.kip599_early import RATE as EARLY_RATE
from spark_jobs.whatif.policies.kip599.kip599_early import PartitionMutationBucket
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import TopicPart

EARLY = "KIP-599, early revision"
LATE = "KIP-599, late revision"
TOKENS = "K 500, 420, 340, 260, 180, 100, 20, all admitted, then -60"


def examples() -> list[Example]:
    """Return the examples of both revisions, in their order."""
    return [*_early(), *_late(), *_todays()]


def _early() -> list[Example]:
    return [
        Example(
            "kip599_early",
            EARLY,
            "remaining-tokens = 0 means throttled.",
            "QUOTA_VIOLATED",
            _no_token_left,
        ),
        Example(
            "kip599_early",
            EARLY,
            "Burst at its default, Long.MaxValue: 560 mutations are counted.",
            "560 less, never throttles",
            _default_burst,
        ),
        Example(
            "kip599_early",
            EARLY,
            "Old versions never see the error: accepted, and the connection held.",
            "accepted, next_request held",
            lambda: _old_version("kip599_early", 5),
        ),
        Example(
            "kip599_execution_throttle",
            EARLY,
            "K = −200, R = 5: 40 s > the request timeout of 30 s; and the retry.",
            "40 s, request_timed_out, TOPIC_ALREADY_EXISTS",
            _executed_later,
        ),
        Example(
            "kip599_no_error",
            EARLY,
            "No error code: new versions are treated as old ones.",
            "accepted, next_request held",
            lambda: _old_version("kip599_no_error", 7),
        ),
    ]


def _late() -> list[Example]:
    bucket, rate, spread = "kip599_token_bucket", "kip599_rate", "kip599_rate_burst_spread"
    return [
        Example(
            bucket,
            LATE,
            "Q = 5, S = 100, W = 1; 7 topics of 80 partitions on B = 500.",
            TOKENS,
            lambda: _tokens(bucket),
        ),
        Example(
            bucket,
            LATE,
            "The throttle of K = −60.",
            "12 s",
            lambda: seconds(_next(bucket, 0).delay_ms),
            Basis.PRINTED,
        ),
        Example(
            bucket,
            LATE,
            "One update at T + 12 s.",
            "K 0, admitted",
            lambda: f"K {_asked(bucket, 12)}",
        ),
        Example(
            rate,
            LATE,
            "The same 560: rate and throttle.",
            "R 5.6, 12 s",
            lambda: _rate(rate),
            Basis.PRINTED,
        ),
        Example(
            rate,
            LATE,
            "Not before S × W: 99.999 s and 100 s after the burst.",
            "refused, admitted",
            lambda: ", ".join(_asked(rate, at_s).split(", ")[1] for at_s in (99.999, 100)),
            Basis.PRINTED,
        ),
        Example(
            spread,
            LATE,
            "The samples after the burst.",
            "99 of 5, 1 of 65",
            _samples,
            Basis.PRINTED,
        ),
        Example(
            spread,
            LATE,
            "Its rate and throttle.",
            "R 5.6, 12 s",
            lambda: _rate(spread),
            Basis.PRINTED,
        ),
        Example(
            spread,
            LATE,
            "11 s and 12 s after the burst.",
            "R 5.05, refused; R 5, admitted",
            lambda: "; ".join(f"R {_asked(spread, at_s)}" for at_s in (11, 12)),
        ),
        Example(
            "kip599_usage_based",
            LATE,
            "Time is the cost, whatever the partitions: 600 ms at 5 ms/s on a bucket of 500 ms.",
            "K -100, 20 s",
            _usage,
        ),
    ]


def _todays() -> list[Example]:
    policy = "broker_controller_mutation"
    return [
        Example(
            policy,
            TODAY,
            "The 560 on the bucket of a controller.",
            TOKENS,
            lambda: _tokens(policy),
            Basis.KAFKA,
        ),
        Example(
            policy,
            TODAY,
            "Its throttle, and one update at T + 12 s.",
            "12 s; K 0, admitted",
            lambda: f"{seconds(_next(policy, 0).delay_ms)}; K {_asked(policy, 12)}",
            Basis.KAFKA,
        ),
        Example(
            policy,
            TODAY,
            "Kafka's Rate of the 560, a metric beside the bucket.",
            "R 5.6566 over 99 s: 13 s",
            _brokers_rate,
            Basis.KAFKA,
        ),
    ]


def _next(name: str, at_s: float) -> Decision:
    """Return the decision on one more partition so long after the burst."""
    return after_the_burst(name).decide(create_topics(T + round(1000 * at_s), 1))


def _asked(name: str, at_s: float) -> str:
    decision = _next(name, at_s)
    answer = "refused" if decision.refusal else "admitted"
    return f"{number(decision.topics[0].measured)}, {answer}"


def _rate(name: str) -> str:
    decision = _next(name, 0)
    return f"R {number(decision.topics[0].measured)}, {seconds(decision.delay_ms)}"


def _tokens(name: str) -> str:
    decision = policy_class(name).configured(EXAMPLE).decide(create_topics(T, *BURST))
    before = ", ".join(number(topic.measured) for topic in decision.topics)
    are_admitted = not any(topic.refusal for topic in decision.topics)
    answer = "all admitted" if are_admitted else "not all admitted"
    return f"K {before}, {answer}, then {number(decision.measured)}"


def _samples() -> str:
    return ", ".join(f"{count} of {number(value)}" for value, count in sample_values())


def _brokers_rate() -> str:
    found = broker_rate()
    over, throttle = seconds(found["window_ms"]), seconds(found["throttle_ms"])
    return f"R {number(found['rate'])} over {over}: {throttle}"


def _made(name: str, burst: int) -> Policy:
    return policy_class(name).configured({EARLY_RATE: 5, EARLY_BURST: burst})


def _no_token_left() -> str:
    policy = _made("kip599_early", burst=80)
    policy.decide(create_topics(T, 80))
    decision = policy.decide(create_topics(T, 1))
    assert decision.topics[0].measured == 0, decision
    return decision.refusal.error if decision.refusal else "admitted"


def _default_burst() -> str:
    bucket = PartitionMutationBucket(rate=5, burst=LONG_MAX)
    for partitions in BURST:
        bucket.spend(partitions, T)
    decision = (
        policy_class("kip599_early").configured({EARLY_RATE: 5}).decide(create_topics(T, *BURST))
    )
    throttles = "never" if "burst_never_throttles" in decision.findings else "sometimes"
    return f"{LONG_MAX - bucket.tokens(T)} less, {throttles} throttles"


def _old_version(name: str, api_version: int) -> str:
    policy = _made(name, burst=80)
    policy.decide(create_topics(T, 80))
    decision = policy.decide(replace(create_topics(T, 1), api_version=api_version))
    return f"{'refused' if decision.refusal else 'accepted'}, {decision.held} held"


def _executed_later() -> str:
    policy = _made("kip599_execution_throttle", burst=500)
    policy.decide(create_topics(T, 700))
    late = replace(create_topics(T, 1), topics=(TopicPart("late", 1.0),))
    decision, retry = policy.decide(late), policy.decide(late)
    error = retry.refusal.error if retry.refusal else "accepted again"
    return ", ".join((seconds(decision.delay_ms), *decision.findings, error))


def _usage() -> str:
    quotas = [{"user": "alice", "controller_usage_rate": 5}]
    config = {**EXAMPLE, "quotas": quotas}
    policy = policy_class("kip599_usage_based").configured(config)
    policy.decide(create_topics(T, 1, handler_time_us=600_000))
    decision = policy.decide(create_topics(T + 600, 1))
    return f"K {number(decision.measured)}, {seconds(decision.delay_ms)}"
