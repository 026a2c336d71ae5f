"""Recommendations of days in a row, by entity: what tests of whole proposals look at."""

from __future__ import annotations

from typing import Any

import pyarrow.dataset as ds

from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.recommend.rolling_origin import EarlierDay
from spark_jobs.recommend.weigh.forecast import ClosedLoop
from spark_jobs.recommend.weigh.outlook import seen_day
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS
from tests.builders.tables_builder import NOON_MS, Row, row, table_of
from tests.spark_jobs.recommend.day import rates_of

BROKERS = table_of("brokers", [row("brokers", broker_id=b) for b in (1, 2)])
FIRST_DAY = NOON_MS // DAY_MS


def value(
    bound: float, user: str | None = "alice", client_id: str | None = None, **columns: Any
) -> Row:
    """Return a value in force from before the first day on."""
    return row("quota_changes", bound=bound, quota_user=user, quota_client_id=client_id, **columns)


def recommended_days(
    days: list[list[Row]],
    changes: list[Row],
    findings: list[Row] | None = None,
    closed_loop: ClosedLoop | None = None,
    **settings: Any,
) -> dict[tuple[str | None, str | None], Row]:
    """Return the last day's rows by user and client-id; the i-th decisions are moved to that day.

    ``settings`` are those of RecommendSettings that differ.
    """
    moved = [
        [d | {"recorded_at_ms": d["recorded_at_ms"] + i * DAY_MS} for d in decisions]
        for i, decisions in enumerate(days)
    ]
    tables = [table_of("decisions", decisions) for decisions in moved]
    seen = [observed(t, rates_of(rows), BROKERS) for t, rows in zip(tables, moved, strict=True)]
    earlier = [
        EarlierDay(seen_day(FIRST_DAY + i, seen[i]), ds.dataset(tables[i]), closed_loop)
        for i in range(len(days) - 1)
    ]
    found = recommend(
        seen[-1],
        tables[-1],
        table_of("quota_changes", changes),
        BROKERS,
        table_of("findings", findings or []),
        RecommendSettings(**settings),
        earlier,
        FIRST_DAY + len(days) - 1,
        closed_loop,
    )
    return {(r["quota_user"], r["quota_client_id"]): r for r in found.to_pylist()}
