"""Removing large tables of days that are old."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.upkeep.retention import old_days
from spark_jobs.warehouse.runs import write_run
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.write import drafted_for, forget_previous, publish_draft, take_version

OWNER = "quota-audit prune"


@dataclass(frozen=True, slots=True)
class OldDay:
    """A day with tables that are too old, and their bytes."""

    cluster: str
    day: dt.date
    bytes_of: Mapping[str, int]


def old_tables(warehouse: Path, kept: Mapping[str, int]) -> list[OldDay]:
    """Return what is older than ``kept`` says, days by table; of all clusters."""
    found = []
    for cluster in clusters_of_warehouse(warehouse):
        for day, tables in old_days(days_of(warehouse, cluster), kept):
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


def bytes_below(folder: Path) -> int:
    """Return the size of the Parquet files of a table's folder, and of the one below it."""
    files = (*folder.glob("*.parquet"), *folder.glob("*/*.parquet"))
    return sum(file.stat().st_size for file in files)
