"""The last part of an ingest: which requests are missing from the log, told by correlation ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.ingest.lost_lines.gap_spans import (
    JAVA,
    JAVA_WITH_TELEMETRY,
    OTHER_SOFTWARE,
    ClientLines,
    Span,
)
from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES, OTHER_BROKER, Gap, gaps_of
from spark_jobs.ingest.messages.message_definition import CONTROLLER_APIS
from spark_jobs.warehouse.read import read_frame
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import LOG_GAPS
from spark_jobs.warehouse.write import write_table

LINES_AT_ONCE_MAX = 4_000_000
"""A client with more lines is looked at by address, as one group is in memory as a whole.

A line takes some 300 bytes there. A client instance behind several addresses and with more lines
than this would seem to miss what it sent from the others.
"""

CLIENTS_NAMED_MAX = 5

_CLIENT = ("user", "client_id")
_GROUP = pa.schema(
    [
        *(LOG_GAPS.field(name).with_nullable(True) for name in LOG_GAPS.names),
        pa.field("connection_code", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class ClientLoss:
    """How many requests of a client are not in the log, and why not (``tables.LOG_GAPS``)."""

    user: str
    client_id: str | None
    cause: str
    missing: int


def write_log_gaps(spark: SparkSession, scope: RunScope, down: Sequence[Span]) -> list[ClientLoss]:
    """Write the table log_gaps of a day from its requests; return the losses, largest first.

    ``down``: when brokers were, between two starts.
    """
    requests = read_frame(spark, "requests", scope)
    lines = _client_lines(requests)
    found = lines.groupBy(*_CLIENT, "portion").applyInArrow(
        lambda group: _gaps_of_group(group, down), from_arrow_schema(_GROUP)
    )
    gaps = found.persist()
    try:
        sums = gaps.groupBy(*_CLIENT, "cause").agg(F.sum("missing").alias("missing")).collect()
        write_table(_named(gaps, requests) if sums else None, "log_gaps", scope)
    finally:
        gaps.unpersist()
    losses = [ClientLoss(s["user"], s["client_id"], s["cause"], s["missing"]) for s in sums]
    return sorted(losses, key=lambda s: (-s.missing, s.user, s.client_id or "", s.cause))


def loss_sentences(losses: Sequence[ClientLoss], requests: int) -> list[str]:
    """Return a sentence for people per cause of loss; none where all requests are there."""
    lost = [s for s in losses if s.cause == LOST_LINES]
    elsewhere = [s for s in losses if s.cause == OTHER_BROKER]
    sentences = []
    if lost:
        missing = sum(s.missing for s in lost)
        share = missing / (requests + missing)
        sentences.append(
            f"{missing:,} requests ({share:.2%}) of {_clients(lost)} are missing from the log, by "
            "gaps in the correlation ids; decisions that they may explain are not held against "
            "the broker"
        )
    if elsewhere:
        sentences.append(
            f"much of what {_clients(elsewhere)} sent is in no log: give the request logs of all "
            "brokers, or decisions cannot be told from lost lines"
        )
    return sentences


def controller_listeners(requests: DataFrame) -> frozenset[str]:
    """Return the listeners that only controllers serve; clients of Kafka use others."""
    serving = requests.where(F.col("is_forwarded") | F.col("api_name").isin(*CONTROLLER_APIS))
    return frozenset(row["listener"] for row in serving.select("listener").distinct().collect())


def _clients(losses: Sequence[ClientLoss]) -> str:
    named = ", ".join(
        f"{s.user}/{s.client_id or ''} {s.missing:,}" for s in losses[:CLIENTS_NAMED_MAX]
    )
    more = ", …" if len(losses) > CLIENTS_NAMED_MAX else ""
    return f"{len(losses)} client{'s' if len(losses) > 1 else ''} ({named}{more})"


def _client_lines(requests: DataFrame) -> DataFrame:
    """Return clients' lines with the columns that gaps are found by; large clients by host."""
    listeners = controller_listeners(requests)
    clients = requests.where(~F.col("is_forwarded") & ~F.col("listener").isin(*listeners))
    host = F.regexp_extract("connection", r"-([^-]+):\d+(?:-\d+)+$", 1)
    java_release = [
        F.regexp_extract("software_version", r"^(\d+)\.(\d+)", part).try_cast("int")
        for part in (1, 2)
    ]
    has_telemetry = F.struct(*java_release) >= F.struct(F.lit(3), F.lit(7))
    is_known = F.coalesce(F.col("software_name"), F.lit("unknown")) != "unknown"
    return clients.select(
        *_CLIENT,
        F.when(_is_large(clients), host).otherwise("").alias("portion"),
        "broker_id",
        F.xxhash64("broker_id", "connection").alias("connection"),
        F.xxhash64(host).alias("host"),
        F.when(is_known, F.xxhash64("software_name", "software_version"))
        .otherwise(0)
        .alias("software"),
        F.when(
            F.coalesce(F.col("software_name") != "apache-kafka-java", F.lit(True)), OTHER_SOFTWARE
        )
        .when(has_telemetry, JAVA_WITH_TELEMETRY)
        .otherwise(JAVA)
        .alias("java"),
        "correlation_id",
        "api_key",
        F.coalesce(F.col("acks") != 0, F.lit(True)).alias("is_answered"),
        (F.col("log_time_ms") - F.floor(F.col("total_time_us") / 1000)).alias("received_ms"),
        "recorded_earliest_ms",
        "recorded_latest_ms",
        (F.col("log_time_ms") + F.col("throttle_time_ms")).alias("free_at_ms"),
        F.col("request_bytes").cast("double").alias("request_bytes"),
        F.col("response_bytes").cast("double").alias("response_bytes"),
        "handler_time_us",
    )


def _is_large(clients: DataFrame) -> Column:
    counts = clients.groupBy(*_CLIENT).count().where(F.col("count") > LINES_AT_ONCE_MAX).collect()
    large = [
        (F.col("user") == c["user"]) & F.col("client_id").eqNullSafe(c["client_id"]) for c in counts
    ]
    return reduce(or_, large, F.lit(False))


def _gaps_of_group(group: pa.Table, down: Sequence[Span]) -> pa.Table:
    columns = {f.name: _array(group[f.name]) for f in fields(ClientLines)}
    client = {name: group[name][0].as_py() for name in _CLIENT}
    rows = [client | _row(gap) for gap in gaps_of(ClientLines(**columns), down)]
    return pa.Table.from_pylist(rows, schema=_GROUP)


def _array(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))


def _row(gap: Gap) -> dict[str, object]:
    only = gap.places[0].broker_id if len(gap.places) == 1 else None
    return {
        **{name: value for name, value in asdict(gap).items() if name != "connection"},
        "after_ms": min(span.after_ms for span in gap.places),
        "before_ms": max(span.before_ms for span in gap.places),
        "broker_id": only,
        "connection_code": gap.connection,
    }


def _named(gaps: DataFrame, requests: DataFrame) -> DataFrame:
    """Return ``gaps`` with the connection by name where it is known."""
    code = F.xxhash64("broker_id", "connection").alias("connection_code")
    wanted = gaps.select("connection_code").where("connection_code is not null").distinct()
    names = (
        requests.select(code, F.col("connection").alias("name"))
        .join(F.broadcast(wanted), "connection_code")
        .distinct()
    )
    return (
        gaps.join(F.broadcast(names), "connection_code", "left")
        .withColumn("connection", F.col("name"))
        .select(*LOG_GAPS.names)
    )
