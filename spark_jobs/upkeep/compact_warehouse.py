"""Few files in the place of many: those of a day's table with the same broker become one.

An ingest writes a file for each log file, a replay one for each task. Rows keep their order within
a broker, and row groups hold the rows of one broker, as the readers expect.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spark_jobs.warehouse.parquet import parquet_file
from spark_jobs.warehouse.read import check_version, whole_folder
from spark_jobs.warehouse.runs import RunOwner
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.worker_files import worker_file
from spark_jobs.warehouse.write import (
    ROWS_IN_GROUP,
    drafted_for,
    forget_previous,
    new_version,
    publish_draft,
    take_version,
)

OWNER = RunOwner("quota-audit compact")
COMPACTED = ("requests", "quarantine", "decisions", "rates", "agreement", "quota_state")
"""What workers write side by side. A file of ``rate_rollups`` has a span of its own."""
_BROKER = "broker_id"


@dataclass(frozen=True, slots=True)
class ScatteredDay:
    """A day and its tables with more files than needed: how many there are, and will be."""

    cluster: str
    day: dt.date
    files: Mapping[str, tuple[int, int]]


def scattered_days(warehouse: Path, before: dt.date | None = None) -> list[ScatteredDay]:
    """Return the days, of all clusters, with files to merge; ``before``: only earlier ones."""
    found = []
    for cluster in clusters_of_warehouse(warehouse):
        for day in days_of(warehouse, cluster):
            if before is None or day < before:
                files = _scattered(RunScope(warehouse, cluster, day))
                if files:
                    found.append(ScatteredDay(cluster, day, files))
    return found


def compact_days(
    warehouse: Path,
    days: list[ScatteredDay],
    said: Callable[[ScatteredDay], object] = lambda _: None,
) -> None:
    """Merge the files of ``days``, and remove the run before of each; tell of each that is done.

    Raises BadInputError where a day is being audited.
    """
    for one in days:
        scope = RunScope(warehouse, one.cluster, one.day)
        draft = drafted_for(scope, OWNER)
        for table in one.files:
            check_version(draft, table)
            folder, version = whole_folder(draft, table), new_version(table, draft)
            _merge(folder, version, table)
            for beside in {file.parent for file in folder.glob("*/*.parquet")}:
                _merge(beside, version / beside.name, table)
            take_version(version, table, draft)
        publish_draft(draft)
        forget_previous(scope)
        said(one)


def _scattered(scope: RunScope) -> dict[str, tuple[int, int]]:
    folders = {table: scope.partition_dir(table) for table in COMPACTED}
    counts = {}
    for table, folder in folders.items():
        groups = _groups(folder)
        files = sum(map(len, groups.values()))
        if files > len(groups):
            counts[table] = (files, len(groups))
    return counts


def _groups(folder: Path) -> dict[int | None, list[Path]]:
    """Return the files by their only broker; None: of those with several, or with none."""
    groups: defaultdict[int | None, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*.parquet")):
        groups[_broker_of(path)].append(path)
    return dict(groups)


def _broker_of(path: Path) -> int | None:
    with parquet_file(path) as file:
        footer = file.metadata
        columns = [i for i in range(footer.num_columns) if footer.schema.column(i).path == _BROKER]
        groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        told = [group.column(columns[0]).statistics for group in groups]
    if not told or not all(one is not None and one.has_min_max for one in told):
        return None
    brokers = {told_of for one in told for told_of in (one.min, one.max)}
    return brokers.pop() if len(brokers) == 1 else None


def _merge(folder: Path, version: Path, table: str) -> None:
    schema = TABLES[table]
    for broker, files in _groups(folder).items():
        name = "several" if broker is None else f"broker-{broker}"
        with worker_file(version / f"{name}.parquet", table, schema) as writer:
            for rows in _groups_of_rows(files, schema):
                writer.write_table(rows, row_group_size=ROWS_IN_GROUP)


def _groups_of_rows(files: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files in their order, some row groups together where they are small."""
    waiting: list[pa.Table] = []
    for path in files:
        with parquet_file(path) as file:
            for index in range(file.metadata.num_row_groups):
                group = file.read_row_group(index).cast(schema)
                if waiting and sum(map(len, waiting)) + len(group) > ROWS_IN_GROUP:
                    yield pa.concat_tables(waiting)
                    waiting = []
                waiting.append(group)
    if waiting:
        yield pa.concat_tables(waiting)
