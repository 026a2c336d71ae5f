"""Staged decisions of a day on which a broker went down, and perhaps a quota with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.replay.unlogged_changes import leave_unlogged_open, unlogged_changes
from spark_jobs.warehouse.parquet import parquet_file, write_parquet
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import DECISIONS
from tests.builders.tables_builder import NOON_MS, row, scope_in, table_of, write_day, write_rows

KNOWN, UNLOGGED, TOLERANCE_MS = 50_000.0, 25_000.0, 5
SILENT_FROM_MS, UP_MS = NOON_MS + 10_000, NOON_MS + 17_000
AGAIN_MS = NOON_MS + 60_000

Row = dict[str, Any]


def event(bound: float, at_ms: int, source: str = "log") -> Row:
    """Return a row of ``quota_events``."""
    return row("quota_events", bound=bound, earliest_ms=at_ms, latest_ms=at_ms, source=source)


def decided(seconds: int, rate: float, held_to: float, **columns: Any) -> Row:
    """Return what broker 2 decided so long after noon, by a value that may not be the known one."""
    logged, replayed = (round(max(rate / b - 1.0, 0.0) * 10_000) for b in (held_to, KNOWN))
    verdict = "agree" if logged == replayed else "over_throttled"
    own = {
        "broker_id": 2,
        "recorded_at_ms": NOON_MS + 1000 * seconds,
        "rate": rate,
        "logged_throttle_time_ms": logged,
        "replayed_throttle_time_ms": replayed,
        "verdict": verdict,
    }
    return row("decisions", **own | columns)


def day(warehouse: Path, *events: Row) -> RunScope:
    """Return a day on which broker 1 wrote no line from SILENT_FROM_MS to UP_MS."""
    scope = write_day(scope_in(warehouse))
    lines = [row("requests", log_time_ms=at_ms) for at_ms in (NOON_MS, SILENT_FROM_MS, UP_MS)]
    write_rows(scope, "requests", lines)
    write_rows(scope, "broker_starts", [row("broker_starts", started_ms=UP_MS)])
    write_rows(scope, "quota_events", [event(KNOWN, NOON_MS - 60_000), *events])
    return scope


def staged(folder: Path, *rows: Row) -> Path:
    """Write ``rows`` as staged decisions, in two files; return their folder."""
    folder.mkdir()
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        table = table_of("decisions", list(part)).cast(DECISIONS)
        write_parquet(table, "decisions", folder / f"part-{number}.parquet")
    return folder


def verdicts(folder: Path) -> list[tuple[str, str | None]]:
    """Return verdict and reason of each staged row."""
    found = []
    for path in sorted(folder.glob("*.parquet")):
        with parquet_file(path) as opened:
            rows = opened.read(columns=["verdict", "reason"]).to_pylist()
        found += [(each["verdict"], each["reason"]) for each in rows]
    return found


OPEN, WRONG = ("indeterminate", "unlogged_change"), ("over_throttled", None)
RIGHT = ("agree", None)
SINCE = tuple(decided(12 + n, 30_000.0 + 1000 * n, UNLOGGED) for n in range(6))
BEFORE = decided(5, 60_000.0, KNOWN)


def test_what_an_unlogged_change_explains_accuses_nobody(tmp_path: Path) -> None:
    """Until the quota is set again; the report says which quota, and what throttles tell."""
    scope = day(tmp_path / "warehouse", event(20_000.0, AGAIN_MS))
    later = decided(61, 40_000.0, 25_000.0)
    folder = staged(tmp_path / "decisions", BEFORE, *SINCE, later)
    counted, told = leave_unlogged_open(folder, scope, TOLERANCE_MS)
    assert verdicts(folder) == [RIGHT, *[OPEN] * 6, WRONG]
    assert {k: n for k, n in counted.items() if n} == {"indeterminate": 6, "over_throttled": -6}
    assert unlogged_changes(told) == (
        "\nnote: throttles tell that producer_byte_rate of user 'alice' was changed from 50,000 "
        "B/s to about 25 kB/s as broker 1 went down at 12:00:10 UTC, which the log does not "
        "hold; nobody is accused of 6 decisions until the quota is known again"
    )


@pytest.mark.parametrize(
    ("events", "downtime"),
    [
        pytest.param((), False, id="no broker went down"),
        pytest.param((event(KNOWN, UP_MS + 500, "snapshot"),), True, id="a snapshot tells it"),
    ],
)
def test_nothing_is_taken_back_where_no_change_can_be(
    tmp_path: Path, events: tuple[Row, ...], downtime: bool
) -> None:
    """A value that a snapshot tells was not changed: a change back would have left a line."""
    scope = day(tmp_path / "warehouse", *events)
    if not downtime:
        write_rows(scope, "broker_starts", [])
    folder = staged(tmp_path / "decisions", BEFORE, *SINCE)
    counted, told = leave_unlogged_open(folder, scope, TOLERANCE_MS)
    assert (counted, told) == ({}, [])
    assert verdicts(folder) == [RIGHT, *[WRONG] * 6]


def test_decisions_on_another_quota_stay_wrong(tmp_path: Path) -> None:
    """A change of one user's quota excuses nothing of another one's."""
    scope = day(tmp_path / "warehouse")
    odd = (30_000.0, 40_000.0, 90_000.0, 35_000.0)
    of_bob = [
        decided(13 + n, rate, 10_000.0 + 7_000 * n, user="bob", quota_user="bob")
        for n, rate in enumerate(odd)
    ]
    folder = staged(tmp_path / "decisions", BEFORE, *SINCE, *of_bob)
    leave_unlogged_open(folder, scope, TOLERANCE_MS)
    assert verdicts(folder) == [RIGHT, *[OPEN] * 6, *[WRONG] * 4]
