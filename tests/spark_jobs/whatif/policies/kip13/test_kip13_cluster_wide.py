from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import Kip13
from spark_jobs.whatif.policies.kip13.kip13_cluster_wide import Kip13ClusterWide
from spark_jobs.whatif.policies.request import PolicyRequest
from tests.spark_jobs.whatif.policies.kip13_requests import T, decisions, fetch, produce, traffic


def cluster_of(bound: int, sharing_delay_ms: int = 0) -> Kip13ClusterWide:
    return Kip13ClusterWide.configured(
        {
            "quota.producer.default": bound,
            "quota.consumer.default": bound,
            "quota.sharing.delay.ms": sharing_delay_ms,
        }
    )


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_cluster_wide") is Kip13ClusterWide


def test_with_perfect_knowledge_every_broker_counts_what_all_of_them_served() -> None:
    policy = cluster_of(5)
    assert policy.decide(produce(T, 40, broker_id=1)).delay_ms == 0
    decision = policy.decide(produce(T, 20, broker_id=2))
    assert (decision.delay_ms, decision.held, decision.measured) == (2_000, Held.RESPONSE, 6.0)


def test_a_broker_hears_of_the_others_usage_after_the_sharing_delay_and_not_before() -> None:
    policy = cluster_of(5, sharing_delay_ms=3_000)
    assert policy.decide(produce(T, 60, broker_id=1)).delay_ms == 2_000
    assert policy.decide(produce(T + 2_999, 0, broker_id=2)).delay_ms == 0
    assert policy.decide(produce(T + 3_000, 0, broker_id=2)).delay_ms == 2_000


def test_usage_heard_of_late_leaves_the_window_when_it_was_served_not_when_it_was_told() -> None:
    policy = cluster_of(5, sharing_delay_ms=3_000)
    policy.decide(produce(T, 60, broker_id=1))
    assert policy.decide(produce(T + 9_999, 0, broker_id=2)).measured == 6.0
    assert policy.decide(produce(T + 10_000, 0, broker_id=2)).measured == 0.0


def test_a_sharing_delay_of_a_whole_window_leaves_each_broker_with_its_own_usage() -> None:
    policy = cluster_of(5, sharing_delay_ms=10_000)
    policy.decide(produce(T, 60, broker_id=1))
    assert policy.decide(produce(T + 10_000, 60, broker_id=2)).measured == 6.0


def test_a_fetch_is_decided_on_what_all_brokers_served_before_it() -> None:
    policy = cluster_of(5)
    assert policy.decide(fetch(T, 60, broker_id=1)).delay_ms == 0
    decision = policy.decide(fetch(T, 60, broker_id=2))
    assert (decision.delay_ms, decision.held) == (2_000, Held.READ)
    assert policy.decide(produce(T, 0, broker_id=2)).delay_ms == 0


def test_a_started_broker_has_lost_its_own_usage_and_the_others_know_what_they_were_told() -> None:
    policy = cluster_of(5, sharing_delay_ms=1_000)
    policy.decide(produce(T, 60, broker_id=1))
    policy.decide(produce(T + 1_000, 0, broker_id=2))
    policy.decide(produce(T + 1_000, 500, broker_id=1))
    policy.observe(BrokerStarted(T + 1_500, 1))
    assert policy.decide(produce(T + 3_000, 0, broker_id=1)).measured == 0.0
    assert policy.decide(produce(T + 3_000, 0, broker_id=2)).measured == 6.0


def test_brokers_share_one_state_and_clients_do_not() -> None:
    policy = cluster_of(5)
    keys = {policy.state_key(produce(T, 1, broker_id=broker)) for broker in (1, 2)}
    assert keys == {"PRODUCE/app"}
    policy.decide(produce(T, 60, "a", broker_id=1))
    assert policy.decide(produce(T, 1, "b", broker_id=2)).delay_ms == 0


def test_a_grid_of_another_shape_begins_empty() -> None:
    policy = cluster_of(5)
    policy.decide(produce(T, 60))
    policy.observe(ConfigChanged(T, {"quota.window.num": 5}))
    assert policy.decide(produce(T, 0, broker_id=2)).measured == 0.0


def test_replication_is_exempt() -> None:
    policy = cluster_of(5)
    assert policy.decide(fetch(T, 1e9, is_replica=True)) == ADMITTED
    assert policy.decide(fetch(T, 0)).measured == 0.0


@pytest.mark.parametrize("found", [-1, "soon", 1.5])
def test_a_sharing_delay_is_a_whole_number_of_ms(found: object) -> None:
    with pytest.raises(PolicyConfigError, match=r"quota\.sharing\.delay\.ms"):
        Kip13ClusterWide.configured({"quota.sharing.delay.ms": found})


@given(traffic(), st.integers(1, 60))
def test_perfect_knowledge_is_one_broker_that_serves_everything(
    requests: list[PolicyRequest], bound: int
) -> None:
    one = Kip13.configured({"quota.producer.default": bound, "quota.consumer.default": bound})
    on_one_broker = [replace(request, broker_id=1) for request in requests]
    assert decisions(cluster_of(bound), requests) == decisions(one, on_one_broker)


@given(traffic(), st.integers(1, 60), st.integers(0, 20_000))
def test_on_one_broker_sharing_changes_nothing(
    requests: list[PolicyRequest], bound: int, sharing_delay_ms: int
) -> None:
    one = Kip13.configured({"quota.producer.default": bound, "quota.consumer.default": bound})
    on_one_broker = [replace(request, broker_id=1) for request in requests]
    found = decisions(cluster_of(bound, sharing_delay_ms), on_one_broker)
    assert found == decisions(one, on_one_broker)
