"""Reading published tables without Spark, and where everything of a run lives."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import BadInputError
from spark_jobs.settings import CLUSTER_PATTERN
from spark_jobs.tables import TABLES, partition_columns


@dataclass(frozen=True, slots=True)
class RunScope:
    """One audited day of one cluster in a warehouse: what every step after ingest works on.

    Raises BadInputError where the cluster's name is none.
    """

    warehouse: Path
    cluster: str
    day: dt.date

    def __post_init__(self) -> None:
        checked_cluster(self.cluster)

    @property
    def day_before(self) -> RunScope:
        """Return the same cluster a day earlier: where its states and inventory are taken from."""
        return RunScope(self.warehouse, self.cluster, self.day - dt.timedelta(days=1))

    def partition_dir(self, table: str) -> Path:
        """Return the folder that holds this scope's rows of ``table``."""
        folder = self.warehouse / table / f"cluster={self.cluster}"
        return folder / f"date={self.day}" if "date" in partition_columns(table) else folder

    def output_dir(self, kind: str) -> Path:
        """Return the folder of files for people (``reports``, ``data_quality``, ``data_docs``)."""
        return self.warehouse / kind / f"cluster={self.cluster}" / f"date={self.day}"


def spark_path(folder: Path) -> str:
    """Return the absolute ``folder`` as Spark is told of it: of the machine's own file system.

    Without a scheme it would be the one that Hadoop's ``fs.defaultFS`` names, as HDFS on YARN.
    Not ``Path.as_uri``: Hadoop takes its percent signs for the folder's own.
    """
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
    return ds.dataset(folder, schema=schema, format="parquet", exclude_invalid_files=False)


def days_of(warehouse: Path, cluster: str, table: str = "files") -> list[dt.date]:
    """Return the days of ``cluster`` that ``table`` has a partition for, in order."""
    folder = warehouse / table / f"cluster={checked_cluster(cluster)}"
    names = (p.name.partition("=")[2] for p in folder.glob("date=*") if p.is_dir())
    return sorted(dt.date.fromisoformat(n) for n in names)


def scopes_of_days(scope: RunScope) -> list[RunScope]:
    """Return the scopes of all ingested days of the cluster of ``scope``, oldest first."""
    days = days_of(scope.warehouse, scope.cluster)
    return [RunScope(scope.warehouse, scope.cluster, day) for day in days]
