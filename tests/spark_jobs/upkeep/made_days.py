"""A small warehouse as audits publish it: days that begin with the states of the day before."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

from spark_jobs.warehouse.scope import APPENDED, RunScope
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.write import begin_draft, new_run, publish_draft, put_carried, write_table
from tests.builders.tables_builder import row

FIRST = dt.date(2026, 11, 9)
DAYS = tuple(FIRST + dt.timedelta(days=n) for n in range(3))


ALL = tuple(table for table in TABLES if table not in APPENDED)


def audit(scope: RunScope, before: str | None, tables: tuple[str, ...] = ALL) -> RunScope:
    """Publish a row of each of the tables; the states are called as the day."""
    made = begin_draft(scope, new_run())
    for table in tables:
        write_table(pa.Table.from_pylist([row(table)], TABLES[table]), table, made)
    put_carried(before, str(scope.day), made)
    return publish_draft(made)


def audited(
    warehouse: Path, days: tuple[dt.date, ...] = DAYS, tables: tuple[str, ...] = ALL
) -> list[RunScope]:
    """Audit days one after the other."""
    scopes = [RunScope(warehouse, "default", day) for day in days]
    for scope in scopes:
        before = scope.day_before
        audit(scope, str(before.day) if before.carried() else None, tables)
    return scopes
