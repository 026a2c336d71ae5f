"""Writing small tables without Spark: a partition is replaced by one rename."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.tables import TABLES
from spark_jobs.warehouse import RunScope


def write_local(
    rows: pa.Table, table: str, scope: RunScope, rows_in_group: int | None = None
) -> None:
    """Replace this scope's partition of ``table`` by ``rows``; no rows leave an empty partition.

    The new files are complete beside the old ones before they take their place, so a reader sees
    the old partition or the new one. A reader who wants few of the rows reads whole groups of
    ``rows_in_group`` (None: Arrow's default).
    """
    of_contract = rows.cast(TABLES[table])
    target = scope.partition_dir(table)
    staged = target.parent / f".staged-{uuid.uuid4().hex}"
    staged.mkdir(parents=True)
    try:
        pq.write_table(
            of_contract,
            staged / "part-0.parquet",
            compression="zstd",
            row_group_size=rows_in_group,
        )
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    replace_partition(staged, target)


def replace_partition(staged: Path | None, target: Path) -> None:
    """Put the finished folder ``staged`` (None: nothing) in the place of the partition ``target``.

    Both are on one file system.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    retired = target.parent / f".retired-{uuid.uuid4().hex}"
    if target.exists():
        target.rename(retired)
    if staged is not None:
        staged.rename(target)
    shutil.rmtree(retired, ignore_errors=True)
