"""The examples of "Broker side quota (V1)"."""

from __future__ import annotations

from docs.generate.gallery.broker_side import (
    MARKED,
    change_or_refusal,
    example_policy,
    rates_after,
    set_topic,
)
from docs.generate.gallery.example import Example
from docs.generate.gallery.traffic import T, produce
from spark_jobs.whatif.policies.broker_side.broker_side_v1 import M1_ALPHA, BrokerSideV1
from spark_jobs.whatif.policies.change import TopicAdded

POLICY, DOCUMENT = "broker_side_v1", "Broker side quota (V1)"


def examples() -> list[Example]:
    """Return the examples in the document's order."""
    rows = (
        ("Total 100, a = 60, b = 30: what do c and d get?", "c 5, d 5", _shares),
        ("Then c = 15.", "refused, 105 > 100; c 5, d 5", _too_much),
        ("c = 10 instead.", "accepted; c 10, d 0", _all_of_it),
        ("Then a new topic e.", "c 10, d 0, e 0", _new_topic_without_share),
        ("A new topic e while c has no threshold.", "c 3, d 3, e 3", _new_topic),
        ("α of OneMinuteRate, 1 − e^(−5/60).", "0.07995558537067671", lambda: repr(M1_ALPHA)),
        (
            "60, 0, 0 and 300 bytes in successive 5 s.",
            "12.000000, 11.040533, 10.157781, 14.142945 B/s",
            lambda: ", ".join(f"{rate:.6f}" for rate in rates_after(MARKED)) + " B/s",
        ),
        (
            "Broker above its total, topic a above its threshold, b not: one request to both.",
            "a refused with QuotaExceededException, b appended",
            _one_request,
        ),
    )
    return [Example(POLICY, DOCUMENT, *row) for row in rows]


def _thresholds(policy: BrokerSideV1, topics: str) -> str:
    return ", ".join(f"{topic} {policy.thresholds.of(1, topic)}" for topic in topics)


def _shares() -> str:
    return _thresholds(example_policy(), "cd")


def _too_much() -> str:
    policy = example_policy()
    answer = change_or_refusal(policy, set_topic("c", 15))
    kind, _, rule = answer.partition(": ")
    shown = "105 > 100" if "105, must not exceed" in rule and ", 100;" in rule else rule
    return f"{kind}, {shown}; {_thresholds(policy, 'cd')}"


def _all_of_it() -> str:
    policy = example_policy()
    answer = change_or_refusal(policy, set_topic("c", 10))
    return f"{answer}; {_thresholds(policy, 'cd')}"


def _new_topic_without_share() -> str:
    policy = example_policy(c=10)
    policy.observe(TopicAdded(T, 1, "e"))
    return _thresholds(policy, "cde")


def _new_topic() -> str:
    policy = example_policy()
    policy.observe(TopicAdded(T, 1, "e"))
    return _thresholds(policy, "cde")


def _one_request() -> str:
    policy = example_policy()
    policy.decide(produce(T, 600.0, "app", {"a": 500.0, "b": 100.0}))
    decision = policy.decide(produce(T + 5_001, 2.0, "app", {"a": 1.0, "b": 1.0}))
    told = [
        f"{one.topic} refused with {one.refusal.error}" if one.refusal else f"{one.topic} appended"
        for one in decision.topics
    ]
    return ", ".join(told)
