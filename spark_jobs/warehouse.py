"""Reading tables without Spark, and where everything of a day lives."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.arrow_places import on_arrow
from spark_jobs.day_runs import (
    carried_of,
    day_folder,
    days_with_runs,
    draft_of,
    published_run,
    run_tables,
)
from spark_jobs.errors import BadInputError
from spark_jobs.places import is_in_bucket
from spark_jobs.settings import CLUSTER_PATTERN
from spark_jobs.tables import TABLES, partition_columns

APPENDED = frozenset({"applied_changes"})
"""Tables that grow by a file at a time and belong to no run."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """One audited day of one cluster in a warehouse: what every step after ingest works on.

    ``run`` is the run whose tables are meant; None: whichever is published when they are asked
    for. Raises BadInputError where the cluster's name is none.
    """

    warehouse: Path
    cluster: str
    day: dt.date
    run: str | None = None

    def __post_init__(self) -> None:
        checked_cluster(self.cluster)

    @property
    def day_before(self) -> RunScope:
        """Return the same cluster a day earlier: where its states and inventory are taken from."""
        return self.on(self.day - dt.timedelta(days=1))

    @property
    def day_after(self) -> RunScope:
        """Return the same cluster a day later: what followed tells of a day's last throttles."""
        return self.on(self.day + dt.timedelta(days=1))

    def on(self, day: dt.date) -> RunScope:
        """Return another day as this run has it; as published where the run did not write it."""
        other = replace(self, day=day)
        is_own = self.run is not None and run_tables(other.runs, self.run) is not None
        return other if is_own else replace(other, run=None)

    @property
    def runs(self) -> Path:
        """Return the folder of the day's runs."""
        return day_folder(self.warehouse, self.cluster, self.day)

    def pinned(self) -> RunScope:
        """Return this day as published now: a later run does not change what it reads."""
        return replace(self, run=self.run or published_run(self.runs))

    def newest(self) -> RunScope:
        """Return this day as the run has it that is being made; as published where none is."""
        draft = draft_of(self.runs)
        return replace(self, run=draft[0]) if draft else self.pinned()

    def tables(self) -> dict[str, str] | None:
        """Return where the tables are, below the warehouse; None where no run says so."""
        run = self.run or published_run(self.runs)
        return None if run is None else run_tables(self.runs, run)

    def carried(self) -> dict[str, str | None] | None:
        """Return digests of the states the day's replay began with and ended with, if known."""
        run = self.run or published_run(self.runs)
        return None if run is None else carried_of(self.runs, run)

    def partition_dir(self, table: str) -> Path:
        """Return the folder that holds this scope's rows of ``table``; none is there if it is none.

        Warehouses of earlier versions have no runs: their only folder of a day is the plain one.
        """
        tables = None if table in APPENDED else self.tables()
        if tables is not None and table in tables:
            return self.warehouse / tables[table]
        return self.plain_dir(table) if self.run is None else self.runs / "absent" / table

    def plain_dir(self, table: str) -> Path:
        """Return where other tools find the published rows of ``table``."""
        folder = self.warehouse / table / f"cluster={self.cluster}"
        return folder / f"date={self.day}" if "date" in partition_columns(table) else folder

    def output_dir(self, kind: str) -> Path:
        """Return the folder of files for people (``reports``, ``data_quality``, ``data_docs``)."""
        return self.warehouse / kind / f"cluster={self.cluster}" / f"date={self.day}"


def spark_path(folder: Path) -> str:
    """Return the absolute ``folder`` as Spark is told of it: with the scheme of what holds it.

    Without one it would be what Hadoop's ``fs.defaultFS`` names, as HDFS on YARN. Not
    ``Path.as_uri``: Hadoop takes its percent signs for the folder's own.
    """
    if is_in_bucket(folder):
        return f"s3a://{str(folder).partition('://')[2]}"
    return f"file://{folder}"


def checked_cluster(name: str) -> str:
    """Return ``name``; raises BadInputError where it could leave its folder, or is none."""
    if not re.fullmatch(CLUSTER_PATTERN, name):
        raise BadInputError(
            f"{name[:120]!r} is no name of a cluster: expected up to 100 of the characters A-Z, "
            "a-z, 0-9, '.', '_' and '-', the first a letter or digit, as in east-1. Choose another "
            "with --cluster, or rename the archive's folder cluster=<name>."
        )
    return name


def read_table(scope: RunScope, table: str, columns: list[str] | None = None) -> pa.Table:
    """Return this scope's rows of ``table`` with the contract's schema; no rows if none exist."""
    schema = TABLES[table]
    wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns])
    return open_table(scope, table).to_table(columns=wanted.names).cast(wanted)


def open_table(scope: RunScope, table: str) -> ds.Dataset:
    """Return this scope's rows of ``table`` to be read in portions; no rows if none exist."""
    schema = TABLES[table]
    folder = scope.partition_dir(table)
    if not folder.is_dir():
        return ds.dataset(schema.empty_table())
    source, filesystem = on_arrow(folder)
    return ds.dataset(
        source, schema=schema, format="parquet", filesystem=filesystem, exclude_invalid_files=False
    )


def days_of(warehouse: Path, cluster: str, table: str = "files") -> list[dt.date]:
    """Return the days of ``cluster`` that ``table`` has a partition for, in order."""
    folder = warehouse / table / f"cluster={checked_cluster(cluster)}"
    names = (p.name.partition("=")[2] for p in folder.glob("date=*"))
    known = {dt.date.fromisoformat(n) for n in names} | set(days_with_runs(warehouse, cluster))
    return sorted(
        day for day in known if RunScope(warehouse, cluster, day).partition_dir(table).is_dir()
    )


def scopes_of_days(scope: RunScope) -> list[RunScope]:
    """Return all ingested days of the cluster as the run of ``scope`` has them, oldest first."""
    days = set(days_of(scope.warehouse, scope.cluster))
    if scope.run is not None:
        days |= set(days_with_runs(scope.warehouse, scope.cluster))
    scopes = [scope.on(day) for day in sorted(days)]
    return [one for one in scopes if one.partition_dir("files").is_dir()]
