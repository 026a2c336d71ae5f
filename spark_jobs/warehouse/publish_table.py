"""Writing tables: whole partitions, replaced or left alone, never half."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.warehouse.parquet import file_keys
from spark_jobs.warehouse.table_versions import new_version, take_version
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.warehouse import RunScope, check_not_pruned, check_version, spark_path

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


def read_partition(spark: SparkSession, table: str, scope: RunScope) -> DataFrame:
    """Return this scope's rows of ``table``; no rows where the partition does not exist."""
    schema = from_arrow_schema(_nullable(TABLES[table]))
    folder = scope.partition_dir(table)
    if not folder.is_dir():
        check_not_pruned(scope, table)
        return spark.createDataFrame([], schema=schema)
    check_version(scope, table)
    return spark.read.schema(schema).parquet(spark_path(folder))


def _nullable(schema: pa.Schema) -> pa.Schema:
    # Parquet read back by Spark is nullable anyway; the suites check the required columns.
    return pa.schema([f.with_nullable(True) for f in schema])
