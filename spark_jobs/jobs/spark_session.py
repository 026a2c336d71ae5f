"""The one place that starts Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.settings import SparkSettings


@contextmanager
def spark_session(step: str, settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Yield a session named after ``step`` and stop it; UTC, Arrow, loopback when local."""
    settings = settings or SparkSettings()
    # Workers must run the interpreter that has our dependencies, not the first python3 on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.appName(f"quota-audit {step}")
        .master(settings.master)
        .config("spark.driver.memory", settings.driver_memory)
        .config("spark.driver.extraJavaOptions", settings.driver_java_options)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 65_536)
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
        .config("spark.log.level", "ERROR")
    )
    if settings.master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
