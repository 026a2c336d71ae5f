"""Writing small tables without Spark: a partition is replaced by one rename."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.tables import TABLES
from spark_jobs.warehouse import RunScope


def write_local(rows: pa.Table, table: str, scope: RunScope) -> None:
    """Replace this scope's partition of ``table`` by ``rows``; no rows leave an empty partition.

    The new files are complete beside the old ones before they take their place, so a reader sees
    the old partition or the new one.
    """
    write_local_parts([(rows, None)], table, scope)


def write_local_parts(
    parts: Sequence[tuple[pa.Table, int | None]], table: str, scope: RunScope
) -> None:
    """Replace this scope's partition of ``table`` by a file for each of ``parts``.

    A part is rows and the most of them that a row group has (None: Arrow's default), which is the
    least that a reader of few has to read.
    """
    target = scope.partition_dir(table)
    staged = target.parent / f".staged-{uuid.uuid4().hex}"
    contracts = [(rows.cast(TABLES[table]), in_group) for rows, in_group in parts]
    staged.mkdir(parents=True)
    try:
        for number, (rows, in_group) in enumerate(contracts):
            file = staged / f"part-{number}.parquet"
            pq.write_table(rows, file, compression="zstd", row_group_size=in_group)
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
