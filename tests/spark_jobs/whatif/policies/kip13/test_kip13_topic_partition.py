from __future__ import annotations

import doctest

import pytest

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged, TopicAdded, TopicRemoved
from spark_jobs.whatif.policies.decision import ADMITTED
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13 import kip13_topic
from spark_jobs.whatif.policies.kip13.kip13_topic import Kip13TopicPartition, broker_share
from tests.spark_jobs.whatif.policies.kip13_requests import MB, T, produce


def shares_of(bound: object, **more: object) -> Kip13TopicPartition:
    return Kip13TopicPartition.configured({"quota.producer.default": bound, **more})


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_topic_partition") is Kip13TopicPartition
    assert doctest.testmod(kip13_topic).failed == 0


def test_must_eight_mb_over_eight_partitions_give_a_broker_with_three_leaders_three_mb() -> None:
    policy = shares_of(8 * MB)
    policy.observe(TopicAdded(T, 1, "t", partitions=8, leaders=3))
    decision = policy.decide(produce(T, 0, topics={"t": 36.0 * MB}))
    assert decision.bound == 3 * MB
    assert decision.delay_ms == 2_000


def test_must_ten_over_three_partitions_give_one_leader_ten_thirds() -> None:
    policy = shares_of(10)
    policy.observe(TopicAdded(T, 1, "t", partitions=3, leaders=1))
    assert policy.decide(produce(T, 0, topics={"t": 1.0})).bound == 10 / 3


def test_a_share_is_multiplied_first() -> None:
    assert broker_share(1, leaders=49, partitions=49) == 1.0
    assert 1 / 49 * 49 != 1.0


def test_brokers_share_a_topic_by_what_they_lead() -> None:
    policy = shares_of(12)
    for broker_id, leaders in ((1, 3), (2, 1)):
        policy.observe(TopicAdded(T, broker_id, "t", partitions=4, leaders=leaders))
    found = [
        policy.decide(produce(T, 0, broker_id=broker, topics={"t": 0.0})).bound for broker in (1, 2)
    ]
    assert found == [9.0, 3.0]


def test_a_share_changes_with_leaders_partitions_and_quota_and_holds_for_what_was_counted() -> None:
    policy = shares_of(8)
    topics = {"t": 60.0}
    policy.observe(TopicAdded(T, 1, "t", partitions=8, leaders=8))
    assert policy.decide(produce(T, 0, topics=topics)).delay_ms == 0
    policy.observe(TopicAdded(T, 1, "t", leaders=3))
    assert policy.decide(produce(T, 0, topics={"t": 0.0})).delay_ms == 10_000
    policy.observe(TopicAdded(T, 1, "t", partitions=6))
    assert policy.decide(produce(T, 0, topics={"t": 0.0})).bound == 4.0
    policy.observe(ConfigChanged(T, {"quota.producer.override": "t:12"}))
    assert policy.decide(produce(T, 0, topics={"t": 0.0})).bound == 6.0
    policy.observe(BrokerStarted(T, 1))
    assert policy.decide(produce(T, 0, topics={"t": 1.0})).measured == 0.1


def test_without_counts_or_leaders_there_is_no_share_and_nothing_is_counted() -> None:
    policy = shares_of(8)
    request = produce(T, 0, topics={"t": 1e9})
    assert policy.decide(request) == ADMITTED
    policy.observe(TopicAdded(T, 1, "t"))
    assert policy.decide(request) == ADMITTED
    policy.observe(TopicAdded(T, 1, "t", partitions=8, leaders=0))
    assert policy.decide(request) == ADMITTED
    policy.observe(TopicAdded(T, 1, "t", leaders=8))
    assert policy.decide(produce(T, 0, topics={"t": 80.0})).delay_ms == 0
    policy.observe(TopicRemoved(T, 1, "t"))
    assert policy.decide(request) == ADMITTED


@pytest.mark.parametrize(
    ("partitions", "leaders", "rule"),
    [
        (0, 0, "at least 1 partition"),
        (3, 4, "a broker leads 0 of a topic's partitions, or some, or all"),
        (3, -1, "a broker leads 0 of a topic's partitions, or some, or all"),
        (None, -1, "a broker leads 0 of a topic's partitions, or some, or all"),
    ],
)
def test_impossible_counts_are_refused_and_change_nothing(
    partitions: int | None, leaders: int, rule: str
) -> None:
    policy = shares_of(8)
    policy.observe(TopicAdded(T, 2, "t", partitions=2, leaders=1))
    with pytest.raises(PolicyConfigError, match=rule):
        policy.observe(TopicAdded(T, 1, "t", partitions=partitions, leaders=leaders))
    assert policy.decide(produce(T, 0, topics={"t": 1e9})) == ADMITTED
    assert policy.decide(produce(T, 0, broker_id=2, topics={"t": 0.0})).bound == 4.0


@pytest.mark.parametrize("other_topics", ["delay_all", "delay_none", "refuse_topic"])
def test_a_topic_with_a_share_is_held_to_it_beside_one_without(other_topics: str) -> None:
    policy = shares_of(10, **{"quota.other.topics": other_topics})
    policy.observe(TopicAdded(T, 1, "t", partitions=2, leaders=1))
    policy.decide(produce(T, 0, topics={"t": 60.0}))
    decision = policy.decide(produce(T, 0, topics={"t": 0.0, "unknown": 1e9}))
    assert decision.delay_ms == {"delay_all": 2_000}.get(other_topics, 0)
    refused = [topic.topic for topic in decision.topics if topic.refusal]
    assert refused == (["t"] if other_topics == "refuse_topic" else [])
