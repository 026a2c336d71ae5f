"""What is drawn for simulated brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fleet.random_cluster import simulated_cluster, simulated_clusters
from tests.fleet.simulated_plan import (
    ALWAYS_WITH_ZOOKEEPER,
    ANSWERING_US,
    KAFKA_VERSIONS,
    SECOND,
    Entity,
    SimulatedCluster,
    simulator_words,
)


@pytest.fixture(scope="module")
def clusters() -> list[SimulatedCluster]:
    return list(simulated_clusters(3, 130, 10))


def test_the_same_seed_draws_the_same_clusters(clusters: list[SimulatedCluster]) -> None:
    assert list(simulated_clusters(3, 130, 10)) == clusters
    assert simulated_cluster(3, 2, clusters[1].kafka_version, 10) == clusters[1]
    assert next(simulated_clusters(4, 10, 10)) != clusters[0]


def test_all_runs_are_drawn_and_all_versions_in_turn(clusters: list[SimulatedCluster]) -> None:
    assert sum(len(cluster.brokers) for cluster in clusters) == 130
    versions = Counter(cluster.kafka_version for cluster in clusters)
    assert versions.keys() == set(KAFKA_VERSIONS)
    assert set(versions.values()) == {2, 3}


def test_no_two_brokers_have_a_client_in_common(clusters: list[SimulatedCluster]) -> None:
    for cluster in clusters:
        names = [
            {name for words in broker.clients for name in words[2:4]} for broker in cluster.brokers
        ]
        assert sum(map(len, names)) == len(set().union(*names))


def test_quotas_come_before_the_load_and_amid_it_and_amid_first_requests(
    clusters: list[SimulatedCluster],
) -> None:
    first_us: dict[tuple[str, str], int] = {}
    begins_us: dict[str, list[int]] = {}
    for broker in (broker for cluster in clusters for broker in cluster.brokers):
        for words in broker.clients:
            begins_us.setdefault(words[2], []).append(int(words[4]))
        for one in broker.changes:
            first_us.setdefault((one.quota_type, one.entity.user), one.answered_us)
    apart_us = [
        min((at_us - begin_us for begin_us in begins_us[user[1:]]), key=abs)
        for (_, user), at_us in first_us.items()
        if user[1:] in begins_us
    ]
    assert sum(apart < -SECOND for apart in apart_us) > len(apart_us) / 2
    assert sum(apart > SECOND for apart in apart_us) > len(apart_us) / 20
    assert sum(-0.05 <= apart / SECOND <= 0.15 for apart in apart_us) > len(apart_us) / 20


def test_the_last_broker_is_the_controller_and_alone_has_admins(
    clusters: list[SimulatedCluster],
) -> None:
    for cluster in clusters:
        assert [b.is_controller for b in cluster.brokers] == [False] * 9 + [True]
        for broker in cluster.brokers:
            kinds = {words[0] for words in broker.clients}
            assert kinds <= ({"mutate"} if broker.is_controller else {"produce", "fetch"})


def test_controllers_enforce_where_kraft_does_not(clusters: list[SimulatedCluster]) -> None:
    old = [c for c in clusters if c.kafka_version in ALWAYS_WITH_ZOOKEEPER]
    assert old
    assert all(cluster.uses_zookeeper for cluster in old)
    assert not all(cluster.uses_zookeeper for cluster in clusters)


def test_who_is_stopped_answers_no_quota_change(clusters: list[SimulatedCluster]) -> None:
    answered = 0
    for cluster in clusters:
        controller = cluster.brokers[-1]
        for broker in cluster.brokers:
            answering = broker if cluster.uses_zookeeper else controller
            for change in broker.changes:
                answered += 1
                for begin_us, length_us in answering.pauses:
                    is_before = change.answered_us < begin_us - ANSWERING_US
                    assert is_before or change.answered_us >= begin_us + length_us
    assert answered > 100


def test_the_next_change_of_an_entity_is_asked_when_the_one_before_is_answered(
    clusters: list[SimulatedCluster],
) -> None:
    for broker in (broker for cluster in clusters for broker in cluster.brokers):
        answered: dict[tuple[str, Entity], int] = {}
        for change in broker.changes:
            entity = change.quota_type, change.entity
            assert change.answered_us >= answered.get(entity, -ANSWERING_US) + ANSWERING_US
            answered[entity] = change.answered_us


def test_changes_are_applied_in_the_order_of_their_answers(
    clusters: list[SimulatedCluster],
) -> None:
    for cluster in clusters:
        for broker in cluster.brokers:
            words = [line.split("\t") for line in simulator_words(cluster, broker)]
            applied = [int(w[1]) for w in words if w[0] == "set"]
            assert applied == sorted(applied)
            assert len(applied) == len(cluster.changes) + len(broker.changes)
            assert words[0][0] == "broker"
            assert words[-1] == ["run"]
