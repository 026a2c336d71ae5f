"""Builders of the policy of bytes in and of the appends that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_jobs.whatif.policies.broker_side.broker_side_v1 import BrokerSideV1, MeterName
from spark_jobs.whatif.policies.broker_side.bytes_in_thresholds import (
    TOPIC_THRESHOLD,
    TOTAL_THRESHOLD,
)
from spark_jobs.whatif.policies.change import ConfigChanged, TopicAdded
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

T = 1_700_000_000_000


def policy_of(
    total: int, explicit: Mapping[str, int] | None = None, topics: str = "", **more: object
) -> BrokerSideV1:
    """Return a policy with one-letter topics on broker 1."""
    policy = BrokerSideV1.configured(
        {TOTAL_THRESHOLD: total, TOPIC_THRESHOLD: explicit or {}, **more}
    )
    for topic in topics:
        policy.observe(TopicAdded(T, 1, topic))
    return policy


def set_topic(policy: BrokerSideV1, **thresholds: int | None) -> None:
    policy.observe(ConfigChanged(T, {TOPIC_THRESHOLD: thresholds}))


def thresholds_of(policy: BrokerSideV1, topics: str, broker_id: int = 1) -> list[int]:
    return [policy.thresholds.of(broker_id, topic) for topic in topics]


def produce(
    at_ms: int,
    topics: Mapping[str, float] | Iterable[TopicPart],
    *,
    broker_id: int = 1,
    is_replica: bool = False,
) -> PolicyRequest:
    if isinstance(topics, Mapping):
        topics = [TopicPart(topic, amount) for topic, amount in topics.items()]
    return PolicyRequest(
        at_ms=at_ms,
        broker_id=broker_id,
        connection="c-1",
        api_name="PRODUCE",
        api_version=9,
        user="alice",
        client_id="app",
        amount=1_000_000.0,  # on the wire: no record bytes
        acks=1,
        is_replica=is_replica,
        topics=tuple(topics),
    )


def refused(policy: BrokerSideV1, at_ms: int, topics: Mapping[str, float]) -> list[bool]:
    return [one.refusal is not None for one in policy.decide(produce(at_ms, topics)).topics]


def count(policy: BrokerSideV1, name: MeterName, topic: str | None = None) -> int:
    meter = policy.meter(1, name, topic)
    return 0 if meter is None else meter.count


def overloaded(**more: object) -> BrokerSideV1:
    """Return a policy at T + 5001: broker 30 B/s above 20, "a" 20 above 5, "b" 10 below 15."""
    policy = policy_of(20, {"a": 5, "b": 15}, **more)
    policy.decide(produce(T, {"a": 100.0, "b": 50.0}))
    return policy
