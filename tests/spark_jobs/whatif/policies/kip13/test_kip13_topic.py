from __future__ import annotations

import pytest

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import BrokerStarted, TopicRemoved
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import QUOTA_VIOLATED
from spark_jobs.whatif.policies.kip13.kip13_topic import OTHER_TOPICS, Kip13Topic
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.kip13_requests import T, fetch, produce


def topics_of(bound: int, other_topics: str = "delay_all", **more: object) -> Kip13Topic:
    keys = {"quota.producer.default": bound, "quota.consumer.default": bound}
    return Kip13Topic.configured({**keys, "quota.other.topics": other_topics, **more})


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_topic") is Kip13Topic


def test_a_topic_has_one_quota_for_all_clients() -> None:
    policy = topics_of(5)
    assert policy.decide(produce(T, 0, "a", topics={"x": 40.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, "b", topics={"x": 20.0})).delay_ms == 2_000
    assert policy.decide(produce(T, 0, "b", topics={"y": 50.0})).delay_ms == 0


def test_a_badly_behaved_client_gets_the_others_throttled_which_is_why_it_was_rejected() -> None:
    alone, beside_a_flood = topics_of(5), topics_of(5)
    beside_a_flood.decide(fetch(T, 0, "flood", topics={"x": 1_000.0}))
    modest = fetch(T, 0, "modest", topics={"x": 1.0})
    assert alone.decide(modest).delay_ms == 0
    assert beside_a_flood.decide(modest).delay_ms == 190_000


def test_an_override_names_a_topic() -> None:
    policy = topics_of(5, **{"quota.producer.override": "x:50"})
    assert policy.decide(produce(T, 0, topics={"x": 500.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, topics={"y": 500.0})).delay_ms == 90_000


@pytest.mark.parametrize("name", ["a:b:4M", "a b:4M", "x" * 250 + ":4M"])
def test_an_override_of_what_cannot_be_a_topic_is_refused(name: str) -> None:
    with pytest.raises(PolicyConfigError, match="cannot be the name of a topic"):
        topics_of(5, **{"quota.consumer.override": name})


def test_the_handling_of_other_topics_is_one_of_three() -> None:
    assert OTHER_TOPICS == ("delay_all", "delay_none", "refuse_topic")
    with pytest.raises(PolicyConfigError, match="delay_all, delay_none, refuse_topic"):
        topics_of(5, "refuse_all")


def test_delay_all_lets_the_other_topics_wait_for_the_slowest() -> None:
    policy = topics_of(5, "delay_all")
    decision = policy.decide(produce(T, 0, topics={"x": 60.0, "y": 70.0, "z": 1.0}))
    assert (decision.delay_ms, decision.held, decision.measured) == (4_000, Held.RESPONSE, 7.0)
    assert all(topic.refusal is None for topic in decision.topics)


def test_delay_none_lets_no_topic_wait_for_another() -> None:
    policy = topics_of(5, "delay_none")
    assert policy.decide(produce(T, 0, topics={"x": 60.0, "z": 1.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, topics={"x": 0.0})).delay_ms == 2_000
    assert policy.decide(produce(T, 0, topics={"x": 5.0, "y": 70.0})).delay_ms == 3_000


def test_delay_none_does_not_delay_beside_a_topic_refused_for_another_reason() -> None:
    topics = [TopicPart("x", 60.0), TopicPart("big", 60.0, 10)]
    assert topics_of(5, "delay_none").decide(produce(T, 0, topics=topics)).delay_ms == 0
    assert topics_of(5, "delay_all").decide(produce(T, 0, topics=topics)).delay_ms == 2_000


def test_refuse_topic_refuses_the_violated_topic_only_and_serves_the_others_at_once() -> None:
    policy = topics_of(5, "refuse_topic")
    assert policy.decide(produce(T, 0, topics={"x": 60.0})).topics[0].refusal is None
    decision = policy.decide(produce(T, 0, topics={"x": 9.0, "y": 9.0}))
    refused, served = decision.topics
    assert refused.refusal is not None
    assert (refused.refusal.error, refused.refusal.is_retriable) == (QUOTA_VIOLATED, True)
    assert refused.refusal.reason == "topic x: 6.0 bytes per second are above the 5.0 allowed"
    assert (served.topic, served.amount, served.refusal) == ("y", 9.0, None)
    assert (decision.delay_ms, decision.refusal, decision.measured) == (0, None, 6.0)


def test_refuse_topic_never_records_what_it_refused() -> None:
    policy = topics_of(5, "refuse_topic")
    policy.decide(produce(T, 0, topics={"x": 60.0}))
    for _ in range(5):
        assert policy.decide(produce(T + 9_999, 0, topics={"x": 1e9})).topics[0].refusal
    assert policy.decide(produce(T + 10_000, 0, topics={"x": 1.0})).topics[0].refusal is None


def test_refuse_topic_says_something_of_every_topic_of_the_request() -> None:
    policy = topics_of(5, "refuse_topic")
    topics = [TopicPart("big", 60.0, 10), TopicPart("x", 3.0)]
    found = policy.decide(produce(T, 0, topics=topics)).topics
    assert [(one.topic, one.amount, one.refusal) for one in found] == [
        ("big", 0.0, None),
        ("x", 3.0, None),
    ]


def test_a_fetch_is_decided_on_what_was_read_of_the_topic_before_it() -> None:
    policy = topics_of(5)
    assert policy.decide(fetch(T, 0, topics={"x": 60.0})).delay_ms == 0
    decision = policy.decide(fetch(T, 0, topics={"x": 60.0}))
    assert (decision.delay_ms, decision.held) == (2_000, Held.READ)


def test_replication_is_exempt_and_a_request_without_topics_is_admitted() -> None:
    policy = topics_of(5)
    assert policy.decide(fetch(T, 0, is_replica=True, topics={"x": 1e9})) == ADMITTED
    assert policy.decide(produce(T, 1e9)) == ADMITTED
    assert policy.decide(fetch(T, 0, topics={"x": 1.0})).measured == 0.0


def test_one_state_decides_for_all_requests_to_a_broker() -> None:
    policy = topics_of(5)
    assert policy.state_key(produce(T, 1, "a")) == policy.state_key(fetch(T, 1, "b"))
    assert policy.state_key(produce(T, 1)) != policy.state_key(produce(T, 1, broker_id=2))
    policy.decide(produce(T, 0, topics={"x": 60.0}))
    assert policy.decide(produce(T, 0, topics={"x": 60.0}, broker_id=2)).delay_ms == 2_000


def test_a_topic_that_is_gone_and_a_broker_that_started_have_counted_nothing() -> None:
    policy = topics_of(5)
    for change in (TopicRemoved(T, 1, "x"), BrokerStarted(T, 1)):
        policy.decide(produce(T, 0, topics={"x": 60.0}))
        policy.observe(change)
        assert policy.decide(produce(T, 0, topics={"x": 50.0})).delay_ms == 0
        policy.observe(BrokerStarted(T, 1))
