"""Starts of brokers and throttled requests as the brokers logged them: two tables of an ingest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.ingest.quota_sources.restarts import ConnectionSpan, inferred_starts, known_starts
from spark_jobs.ingest.quota_sources.server_log import ServerLog
from spark_jobs.warehouse.days import DAY_MS, day_number
from spark_jobs.warehouse.local_table import write_local
from spark_jobs.warehouse.publish_table import read_partition
from spark_jobs.warehouse.tables import BROKER_STARTS, THROTTLE_RECORDS
from spark_jobs.warehouse.warehouse import RunScope


def write_server_log_tables(
    spark: SparkSession, scopes: Sequence[RunScope], server_logs: Iterable[ServerLog]
) -> None:
    """Write ``broker_starts`` and ``throttle_records`` of ingested days of one cluster.

    Brokers whose server log tells of no start are looked at in the request log.
    """
    logs = list(server_logs)
    inferred = inferred_starts(_connection_spans(spark, scopes))
    starts = [s.row() for s in known_starts((s for log in logs for s in log.starts), inferred)]
    throttles = [record.row() for log in logs for record in log.throttles]
    throttles.sort(key=lambda r: (r["at_ms"], r["source_file"], r["source_line"]))
    for scope in scopes:
        of_day = _of_day(starts, "started_ms", scope)
        write_local(pa.Table.from_pylist(of_day, BROKER_STARTS), "broker_starts", scope)
        of_day = _of_day(throttles, "at_ms", scope)
        write_local(pa.Table.from_pylist(of_day, THROTTLE_RECORDS), "throttle_records", scope)


def _of_day(
    rows: Iterable[Mapping[str, Any]], time_column: str, scope: RunScope
) -> list[Mapping[str, Any]]:
    day = day_number(scope.day)
    return [row for row in rows if row[time_column] // DAY_MS == day]


def _connection_spans(spark: SparkSession, scopes: Sequence[RunScope]) -> list[ConnectionSpan]:
    """Return the connections of all days; one open at midnight is one span."""
    arrived_ms = F.col("log_time_ms") - F.ceil(F.col("total_time_us") / 1000)
    spans: dict[tuple[int, str], ConnectionSpan] = {}
    for scope in scopes:
        found = (
            read_partition(spark, "requests", scope)
            .groupBy("broker_id", "connection")
            .agg(F.min(arrived_ms).alias("first_ms"), F.max("log_time_ms").alias("last_ms"))
            .toArrow()
        )
        for row in found.to_pylist():
            key = row["broker_id"], row["connection"]
            before = spans.get(key)
            first_ms = row["first_ms"] if before is None else min(before.first_ms, row["first_ms"])
            last_ms = row["last_ms"] if before is None else max(before.last_ms, row["last_ms"])
            spans[key] = ConnectionSpan(*key, first_ms, last_ms)
    return list(spans.values())
