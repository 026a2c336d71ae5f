"""The examples of KIP-13, and today's brokers beside them."""

from __future__ import annotations

from collections.abc import Callable

from docs.generate.gallery.batch_of_15_mb import MOMENTS_MS, batch
from docs.generate.gallery.consumer_bootstrap import decisions_changed
from docs.generate.gallery.example import TODAY, Basis, Example
from docs.generate.gallery.page import number, seconds
from docs.generate.gallery.topic_split import PARTITIONS, QUOTA_MB, share
from docs.generate.gallery.traffic import MB, T, fetch, produce
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest

ACCEPTED = "KIP-13"
REJECTED = "KIP-13, Rejected Alternatives"
PRINTED = {
    "quota.producer.default": "2M",
    "quota.consumer.default": "2M",
    "quota.producer.override": "clientA:4M,clientB:10M",
    "quota.consumer.override": "clientC:3M,clientD:5M",
}


def examples() -> list[Example]:
    """Return the examples in the document's order."""
    return [*_accepted(), *_rejected(), *_todays()]


def _accepted() -> list[Example]:
    rows = (
        (
            "A consumer bootstraps: other clients' requests that change.",
            "0",
            lambda: str(decisions_changed("kip13")[0]),
        ),
        (
            "No client id: the quota of the empty one, which is the default.",
            "clientA 4 MB/s, none 2 MB/s",
            lambda: f"clientA {_bound('clientA')} MB/s, none {_bound(None)} MB/s",
        ),
        (
            "A producer in violation: appended, and the response is held.",
            "not refused, response held",
            lambda: _action(batch("kip13")),
        ),
        (
            "A consumer in violation: delayed before the read.",
            "not refused, read held",
            lambda: _action(_over("kip13", "FETCH")),
        ),
        (
            "5 MB/s, N = 10: nine samples of 5 MB, then 15 MB (60 MB).",
            "rate 6 MB/s, delay 2 s",
            lambda: _delay(batch("kip13")),
            Basis.PRINTED,
        ),
        (
            "The overrides as printed: producers A, B; consumers C, D; anyone else.",
            "4, 10; 3, 5; 2 MB/s",
            _printed,
            Basis.PRINTED,
        ),
    )
    return [Example("kip13", ACCEPTED, *row) for row in rows]


def _rejected() -> list[Example]:
    split = "kip13_topic_partition"
    return [
        Example(
            "kip13_topic",
            REJECTED,
            "Two clients on one topic, one of them badly behaved: the other one waits.",
            "topic: waits; client-id: does not",
            lambda: f"topic: {_neighbour('kip13_topic')}; client-id: {_neighbour('kip13')}",
        ),
        Example(
            "kip13_client_topic",
            REJECTED,
            "2 MB/s for each (client-id, topic): what a consumer of 40 topics may read.",
            "80 MB/s",
            lambda: f"{number(_allowance('kip13_client_topic', 40) / MB)} MB/s",
        ),
        Example(
            "kip13_cluster_wide",
            REJECTED,
            "Usage shared among all brokers: 60 MB on broker 1, then a request to broker 2.",
            "delay 2 s; per broker (kip13): none",
            _shared,
        ),
        Example(
            split,
            REJECTED,
            "8 partitions, 8 MB/s, 3 leaders on a broker.",
            "3 MB/s",
            lambda: f"{number(share(f'{QUOTA_MB}M', PARTITIONS, 3) / MB)} MB/s",
            Basis.PRINTED,
        ),
        Example(
            split,
            REJECTED,
            "10 over 3 partitions, 1 leader.",
            "3.333…",
            lambda: f"{share('10', 3, 1):.3f}…",
        ),
        Example(
            "kip13_immediate_error",
            REJECTED,
            "A violation: an error immediately.",
            "an error after 0 s",
            lambda: _error(_over("kip13_immediate_error", "PRODUCE")),
        ),
        Example(
            "kip13_delay_then_error",
            REJECTED,
            "A violation: parked for n = 1000 ms, then an error.",
            "an error after 1 s",
            lambda: _error(_over("kip13_delay_then_error", "PRODUCE")),
        ),
    ]


def _todays() -> list[Example]:
    return [
        Example(
            "broker_bandwidth",
            TODAY,
            "KIP-13's 60 MB, by the moment of its second at which the batch comes.",
            "2.05 s to 3 s",
            _broker_delays,
            Basis.KAFKA,
        ),
        Example(
            "broker_request_percentage",
            TODAY,
            "20 s of handler time at 1 %: the throttle is one window at most.",
            "200 %, delay 1 s",
            _request_time,
            Basis.KAFKA,
        ),
        Example(
            "broker_client_quotas",
            TODAY,
            "20 s of handler time at 1 %, and 15 MB or 1 MB at 1 MB/s: the longer throttle.",
            "5 s, 1 s",
            _longer_throttle,
            Basis.KAFKA,
        ),
    ]


def _bound(client_id: str | None, send: Callable[..., PolicyRequest] = produce) -> str:
    policy = policy_class("kip13").configured(PRINTED)
    return number(policy.decide(send(T, 1.0, client_id)).bound / MB)


def _printed() -> str:
    producers = ", ".join(_bound(client_id) for client_id in ("clientA", "clientB"))
    consumers = ", ".join(_bound(client_id, fetch) for client_id in ("clientC", "clientD"))
    return f"{producers}; {consumers}; {_bound('app')} MB/s"


def _over(policy: str, api_name: str) -> Decision:
    """Return the second decision on a client that has used up its window with the first."""
    plain = {key: value for key, value in PRINTED.items() if key.endswith(".default")}
    made = policy_class(policy).configured(plain)
    send = fetch if api_name == "FETCH" else produce
    made.decide(send(T, 60 * MB, "app"))
    return made.decide(send(T + 1000, MB, "app"))


def _action(decision: Decision) -> str:
    return f"{'refused' if decision.refusal else 'not refused'}, {decision.held} held"


def _delay(decision: Decision) -> str:
    return f"rate {number(decision.measured / MB)} MB/s, delay {seconds(decision.delay_ms)}"


def _error(decision: Decision) -> str:
    error = "an error" if decision.refusal else "no error"
    return f"{error} after {seconds(decision.delay_ms)}"


def _neighbour(policy: str) -> str:
    made = policy_class(policy).configured({"quota.producer.default": "2M"})
    made.decide(produce(T, 60 * MB, "noisy"))
    return "waits" if made.decide(produce(T + 1000, MB, "steady")).delay_ms else "does not"


def _allowance(policy: str, topics: int) -> float:
    """Return the bytes per second up to which a fetch of all topics is not delayed.

    A window of exactly the quota of each topic is read, and one byte more, before it is asked.
    """
    made = policy_class(policy).configured({"quota.consumer.default": "2M"})
    window_s, each = 10, 2 * MB * 10
    whole = {f"topic-{i}": float(each) for i in range(topics)}
    made.decide(fetch(T, each * topics, "wildcard", whole))
    within = made.decide(fetch(T, topics, "wildcard", dict.fromkeys(whole, 1.0)))
    beyond = made.decide(fetch(T, topics, "wildcard", dict.fromkeys(whole, 1.0)))
    bound_is_reached = not within.delay_ms and beyond.measured > beyond.bound
    return each * topics / window_s if bound_is_reached else float("nan")


def _shared() -> str:
    delays = {}
    for policy in ("kip13_cluster_wide", "kip13"):
        made = policy_class(policy).configured({"quota.producer.default": "5M"})
        made.decide(produce(T, 60 * MB, "app", broker_id=1))
        delays[policy] = made.decide(produce(T + 1000, 0.0, "app", broker_id=2)).delay_ms
    alone = delays["kip13"]
    per_broker = seconds(alone) if alone else "none"
    return f"delay {seconds(delays['kip13_cluster_wide'])}; per broker (kip13): {per_broker}"


def _broker_delays() -> str:
    delays = [batch("broker_bandwidth", at_ms).delay_ms for at_ms in MOMENTS_MS]
    return f"{seconds(min(delays))} to {seconds(max(delays))}"


def _longer_throttle() -> str:
    quotas = [{"client-id": "app", "producer_byte_rate": MB, "request_percentage": 1}]
    delays = []
    for amount in (15.0 * MB, 1.0 * MB):
        policy = policy_class("broker_client_quotas").configured({"quotas": quotas})
        decision = policy.decide(produce(T, amount, "app", handler_time_us=20_000_000))
        delays.append(seconds(decision.delay_ms))
    return ", ".join(delays)


def _request_time() -> str:
    quotas = [{"client-id": "app", "request_percentage": 1}]
    policy = policy_class("broker_request_percentage").configured({"quotas": quotas})
    decision = policy.decide(produce(T, 1.0, "app", handler_time_us=20_000_000))
    return f"{number(decision.measured)} %, delay {seconds(decision.delay_ms)}"
