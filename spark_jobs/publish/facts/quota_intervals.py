"""Which quota held when: the timeline of each configured entity during the log."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow.dataset as ds

from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.wording.names import entity_name


@dataclass(frozen=True, slots=True)
class HeldBound:
    """One value while it held; epoch ms, None = still."""

    bound: float
    from_ms: int
    until_ms: int | None
    broker_id: int | None  # None = every broker
    source: str
    left_percent: float  # where it begins in the log's time, and how long it lasts there
    width_percent: float


@dataclass(frozen=True, slots=True)
class EntityTimeline:
    """Every value one entity's quota had during the log, in order of time."""

    quota_type: str
    quota_user: str | None
    quota_client_id: str | None
    held: tuple[HeldBound, ...]

    @property
    def entity(self) -> str:
        """Return whose quota it is, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)


def quota_timelines(scope: RunScope, span_ms: tuple[int, int]) -> tuple[EntityTimeline, ...]:
    """Return the quotas that held at some time of ``span_ms`` (first, last; epoch ms)."""
    first, last = span_ms
    begun = ds.field("valid_from_ms") <= last
    not_over = ds.field("valid_until_ms").is_null() | (ds.field("valid_until_ms") > first)
    rows = read_table(scope, "quota_changes", TABLES["quota_changes"].names, begun & not_over)
    ordered = sorted(rows.to_pylist(), key=_order)
    return tuple(
        EntityTimeline(
            quota_type, user or None, client_id or None, tuple(_held(row, span_ms) for row in group)
        )
        for (quota_type, _, user, client_id), group in groupby(ordered, key=_entity)
    )


def _entity(row: dict[str, Any]) -> tuple[str, str, str, str]:
    user, client_id = row["quota_user"], row["quota_client_id"]
    return row["quota_type"], entity_name(user, client_id), user or "", client_id or ""


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    broker_id = -1 if row["broker_id"] is None else row["broker_id"]
    return (*_entity(row), row["valid_from_ms"], broker_id, row["bound"])


def _held(row: dict[str, Any], span_ms: tuple[int, int]) -> HeldBound:
    first, last = span_ms
    length = max(last - first, 1)
    until = last if row["valid_until_ms"] is None else row["valid_until_ms"]
    left = _percent(row["valid_from_ms"] - first, length)
    return HeldBound(
        bound=row["bound"],
        from_ms=row["valid_from_ms"],
        until_ms=row["valid_until_ms"],
        broker_id=row["broker_id"],
        source=row["source"],
        left_percent=left,
        width_percent=round(_percent(until - first, length) - left, 2),
    )


def _percent(part: int, whole: int) -> float:
    return round(min(max(100.0 * part / whole, 0.0), 100.0), 2)
