"""MB/s of request log from files to tables, beside Spark's own from_json over the same files.

Both read the same uncompressed copies of the bundled capture in one session, each warmed up once,
and write Parquet. Spark's peer does less: it sums the logged record sizes and knows no wire size,
no quarantine, no record time, no envelope.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs.jobs.archive import find_archive
from spark_jobs.jobs.ingest_options import IngestOptions
from spark_jobs.jobs.ingest_requests import ingest_requests
from spark_jobs.jobs.log_stream import line_blocks
from spark_jobs.jobs.spark_session import spark_session

EXAMPLE = Path(__file__).parent.parent / "examples" / "capture"
COPIES = 24
PREFIX_CHARS = len("[2026-11-21 02:40:27,064] DEBUG Completed request:")

PEER_SCHEMA = T.StructType(
    [
        T.StructField(
            "requestHeader",
            T.StructType(
                [
                    T.StructField("requestApiKeyName", T.StringType()),
                    T.StructField("clientId", T.StringType()),
                    T.StructField("correlationId", T.IntegerType()),
                ]
            ),
        ),
        T.StructField("connection", T.StringType()),
        T.StructField("principal", T.StringType()),
        T.StructField("throttleTimeMs", T.IntegerType()),
        T.StructField("localTimeMs", T.DoubleType()),
        T.StructField("remoteTimeMs", T.DoubleType()),
        T.StructField("sendTimeMs", T.DoubleType()),
        T.StructField(
            "request",
            T.StructType(
                [
                    T.StructField(
                        "topicData",
                        T.ArrayType(
                            T.StructType(
                                [
                                    T.StructField(
                                        "partitionData",
                                        T.ArrayType(
                                            T.StructType(
                                                [T.StructField("recordsSizeInBytes", T.LongType())]
                                            )
                                        ),
                                    )
                                ]
                            )
                        ),
                    )
                ]
            ),
        ),
    ]
)


def build_archive(folder: Path) -> int:
    """Write COPIES uncompressed copies of the capture's logs; return their size in bytes."""
    total = 0
    for log in find_archive(EXAMPLE, "default").request_logs:
        text = b"".join(line_blocks(log.path))
        target = folder / f"broker={log.broker_id}"
        target.mkdir(parents=True)
        for copy in range(COPIES):
            total += (target / f"kafka-request.log.{copy}").write_bytes(text)
    return total


def seconds(work: Callable[[], object]) -> float:
    """Return the better of two runs, after one to warm up."""
    work()
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def peer(spark: SparkSession, archive: Path, out: Path) -> None:
    """Read the same files with Spark's own JSON functions and write Parquet."""
    lines = spark.read.text(f"{archive}/broker=*/kafka-request.log*")
    body = F.expr(f"substring(value, {PREFIX_CHARS + 1})")
    rows = lines.select(F.from_json(body, PEER_SCHEMA).alias("j"), F.substring("value", 2, 23))
    size = F.expr(
        "aggregate(flatten(transform(j.request.topicData, t -> t.partitionData)), 0L, "
        "(a, p) -> a + coalesce(p.recordsSizeInBytes, 0L))"
    )
    rows.select(F.col("*"), size.alias("bytes")).write.mode("overwrite").parquet(str(out))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="quota-audit-bench-"))
    try:
        size_mb = build_archive(folder / "archive") / 1e6
        found = find_archive(folder / "archive", "default")
        with spark_session("bench") as spark:
            ours = seconds(
                lambda: ingest_requests(
                    spark, found, folder / "warehouse", None, IngestOptions.of()
                )
            )
            theirs = seconds(lambda: peer(spark, folder / "archive", folder / "peer"))
    finally:
        shutil.rmtree(folder)
    print(f"{size_mb:.0f} MB of request log, {len(found.request_logs)} files, local[*]")
    print(f"{'quota-audit ingest':28} {size_mb / ours:8.1f} MB/s  {ours:6.1f} s")
    print(f"{'Spark from_json to Parquet':28} {size_mb / theirs:8.1f} MB/s  {theirs:6.1f} s")
    print(f"ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    sys.exit(main())
