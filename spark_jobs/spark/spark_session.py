"""The one place that starts Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.settings import SparkSettings

LOGGING = Path(__file__).parent / "log4j2.properties"
# A step's JVM lives for a minute or so: methods that run a thousand times are not worth the slow
# compiler, which took half of all its time. These are ten times the thresholds of OpenJDK.
_SELDOM_SLOWLY_COMPILED = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# spark-submit tells the program it has started where its JVM listens.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@contextmanager
def spark_session(step: str, settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Yield a session named after ``step`` and stop it; UTC, Arrow, loopback when local."""
    settings = settings or SparkSettings()
    master = master_of(settings, os.environ)
    os.environ["PYSPARK_PYTHON"] = python_of_workers(master, os.environ)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.appName(f"quota-audit {step}")
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
        .config("spark.hadoop.parquet.page.verify-checksum.enabled", "true")
        .config("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL", _memory_pool())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    )
    if master is not None:
        builder = builder.master(master)
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def master_of(settings: SparkSettings, environ: Mapping[str, str]) -> str | None:
    """Return the master to ask for; None: the one that spark-submit was given."""
    if settings.master:
        return settings.master
    return None if _SUBMITTED in environ else "local[*]"


def python_of_workers(master: str | None, environ: Mapping[str, str]) -> str:
    """Return the Python of the workers: ours on this machine, on others PYSPARK_PYTHON's.

    It must have our dependencies, which the first python3 on PATH need not.
    """
    return sys.executable if _is_local(master) else environ.get("PYSPARK_PYTHON", sys.executable)


def _memory_pool() -> str:
    """Return the allocator of Arrow whose memory grows least while a worker reads broker by broker.

    Arrow's first choice, mimalloc, keeps a fifth more; none of them is faster here.
    """
    return "jemalloc" if "jemalloc" in pa.supported_memory_backends() else "system"


def _is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local")


def _java_options(settings: SparkSettings) -> str:
    # Not there where the package was sent as a zip; Spark then logs in its own way.
    logging = [f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"] if LOGGING.is_file() else []
    return " ".join([*_SELDOM_SLOWLY_COMPILED, *logging, settings.driver_java_options]).strip()
