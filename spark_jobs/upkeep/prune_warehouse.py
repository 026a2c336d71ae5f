"""Removing large tables of days that are old."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.runs import RunOwner, write_run
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.write import drafted_for, forget_previous, publish_draft, take_version

OWNER = RunOwner("quota-audit prune")

PRUNABLE = {
    "requests": 1,
    "quarantine": 1,
    "rates": 1,
    # Recommendations try their proposals on the decisions of so many days.
    "decisions": 28,
}
"""The large tables, and the least number of days of each. All others tell one day of another:
findings and states, the manifest of files, demand, quotas; and they are small."""


@dataclass(frozen=True, slots=True)
class OldDay:
    """A day with tables that are too old, and their bytes."""

    cluster: str
    day: dt.date
    bytes_of: Mapping[str, int]


def old_tables(
    warehouse: Path, kept: Mapping[str, int], now: dt.datetime | None = None
) -> list[OldDay]:
    """Return the days, of all clusters, with tables older than ``kept`` (days by table) says.

    Days of the future, seen from ``now`` (None: the clock), make none old.
    """
    latest, found = IngestSettings().latest_day(now), []
    for cluster in clusters_of_warehouse(warehouse):
        for day, tables in old_days(days_of(warehouse, cluster), kept, latest):
            scope = RunScope(warehouse, cluster, day)
            folders = {table: scope.partition_dir(table) for table in tables}
            bytes_of = {t: bytes_below(f) for t, f in folders.items() if f.is_dir()}
            if bytes_of:
                found.append(OldDay(cluster, day, bytes_of))
    return found


def prune_days(
    warehouse: Path,
    days: list[OldDay],
    kept: Mapping[str, int],
    said: Callable[[OldDay], object] = lambda _: None,
) -> None:
    """Remove the tables of ``days``, and the run before of each; tell of each day that is done.

    Raises BadInputError where a day is being audited.
    """
    for one in days:
        scope = RunScope(warehouse, one.cluster, one.day)
        draft = drafted_for(scope, OWNER)
        for table in one.bytes_of:
            take_version(None, table, draft)
        assert draft.run is not None
        removed = draft.pruned() | {table: str(kept[table]) for table in one.bytes_of}
        write_run(scope.runs, draft.run, draft.tables() or {}, pruned=removed)
        publish_draft(draft)
        forget_previous(scope)
        said(one)


def old_days(
    audited: Collection[dt.date], kept: Mapping[str, int], latest: dt.date
) -> list[tuple[dt.date, tuple[str, ...]]]:
    """Return the days of which tables are too old, oldest first.

    Counted from the newest audited day, not from today: a warehouse that rests loses nothing. A
    day after ``latest`` is of a wrong clock, and nothing is counted from it. The requests of a day
    stay until the day after it is audited, whose replay reads its last minutes.
    """
    known = sorted(day for day in audited if day <= latest)
    newest = max(known, default=dt.date.min)
    found = []
    for day in known:
        tables = [table for table, days in kept.items() if (newest - day).days >= days]
        if day + dt.timedelta(days=1) not in audited and "requests" in tables:
            tables.remove("requests")
        if tables:
            found.append((day, tuple(tables)))
    return found


def kept_days(defaults: Mapping[str, int], asked: Iterable[str]) -> dict[str, int]:
    """Return the number of days kept of each table; ``asked`` has ``table=days``, and wins.

    Raises BadInputError for what is no such table, or too few days of it.
    """
    kept = dict(defaults)
    for text in asked:
        table, _, number = text.partition("=")
        if not number.isascii() or not number.isdigit():
            raise BadInputError(
                f"{text[:120]!r} is no retention: expected table=days, requests=14."
            )
        kept[table] = int(number)
    for table, days in kept.items():
        if table not in PRUNABLE:
            raise BadInputError(
                f"The table {table[:120]!r} is not removed by age: expected one of "
                f"{', '.join(PRUNABLE)}. The others are small, and later days need them."
            )
        if days < PRUNABLE[table]:
            raise BadInputError(
                f"{days} days of {table} are too few: expected at least {PRUNABLE[table]}."
            )
    return kept


def bytes_below(folder: Path) -> int:
    """Return the size of the Parquet files of a table's folder, and of the one below it."""
    files = (*folder.glob("*.parquet"), *folder.glob("*/*.parquet"))
    return sum(file.stat().st_size for file in files)
