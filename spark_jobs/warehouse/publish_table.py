"""Writing tables: whole partitions, replaced or left alone, never half."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.warehouse.parquet import file_keys
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import spark_path
from spark_jobs.warehouse.table_versions import new_version, take_version
from spark_jobs.warehouse.tables import TABLES

ROWS_IN_GROUP = 65_536
"""The least that a reader of one sensor has to read of a file that is in order of sensors."""


def write_partition(rows: DataFrame, table: str, scope: RunScope, *, filled: bool) -> None:
    """Replace this scope's partition of ``table`` by ``rows``, which has the contract's columns.

    A file's row groups have ROWS_IN_GROUP rows at most. ``filled`` says that there are rows;
    else the partition is removed.
    """
    if not filled:
        take_version(None, table, scope)
        return
    folder = new_version(table, scope)
    (
        columns_of(rows, table)
        .write.option("parquet.block.row.count.limit", ROWS_IN_GROUP)
        .parquet(spark_path(folder))
    )
    take_version(folder, table, scope)


def columns_of(rows: DataFrame, table: str) -> DataFrame:
    """Return the columns of ``table``, the first saying with which version they are written."""
    first, *others = TABLES[table].names
    said = F.col(first).alias(first, metadata=file_keys(table))
    return rows.select(said, *others)
