"""Writing tables: whole partitions, replaced or left alone, never half."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.tables import TABLES, partition_columns


def write_partitions(
    rows: DataFrame,
    table: str,
    warehouse: Path,
    cluster: str,
    days: Sequence[dt.date],
    filled: Collection[dt.date],
) -> None:
    """Replace the partitions of ``days`` (and only those) of one cluster by ``rows``.

    ``rows`` has the contract's columns and ``date`` as yyyy-MM-dd text; ``filled`` are the days it
    has rows of. Spark stages the files and moves whole partitions into place when the job commits;
    a day that has no rows any more loses its partition.
    """
    target = warehouse / table
    columns = [F.col(f.name) for f in TABLES[table]]
    if filled:
        (
            rows.select(*columns, F.lit(cluster).alias("cluster"), F.col("date"))
            .write.mode("overwrite")
            .partitionBy(*partition_columns(table))
            .parquet(str(target))
        )
    for day in sorted(set(days) - set(filled)):
        _delete(rows.sparkSession, target / f"cluster={cluster}" / f"date={day}")


def empty_frame(spark: SparkSession, table: str) -> DataFrame:
    """Return a frame of ``table``'s columns without rows."""
    return spark.createDataFrame([], schema=from_arrow_schema(_nullable(TABLES[table])))


def read_partitions(
    spark: SparkSession, table: str, warehouse: Path, cluster: str, day: dt.date
) -> DataFrame:
    """Return the rows of one day of one cluster; no rows where the partition does not exist."""
    folder = warehouse / table / f"cluster={cluster}" / f"date={day}"
    if not _exists(spark, folder):
        return empty_frame(spark, table)
    schema = from_arrow_schema(_nullable(TABLES[table]))
    return spark.read.schema(schema).parquet(str(folder))


def _nullable(schema: pa.Schema) -> pa.Schema:
    # Parquet read back by Spark is nullable anyway; the suites check the required columns.
    return pa.schema([f.with_nullable(True) for f in schema])


def _hadoop_path(spark: SparkSession, folder: Path) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(folder))
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path


def _exists(spark: SparkSession, folder: Path) -> bool:
    filesystem, path = _hadoop_path(spark, folder)
    return bool(filesystem.exists(path))


def _delete(spark: SparkSession, folder: Path) -> None:
    filesystem, path = _hadoop_path(spark, folder)
    filesystem.delete(path, True)
