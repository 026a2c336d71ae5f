from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import ADMITTED, Held, TopicDecision
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13_topic import Kip13ClientTopic
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from tests.spark_jobs.whatif.policies.kip13_requests import T, decisions, fetch, produce, traffic


def tuples_of(bound: int, **more: object) -> Kip13ClientTopic:
    return Kip13ClientTopic.configured(
        {"quota.producer.default": bound, "quota.consumer.default": bound, **more}
    )


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_client_topic") is Kip13ClientTopic


def test_the_default_is_every_tuples() -> None:
    policy = tuples_of(5)
    assert policy.decide(produce(T, 0, "a", topics={"x": 50.0, "y": 50.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, "b", topics={"x": 50.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, "a", topics={"x": 10.0})).delay_ms == 2_000


def test_a_wildcard_consumer_allocates_itself_a_quota_for_each_topic_it_subscribes_to() -> None:
    policy = tuples_of(5)
    everything = {f"topic{n}": 50.0 for n in range(100)}
    policy.decide(fetch(T, 0, topics=everything))
    assert policy.decide(fetch(T, 0, topics=everything)).delay_ms == 0
    assert policy.decide(fetch(T, 0, topics={"topic0": 1.0})).delay_ms == 10_000


def test_a_cap_bounds_what_a_client_gets_over_all_its_tuples() -> None:
    policy = tuples_of(5, **{"quota.consumer.cap": "10"})
    policy.decide(fetch(T, 0, topics={f"topic{n}": 50.0 for n in range(4)}))
    decision = policy.decide(fetch(T, 0, topics={"new": 0.0}))
    assert (decision.delay_ms, decision.measured, decision.bound) == (10_000, 20.0, 10)
    assert policy.decide(produce(T, 0, topics={"topic0": 50.0})).delay_ms == 0


def test_a_request_waits_as_long_as_its_slowest_tuple() -> None:
    policy = tuples_of(5)
    decision = policy.decide(produce(T, 0, topics={"x": 60.0, "y": 70.0, "z": 1.0}))
    assert (decision.delay_ms, decision.held, decision.is_told) == (4_000, Held.RESPONSE, True)
    expected = zip("xyz", (60, 70, 1), strict=True)
    assert decision.topics == tuple(TopicDecision(*topic) for topic in expected)


def test_an_override_names_client_and_topic() -> None:
    policy = tuples_of(5, **{"quota.producer.override": "a:b:x:50"})
    assert policy.decide(produce(T, 0, "a:b", topics={"x": 500.0})).delay_ms == 0
    assert policy.decide(produce(T, 0, "a:b", topics={"y": 60.0})).delay_ms == 2_000
    assert policy.decide(produce(T, 0, "a", topics={"x": 60.0})).delay_ms == 2_000


@pytest.mark.parametrize("name", ["clientA:4M", ":x:4M", "clientA::4M"])
def test_an_override_without_its_client_or_topic_is_refused(name: str) -> None:
    with pytest.raises(PolicyConfigError, match="is no client:topic"):
        tuples_of(5, **{"quota.producer.override": name})


@pytest.mark.parametrize("cap", ["0", "-1", "much"])
def test_a_cap_is_a_bound_too(cap: str) -> None:
    with pytest.raises(PolicyConfigError, match=r"quota\.producer\.cap"):
        tuples_of(5, **{"quota.producer.cap": cap})


def test_clients_without_a_client_id_share_the_default_of_each_topic() -> None:
    policy = tuples_of(5)
    policy.decide(produce(T, 0, None, topics={"x": 40.0}))
    assert policy.decide(produce(T, 0, "", topics={"x": 20.0})).delay_ms == 2_000


def test_parts_refused_for_another_reason_or_without_an_amount_are_not_counted() -> None:
    policy = tuples_of(5)
    topics = [TopicPart("x", 60.0, 10), TopicPart("y", math.nan)]
    assert policy.decide(produce(T, 0, topics=topics)).delay_ms == 0


def test_a_request_without_topics_has_no_tuple_to_count_in() -> None:
    assert tuples_of(5).decide(produce(T, 1e9)) == ADMITTED


@given(traffic(), st.integers(1, 60))
def test_a_client_on_one_topic_is_decided_on_as_if_topics_did_not_exist(
    requests: list[PolicyRequest], bound: int
) -> None:
    kip13 = policy_class("kip13").configured(
        {"quota.producer.default": bound, "quota.consumer.default": bound}
    )
    on_x = [request for request in requests if request.topics[0].topic == "x"]
    found = decisions(tuples_of(bound), on_x)
    assert [decision.delay_ms for decision in found] == [
        decision.delay_ms for decision in decisions(kip13, on_x)
    ]
