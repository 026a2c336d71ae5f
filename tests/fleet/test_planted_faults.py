"""What a sound broker gives is known of every produce, and each fault leaves a trace."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from tests.fleet.fleet_table import WIDTH
from tests.fleet.planted_faults import (
    ALTERED,
    LATE_CHANGE,
    LOST_STATE,
    OTHER_VERSIONS,
    SKIPPED,
    WRONG_BOUND,
    WRONG_BUCKET,
    Decision,
    Fault,
    due_throttles_ms,
    faulty_words,
    planted_faults,
    with_lasting_admins,
)
from tests.fleet.random_cluster import simulated_cluster
from tests.fleet.simulated_faults import Judged, is_planted, print_faults
from tests.fleet.simulated_plan import PRODUCE, SimulatedCluster
from tests.fleet.simulated_run import simulate

BROKERS = 30
SIZES = {WRONG_BOUND: 0.5, LATE_CHANGE: 20.0, ALTERED: 400.0}


def wrong_by_ms(
    cluster: SimulatedCluster, faults: dict[int, Fault], folder: Path, said: str | None = None
) -> dict[Decision, int]:
    """Return by how much each throttle of a broker that can have a fault is not what was due."""
    rows = simulate(cluster, folder, partial(faulty_words, faults=faults), said)
    due_ms = due_throttles_ms(rows, cluster, said or cluster.kafka_version)
    plain = planted_faults(cluster)
    return {
        key: row.throttle_ms - due_ms[key]
        for row in rows
        if row.kind == "produce" and row.broker_id in plain
        for key in [(row.broker_id, row.connection, row.correlation_id)]
    }


def wrong_brokers(wrong: dict[Decision, int]) -> set[int]:
    return {broker_id for (broker_id, *_), by_ms in wrong.items() if by_ms}


@pytest.mark.jvm
@pytest.mark.parametrize("version", ["3.2.3", "3.7.2", "4.4.0"])
def test_a_sound_broker_throttles_what_is_due_and_another_profile_does_not(
    version: str, tmp_path: Path
) -> None:
    cluster = simulated_cluster(78, 1, version, BROKERS)
    wrong = wrong_by_ms(cluster, {}, tmp_path / "sound")
    assert len(wrong) > 2_000
    assert not wrong_brokers(wrong)
    other = wrong_by_ms(cluster, {}, tmp_path / "other", OTHER_VERSIONS[version])
    assert wrong_brokers(other)


@pytest.mark.jvm
@pytest.mark.parametrize(
    "kind", [WRONG_BOUND, LOST_STATE, LATE_CHANGE, WRONG_BUCKET, SKIPPED, ALTERED]
)
def test_a_fault_leaves_a_trace_on_its_own_broker_alone(kind: str, tmp_path: Path) -> None:
    cluster = simulated_cluster(78, 1, "4.1.0", BROKERS)
    first = {
        broker.broker_id: next(words[1] for words in broker.clients if words[0] == "produce")
        for broker in cluster.brokers[: BROKERS // 2]
        if any(change.quota_type == PRODUCE for change in broker.changes)
    }
    faults = {
        broker_id: Fault(
            kind, SIZES.get(kind, 0.0), cluster.load_begins_us + 17_000_000, connection
        )
        for broker_id, connection in first.items()
    }
    found = wrong_brokers(wrong_by_ms(cluster, faults, tmp_path / "faulty"))
    assert found
    assert found <= faults.keys()


def test_a_broker_of_a_fault_has_a_connection_that_lasts_from_before_its_load_until_after() -> None:
    cluster = simulated_cluster(78, 1, "4.1.0", BROKERS)
    faults = planted_faults(cluster)
    lasting = with_lasting_admins(cluster)
    assert planted_faults(lasting) == faults
    for before, broker in zip(cluster.brokers, lasting.brokers, strict=True):
        if broker.broker_id not in faults:
            assert broker == before
            continue
        asked_us = [change.answered_us for change in broker.changes]
        assert min(asked_us) < cluster.load_begins_us
        assert max(asked_us) == cluster.end_us


def test_the_tables_tell_what_was_planted_found_and_missed() -> None:
    bound, skipped = Fault(WRONG_BOUND, 0.5), Fault(SKIPPED)
    judged = [
        Judged(bound, "a", 500, is_found=True, is_told=True, said="over_throttled", pause_ms=0),
        Judged(bound, "a", 40, is_found=False, is_told=True, said="sample_timing", pause_ms=0),
        Judged(bound, "a", 2, is_found=True, is_told=True, said="over_throttled", pause_ms=0),
        Judged(skipped, "b", -90, is_found=False, is_told=False, said="agree", pause_ms=300),
        Judged(skipped, "b", 0, is_found=False, is_told=False, said="agree", pause_ms=300),
    ]
    assert [is_planted(one) for one in judged] == [True, True, False, True, False]
    told = io.StringIO()
    print_faults(Console(width=WIDTH, file=told), judged)
    text = told.getvalue()
    assert "2 of 3 planted decisions told, 0.6667; 1 found: recall 0.3333, precision 0.5000" in text
    assert "1 of 2 sound ones called wrong" in text
    assert "1 of the others are what a sound broker gives" in text
    assert "without them 1.0000" in text
    assert "not told: b, Fault(kind='skipped throttles'" in text
    assert "wrong bound       │ 5: from 2" in text
    assert [line for line in text.splitlines() if line.startswith("│ agree │ 1 ")]
    # The throttle that agrees is of no size: nothing was missed that can be told.
    (row,) = [line for line in text.splitlines() if line.startswith("│ wrong bound │")]
    assert [cell.strip() for cell in row.split("│")[2:-1]] == [
        "1", "1", "0", "1", "2", "2", "1.0000",
    ]  # fmt: skip
    assert not [line for line in text.splitlines() if line.startswith("│ skipped throttles │ 0 ")]
    (row,) = [line for line in text.splitlines() if line.startswith("│ 1: from 2 ")]
    assert row.split("│")[2:5] == [" 1      ", " 1    ", " 1.0000 "]
