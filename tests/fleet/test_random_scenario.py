from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES
from tests.fleet.live_run import KAFKA_VERSIONS
from tests.fleet.random_scenario import LOAD_BEGINS_MS, layouts, random_scenario
from tests.oracle.cluster_plan import check_layout, parse_version
from tests.oracle.scenario import (
    Consume,
    Failover,
    Mutate,
    Pause,
    Produce,
    Quota,
    Restart,
    Scenario,
    parse_scenario,
)

LOAD_MS = 60_000
SEEDS = range(150)


@cache
def drawn() -> list[tuple[str, Scenario]]:
    """Return scenarios of many seeds with their versions; each was accepted by the lab's parser."""
    versions = [(seed, KAFKA_VERSIONS[seed % len(KAFKA_VERSIONS)]) for seed in SEEDS]
    return [
        (version, parse_scenario(random_scenario(str(seed), version, LOAD_MS, seed % 3 == 0)))
        for seed, version in versions
    ]


def steps(kind: type) -> list[object]:
    return [step for _, scenario in drawn() for _, step in scenario.steps if isinstance(step, kind)]


def test_the_same_seed_draws_the_same_scenario_and_another_one_does_not() -> None:
    texts = [random_scenario(seed, "4.1.0", LOAD_MS, True) for seed in ("7", "7", "8")]
    assert texts[0] == texts[1] != texts[2]


def test_every_scenario_can_run_on_its_version() -> None:
    for version, scenario in drawn():
        check_layout(version, scenario.cluster.layout)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.8.2", ("zookeeper",)),
        ("3.9.1", ("combined", "dedicated", "zookeeper")),
        ("4.4.0", ("combined", "dedicated")),
    ],
)
def test_every_layout_of_a_version_is_drawn(version: str, expected: tuple[str, ...]) -> None:
    assert layouts(version) == expected
    texts = [random_scenario(str(seed), version, LOAD_MS, False) for seed in range(30)]
    assert {parse_scenario(text).cluster.layout for text in texts} == set(expected)


def test_the_load_lasts_as_long_as_asked() -> None:
    for _, scenario in drawn():
        ends = [
            step.at_ms + step.duration_ms
            for _, step in scenario.steps
            if isinstance(step, Produce | Consume | Mutate)
        ]
        assert LOAD_BEGINS_MS + LOAD_MS // 2 < max(ends) <= LOAD_BEGINS_MS + LOAD_MS


def test_processes_are_busy_beside_it_where_that_was_asked() -> None:
    for seed, (_, scenario) in zip(SEEDS, drawn(), strict=True):
        assert ("busy" in scenario.text) == (seed % 3 == 0)


def test_clients_are_of_all_kinds() -> None:
    produces = [step for step in steps(Produce) if isinstance(step, Produce)]
    assert {step.acks for step in produces} == {"0", "1", "all"}
    assert {step.is_idempotent for step in produces} == {True, False}
    assert {step.record_bytes_max is None for step in produces} == {True, False}
    assert any(step.user == "-" for step in produces)
    assert {step.mode for step in steps(Mutate) if isinstance(step, Mutate)} == {
        "strict", "permissive",
    }  # fmt: skip


def test_one_to_twelve_clients_share_a_client_id() -> None:
    most = 0
    for _, scenario in drawn():
        begun = Counter(
            (step.user, step.client_id)
            for _, step in scenario.steps
            if isinstance(step, Produce) and step.duration_ms > LOAD_MS * 0.9
        )
        most = max(most, *begun.values(), 0)
    assert most >= 8


def test_several_admins_share_a_bucket() -> None:
    shared = [
        scenario
        for _, scenario in drawn()
        if sum(isinstance(step, Mutate) for _, step in scenario.steps) > 1
        and "quota user=carol controller_mutation_rate" in scenario.text
    ]
    assert len(shared) > 5


def test_quotas_of_all_types_and_levels_are_set_changed_and_removed_under_load() -> None:
    quotas = [step for step in steps(Quota) if isinstance(step, Quota)]
    assert {kind for step in quotas for kind in step.bounds} == set(QUOTA_TYPES)
    levels = {
        tuple(sorted((part, name == DEFAULT) for part, name in step.entity.items()))
        for step in quotas
    }
    assert len(levels) == 8
    late = [step for step in quotas if step.at_ms > LOAD_BEGINS_MS + 5000]
    assert {value is None for step in late for value in step.bounds.values()} == {True, False}


def test_nodes_are_restarted_paused_and_lose_their_leader() -> None:
    assert steps(Restart)
    assert steps(Failover)
    pauses = [step.duration_ms for step in steps(Pause) if isinstance(step, Pause)]
    assert any(length <= 700 for length in pauses)
    assert any(length > 1000 for length in pauses)
    # Longer, and the controller takes the broker for dead.
    assert 50 <= min(pauses) <= max(pauses) <= 4000


def test_only_nodes_that_exist_and_run_are_paused_or_restarted() -> None:
    for _, scenario in drawn():
        nodes = {1, 2}
        if scenario.cluster.layout == "dedicated" and "failover" not in scenario.text:
            nodes |= {11, 12, 13}
        asked = {step.node_id for step in scenario.lab_steps if isinstance(step, Pause | Restart)}
        assert asked <= nodes


def test_no_bucket_is_set_where_the_controller_would_not_enforce_it() -> None:
    for version, scenario in drawn():
        if parse_version(version) < (3, 5, 0) and scenario.cluster.layout != "zookeeper":
            assert "controller_mutation_rate" not in scenario.text


def test_bytes_are_whole_numbers_as_kafka_asks() -> None:
    for step in steps(Quota):
        assert isinstance(step, Quota)
        for kind, value in step.bounds.items():
            assert value is None or not kind.endswith("byte_rate") or value == int(value)
