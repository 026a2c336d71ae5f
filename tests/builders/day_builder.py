"""Days of one cluster as the report reads them: throttled, quiet, empty, with hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, write_day, write_rows

HOSTILE = '<script>alert("x")</script>\u202e&{{ 7*7 }}'
SECOND_MS = 1000


def decision(number: int, **overrides: Any) -> Row:
    """Return a decision of its own request: line, time and correlation id follow ``number``."""
    own = {
        "correlation_id": number,
        "source_line": number + 1,
        "sensor_seq": number,
        "recorded_at_ms": NOON_MS + number * SECOND_MS,
        "log_time_ms": NOON_MS + number * SECOND_MS + 3,
    }
    return row("decisions", **own | overrides)


def throttled(number: int, throttle_time_ms: int, **overrides: Any) -> Row:
    """Return a decision whose request was throttled as long as the replay says."""
    times = {
        "logged_throttle_time_ms": throttle_time_ms,
        "replayed_throttle_time_ms": throttle_time_ms,
        "rate": 60_000.0,
    }
    return decision(number, **times | overrides)


def rates(seconds: int, **overrides: Any) -> list[Row]:
    """Return one row of ``rates`` a second, the rate growing by 1,000 a second."""
    return [
        row("rates", **{"second_ms": NOON_MS + s * SECOND_MS, "rate": 1_000.0 * s} | overrides)
        for s in range(seconds)
    ]


def quiet_day(warehouse: Path) -> RunScope:
    """Write a day with a quota and traffic, but no throttle, finding or recommendation."""
    scope = write_day(scope_in(warehouse))
    write_rows(scope, "decisions", [decision(n) for n in range(20)])
    write_rows(scope, "rates", rates(20))
    write_rows(scope, "findings", [])
    write_rows(scope, "recommendations", [])
    return scope


def busy_day(warehouse: Path, user: str = "alice", clients: int = 1) -> RunScope:
    """Write a day on which ``user`` and ``clients - 1`` others were throttled for 2 s each."""
    scope = write_day(scope_in(warehouse))
    names = [user, *(f"tenant-{n}" for n in range(1, clients))]
    throttles = [
        throttled(10 * n + k, 1000, quota_user=name, user=name)
        for n, name in enumerate(names)
        for k in range(2)
    ]
    write_rows(scope, "decisions", throttles)
    histories = [r for name in names for r in rates(60, quota_user=name)]
    write_rows(scope, "rates", histories)
    explanation = f"Broker 1 throttled user '{user}' too little."
    write_rows(scope, "findings", [row("findings", quota_user=user, explanation=explanation)])
    write_rows(scope, "recommendations", [row("recommendations", quota_user=user)])
    return scope


def empty_day(warehouse: Path) -> RunScope:
    """Return a day of which no table has a row, or even a folder."""
    return scope_in(warehouse)
