"""Rows → sensors and quotas: while a change may be on its way, it may be in force or not."""

from __future__ import annotations

import numpy as np

from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.rates.sensor_codes import CodedRows, SensorCodes
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.resolve.timeline.intervals import moved_changes, quota_intervals
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from tests.spark_jobs.ingest.quota_sources.quota_events import event

BROKER = 1
SET_MS, CHANGED_MS = 1_005, 50_005


def resolved(in_force_ms: int, at_ms: list[int], log_start_ms: int = 0) -> CodedRows:
    """Return alice's quota, changed at CHANGED_MS as answered and at ``in_force_ms`` as located."""
    events = [event("log", 1_000), event("log", 50_000, bound=200.0)]
    moments = {(BROKER, CHANGED_MS): in_force_ms}
    rows = moved_changes(quota_intervals(events, [BROKER]), moments, [BROKER])
    answered_ms = {(BROKER, in_force_ms): CHANGED_MS}
    timeline = QuotaTimeline.of_rows(rows, answered_ms=answered_ms)
    index = ClientIndex(np.zeros(len(at_ms), np.int64), [(BROKER, "alice", "app")])
    table = ResolutionTable(timeline, {BROKER: log_start_ms})
    return SensorCodes().resolve(
        table, QuotaType.PRODUCER_BYTE_RATE, index, np.array(at_ms, np.int64)
    )


def test_a_change_is_on_its_way_from_its_answer_until_it_is_located() -> None:
    rows = resolved(50_400, [40_000, 50_200, 60_000])
    assert rows.bound.tolist() == [100.0, 100.0, 200.0]
    assert rows.changes_at_ms.tolist()[:2] == [CHANGED_MS, CHANGED_MS]
    assert rows.changed_at_ms.tolist() == [SET_MS, SET_MS, 50_400]


def test_a_change_that_was_in_force_before_it_was_answered_is_on_its_way_until_then() -> None:
    rows = resolved(49_900, [40_000, 49_950])
    assert rows.bound.tolist() == [100.0, 200.0]
    assert rows.changes_at_ms.tolist()[0] == 49_900
    assert rows.changed_at_ms.tolist() == [SET_MS, CHANGED_MS]


def test_a_client_was_surely_sent_to_its_sensor_when_the_change_was_answered_and_in_force() -> None:
    rows = resolved(50_400, [40_000, 60_000])
    assert rows.joined_by_ms.tolist() == [SET_MS, SET_MS]
    # What is as old as the log may be any older.
    rows = resolved(50_400, [40_000, 60_000], log_start_ms=SET_MS)
    assert rows.joined_by_ms.tolist() == [0, 0]
