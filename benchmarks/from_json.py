"""The table ``requests`` as far as Spark's own JSON functions give it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

_STAMP = "[2026-11-21 02:40:27,064]"
_LEAD = f"{_STAMP} DEBUG Completed request:"
TIMES = {
    "total_time_us": "totalTimeMs",
    "request_queue_time_us": "requestQueueTimeMs",
    "handler_time_us": "localTimeMs",
    "remote_time_us": "remoteTimeMs",
    "response_queue_time_us": "responseQueueTimeMs",
    "send_time_us": "sendTimeMs",
}
_HEADER = (
    "requestHeader STRUCT<requestApiKey: SMALLINT, requestApiVersion: SMALLINT, "
    "correlationId: INT, clientId: STRING, requestApiKeyName: STRING>"
)
_PARTITION_ANSWERS = (
    "STRUCT<topic: STRING, topicId: STRING, "
    "partitionResponses: ARRAY<STRUCT<errorCode: SMALLINT>>, "
    "partitions: ARRAY<STRUCT<errorCode: SMALLINT, recordsSizeInBytes: BIGINT>>>"
)
_TOPIC_DATA = (
    "STRUCT<name: STRING, topicId: STRING, "
    "partitionData: ARRAY<STRUCT<recordsSizeInBytes: BIGINT>>>"
)
SCHEMA = (
    f"isForwarded BOOLEAN, {_HEADER}, "
    "request STRUCT<acks: SMALLINT, maxBytes: BIGINT, replicaId: INT, "
    f"replicaState: STRUCT<replicaId: INT>, topicData: ARRAY<{_TOPIC_DATA}>>, "
    "response STRUCT<throttleTimeMs: INT, errorCode: SMALLINT, "
    f"responses: ARRAY<{_PARTITION_ANSWERS}>>, "
    f"connection STRING, {', '.join(f'{name} DOUBLE' for name in TIMES.values())}, "
    "throttleTimeMs DOUBLE, principal STRING, listener STRING, "
    "clientInformation STRUCT<softwareName: STRING, softwareVersion: STRING>"
)
NARROW_SCHEMA = (
    "requestHeader STRUCT<requestApiKeyName: STRING, clientId: STRING, correlationId: INT>, "
    "connection STRING, principal STRING, throttleTimeMs INT, localTimeMs DOUBLE, "
    "remoteTimeMs DOUBLE, sendTimeMs DOUBLE, request STRUCT<topicData: ARRAY<STRUCT<"
    "partitionData: ARRAY<STRUCT<recordsSizeInBytes: BIGINT>>>>>"
)


def requests_table(spark: SparkSession, archive: Path) -> DataFrame:
    """Return a row for each line, with the columns of ``tables.REQUESTS`` that JSON tells."""
    lines = _lines(spark, archive)
    body = F.substring("value", len(_LEAD) + 1, 1 << 30)
    at = F.to_timestamp(F.substring("value", 2, len(_STAMP) - 2), "yyyy-MM-dd HH:mm:ss,SSS")
    j = lines.select(
        F.from_json(body, SCHEMA).alias("j"),
        F.unix_millis(at).alias("log_time_ms"),
        F.input_file_name().alias("source_file"),
        F.monotonically_increasing_id().alias("source_line"),
    )
    times = {name: _us(f"j.{json}") for name, json in TIMES.items()}
    complete = F.col("log_time_ms") * 1000 - times["send_time_us"] - times["response_queue_time_us"]
    handled = complete - times["remote_time_us"]
    replica = F.coalesce("j.request.replicaState.replicaId", "j.request.replicaId", F.lit(-1))
    columns = {
        "broker_id": F.regexp_extract("source_file", r"broker=(\d+)", 1).cast("int"),
        "log_time_ms": F.col("log_time_ms"),
        "recorded_earliest_ms": F.floor((handled - times["handler_time_us"]) / 1000) - 1,
        "recorded_latest_ms": F.floor((complete + 999) / 1000),
        "recorded_estimate_us": F.floor((complete + 500) / 1000) * 1000,
        "connection": F.col("j.connection"),
        "correlation_id": F.col("j.requestHeader.correlationId"),
        "api_key": F.col("j.requestHeader.requestApiKey"),
        "api_name": F.col("j.requestHeader.requestApiKeyName"),
        "api_version": F.col("j.requestHeader.requestApiVersion"),
        "principal": F.col("j.principal"),
        "user": F.expr("substring(j.principal, locate(':', j.principal) + 1)"),
        "client_id": F.col("j.requestHeader.clientId"),
        "listener": F.col("j.listener"),
        "is_forwarded": F.coalesce("j.isForwarded", F.lit(False)),
        "acks": F.col("j.request.acks"),
        "is_replica": replica >= 0,
        "fetch_max_bytes": F.col("j.request.maxBytes"),
        **times,
        "throttle_time_ms": F.coalesce(
            "j.response.throttleTimeMs", F.col("j.throttleTimeMs").cast("int")
        ),
        "software_name": F.col("j.clientInformation.softwareName"),
        "software_version": F.col("j.clientInformation.softwareVersion"),
        "error_codes": F.expr(
            "array_sort(array_distinct(concat(flatten(transform(j.response.responses, r -> "
            "coalesce(transform(r.partitionResponses, p -> p.errorCode), "
            "transform(r.partitions, p -> p.errorCode)))), "
            "array(coalesce(j.response.errorCode, 0S)))))"
        ),
        "topics": F.expr(
            "coalesce("
            "transform(j.request.topicData, t -> struct(coalesce(t.name, t.topicId) AS topic, "
            "aggregate(t.partitionData, 0L, (n, p) -> n + coalesce(p.recordsSizeInBytes, 0L)) "
            "AS records_bytes)), "
            "transform(j.response.responses, t -> struct(coalesce(t.topic, t.topicId) AS topic, "
            "aggregate(t.partitions, 0L, (n, p) -> n + coalesce(p.recordsSizeInBytes, 0L)) "
            "AS records_bytes)))"
        ),
        "source_file": F.col("source_file"),
        "source_line": F.col("source_line"),
    }
    return j.select(*[column.alias(name) for name, column in columns.items()])


def few_columns(spark: SparkSession, archive: Path) -> DataFrame:
    """Return a row for each line with the stamp and the sum of records of a produce."""
    j = _lines(spark, archive).select(
        F.from_json(F.substring("value", len(_LEAD) + 1, 1 << 30), NARROW_SCHEMA).alias("j"),
        F.substring("value", 2, len(_STAMP) - 2).alias("stamp"),
    )
    size = F.expr(
        "aggregate(flatten(transform(j.request.topicData, t -> t.partitionData)), 0L, "
        "(n, p) -> n + coalesce(p.recordsSizeInBytes, 0L))"
    )
    return j.select("stamp", "j.*", size.alias("bytes"))


def _lines(spark: SparkSession, archive: Path) -> DataFrame:
    return spark.read.text(f"{archive}/broker=*/kafka-request.log*")


def _us(milliseconds: str) -> Column:
    return F.round(F.col(milliseconds) * 1000).cast("bigint")
