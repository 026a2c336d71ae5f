"""The one place that starts Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.settings import SparkSettings

LOGGING = Path(__file__).parent / "log4j2.properties"


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
        .config("spark.driver.extraJavaOptions", _java_options(settings))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        # Spark's Arrow writer takes the square of a batch's rows where a column is nested.
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 8_192)
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    )
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _java_options(settings: SparkSettings) -> str:
    # Not there where the package was sent as a zip; Spark then logs in its own way.
    logging = [f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"] if LOGGING.is_file() else []
    return " ".join([*logging, settings.driver_java_options]).strip()
