"""Writing small tables without Spark: a partition is replaced by one rename."""

from __future__ import annotations

import shutil
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.tables import TABLES
from spark_jobs.warehouse import RunScope


def write_local(rows: pa.Table, table: str, scope: RunScope) -> None:
    """Replace this scope's partition of ``table`` by ``rows``; no rows leave an empty partition.

    The new files are complete beside the old ones before they take their place, so a reader sees
    the old partition or the new one.
    """
    target = scope.partition_dir(table)
    staged = target.parent / f".staged-{uuid.uuid4().hex}"
    staged.mkdir(parents=True)
    pq.write_table(rows.cast(TABLES[table]), staged / "part-0.parquet", compression="zstd")
    retired = target.parent / f".retired-{uuid.uuid4().hex}"
    if target.exists():
        target.rename(retired)
    staged.rename(target)
    shutil.rmtree(retired, ignore_errors=True)
