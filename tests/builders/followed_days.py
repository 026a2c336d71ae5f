"""Ten audited days with four faults: one that stays, one that grows, one mended, one known."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from spark_jobs.publish.follow.problem import problems_of
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, Row, row, write_rows

CLUSTER = "prod"
DAYS = 10
GROWTH = 1.3
MENDED_ON, KNOWN_FROM, KNOWN_UNTIL, SPREADS_ON = 4, 2, 6, 8
"""Counted from the first day: the day without the fault, and the days of the acknowledgement."""


def day_of(place: int) -> dt.date:
    """Return a day, counted from the first."""
    return DAY + dt.timedelta(days=place)


def scope_of(warehouse: Path, place: int) -> RunScope:
    """Return a day's audit."""
    return RunScope(warehouse, CLUSTER, day_of(place))


def findings_on(place: int) -> list[Row]:
    """Return what is found on a day."""
    found = [
        _finding("same", 40),
        _finding("growing", round(40 * GROWTH**place)),
        _finding("known", 400 if place >= SPREADS_ON else 40, kind="over_throttled"),
    ]
    if place < MENDED_ON:
        found.append(_finding("mended", 500, kind="not_enforced", severity="critical"))
    return found


def write_days(warehouse: Path) -> list[RunScope]:
    """Write ten days; return them."""
    scopes = [scope_of(warehouse, place) for place in range(DAYS)]
    for place, scope in enumerate(scopes):
        write_rows(scope, "findings", findings_on(place))
        write_rows(
            scope,
            "rate_rollups",
            [
                row("rate_rollups", span_ms=86_400_000, quota_user=user)
                for user in ("same", "growing", "known", "mended")
            ],
        )
    (warehouse / "acknowledged.yaml").write_text(_acknowledged(scopes[KNOWN_FROM]), "utf-8")
    (warehouse / "owners.yaml").write_text(OWNERS, "utf-8")
    return scopes


OWNERS = """\
owners:
  - match: growing|mended
    part: user
    team: Orders
    contact: "#orders"
"""


def _finding(user: str, decisions: int, **more: object) -> Row:
    kind = str(more.get("kind", "under_throttled"))
    return row(
        "findings",
        finding_id=f"{user}-{kind}",
        quota_user=user,
        decisions=decisions,
        explanation=f"Broker 1 was wrong about {user} {decisions} times.",
        **more,
    )


def _acknowledged(scope: RunScope) -> str:
    known = _finding("known", 40, kind="over_throttled")
    (problem_id,) = problems_of([known], CLUSTER)
    return f"""\
acknowledged:
  - finding: {problem_id}
    since: {scope.day}
    until: {day_of(KNOWN_UNTIL)}
    owner: Ada
    reason: its broker is replaced next week
    severity: warning
    decisions: 40
  - finding: {problem_id}
    since: {day_of(KNOWN_UNTIL + 1)}
    until: {day_of(DAYS)}
    owner: Ada
    reason: replaced a week later
    severity: warning
    decisions: 40
"""
