from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quota_pages.history import DAY_MS, POINTS_MAX, Wanted, read_history
from spark_jobs.judge.judge_decisions import roll_up_rates
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, NOON_MS, row, write_rows

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    return RunScope(tmp_path, "east", DAY)


def wanted(from_ms: int, until_ms: int, **of: Any) -> Wanted:
    return Wanted("producer_byte_rate", "alice", "", from_ms, until_ms, **of)


def second(after_s: int, **columns: Any) -> dict[str, Any]:
    return row("rates", second_ms=NOON_MS + after_s * 1000, **columns)


def write(scope: RunScope, *seconds: dict[str, Any], throttled: tuple[int, ...] = ()) -> None:
    write_rows(scope, "rates", list(seconds))
    write_rows(scope, "decisions", [
        row("decisions", recorded_at_ms=NOON_MS + s * 1000, logged_throttle_time_ms=50,
            replayed_throttle_time_ms=50, source_line=s + 1) for s in throttled
    ])  # fmt: skip
    roll_up_rates(scope)


def test_two_hours_are_shown_by_the_second(scope: RunScope) -> None:
    write(scope, *(second(s, rate=float(s)) for s in range(10)))
    history = read_history(scope, wanted(NOON_MS + 2000, NOON_MS + 7000))
    assert history.step_ms == 1000
    (series,) = history.series
    assert series.start_ms.tolist() == [NOON_MS + s * 1000 for s in range(2, 7)]
    assert series.value.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_days_are_shown_by_the_minute_and_longer_ones_by_the_hour(scope: RunScope) -> None:
    write(scope, second(0, rate=5.0), second(59, rate=9.0), second(60, rate=2.0))
    day = read_history(scope, wanted(NOON_MS - HOUR_MS, NOON_MS + 2 * HOUR_MS))
    assert day.step_ms == MINUTE_MS
    assert day.series[0].value.tolist() == [9.0, 2.0]
    month = read_history(scope, wanted(NOON_MS - 20 * DAY_MS, NOON_MS + DAY_MS))
    assert month.step_ms == HOUR_MS
    assert month.series[0].value.tolist() == [9.0]


def test_of_mutations_the_lowest_tokens_are_shown(scope: RunScope) -> None:
    of = {"quota_type": "controller_mutation_rate"}
    write(scope, second(0, tokens=4.0, **of), second(1, tokens=-3.0, **of))
    asked = Wanted("controller_mutation_rate", "alice", "", NOON_MS, NOON_MS + 10 * HOUR_MS)
    assert read_history(scope, asked).series[0].value.tolist() == [-3.0]


def test_steps_grow_so_that_there_are_never_too_many(scope: RunScope) -> None:
    write(scope, *(second(s, rate=float(s)) for s in range(0, 7000, 2)))
    history = read_history(scope, wanted(NOON_MS, NOON_MS + 7_200_000))
    assert history.step_ms == 5000
    assert len(history.series[0].start_ms) <= POINTS_MAX
    assert history.series[0].value.max() == 6998.0
    assert history.series[0].amount.sum() == 3500 * 100_000.0


def test_brokers_are_kept_apart_and_can_be_chosen(scope: RunScope) -> None:
    write(scope, second(0, rate=1.0, broker_id=2), second(0, rate=2.0, broker_id=1))
    both = read_history(scope, wanted(NOON_MS, NOON_MS + 1000))
    assert [(s.broker_id, s.value.tolist()) for s in both.series] == [(1, [2.0]), (2, [1.0])]
    one = read_history(scope, wanted(NOON_MS, NOON_MS + 1000, broker_ids=(2,)))
    assert [s.broker_id for s in one.series] == [2]


def test_nobody_else_s_rows_are_read(scope: RunScope) -> None:
    others = (
        {"quota_user": "bob"},
        {"quota_client_id": "app"},
        {"quota_type": "consumer_byte_rate"},
    )
    write(scope, *(second(0, **other) for other in others))
    assert read_history(scope, wanted(NOON_MS, NOON_MS + HOUR_MS)).series == ()


def test_seconds_are_throttled_only_where_this_quota_throttled_the_minute(scope: RunScope) -> None:
    held = {"throttled_requests": 1, "throttle_time_ms": 50}
    write(scope, second(0, **held), second(70, **held), throttled=(0,))
    (series,) = read_history(scope, wanted(NOON_MS, NOON_MS + 120_000)).series
    assert series.throttled_requests.tolist() == [1, 0]
    assert series.throttle_time_ms.tolist() == [50, 0]


def test_a_day_without_seconds_is_shown_by_the_minute(scope: RunScope) -> None:
    write(scope, second(0))
    for file in scope.partition_dir("rates").glob("*"):
        file.unlink()
    assert read_history(scope, wanted(NOON_MS, NOON_MS + HOUR_MS)).step_ms == MINUTE_MS


def test_days_follow_one_another(scope: RunScope, tmp_path: Path) -> None:
    write(scope, second(0, rate=1.0))
    next_day = RunScope(tmp_path, "east", DAY + dt.timedelta(days=1))
    write_rows(next_day, "rates", [row("rates", second_ms=NOON_MS + DAY_MS, rate=2.0)])
    roll_up_rates(next_day)
    history = read_history(scope, wanted(NOON_MS, NOON_MS + 2 * DAY_MS))
    assert history.series[0].value.tolist() == [1.0, 2.0]
    assert np.diff(history.series[0].start_ms).tolist() == [DAY_MS]
