from __future__ import annotations

from pathlib import Path

import numpy as np

from spark_jobs.publish.facts.timelines import POINTS_MAX, SensorHistory
from spark_jobs.publish.read_facts import sensor_histories
from spark_jobs.quota.sensor_key import SensorKey
from tests.builders.day_builder import rates
from tests.builders.tables_builder import NOON_MS, Row, scope_in, write_rows

ALICE = SensorKey(1, "producer_byte_rate", "alice", "")


def history_of(tmp_path: Path, rows: list[Row], throttled: set[int]) -> SensorHistory:
    scope = scope_in(tmp_path)
    write_rows(scope, "rates", rows)
    return sensor_histories(scope, [ALICE], {ALICE: throttled})[ALICE]


def test_a_minute_is_shown_second_by_second(tmp_path: Path) -> None:
    history = history_of(tmp_path, rates(60), {NOON_MS + 3000})
    assert (history.step_ms, len(history.start_ms)) == (1000, 60)
    assert np.flatnonzero(history.is_throttled).tolist() == [3]


def test_a_long_day_is_thinned_and_keeps_its_peaks(tmp_path: Path) -> None:
    peak = NOON_MS + 1234 * 1000
    rows = [r | {"rate": 9e9} if r["second_ms"] == peak else r for r in rates(4000)]
    history = history_of(tmp_path, rows, {peak})
    assert len(history.start_ms) <= POINTS_MAX + 1
    assert history.rate.max() == 9e9
    (at,) = np.flatnonzero(history.is_throttled)
    assert history.start_ms[at] <= peak < history.start_ms[at] + history.step_ms


def test_rows_of_another_sensor_are_not_drawn(tmp_path: Path) -> None:
    rows = [*rates(5), *rates(9, quota_user="bob"), *rates(9, broker_id=2)]
    assert len(history_of(tmp_path, rows, set()).start_ms) == 5


def test_a_missing_value_is_not_a_number(tmp_path: Path) -> None:
    history = history_of(tmp_path, rates(3, rate=None, bound=None), set())
    assert np.isnan(history.rate).all()
    assert np.isnan(history.bound).all()
