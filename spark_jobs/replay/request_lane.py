"""Decisions on request quotas: every request counts, and they meet those on bandwidth quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.quota.request_time import READ_PERCENTILE
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.replay_broker import ReplayTask
from spark_jobs.replay.sensors.aligned_amounts import align_amounts
from spark_jobs.replay.sensors.amounts import (
    AMOUNTS,
    RECORD_ORDER,
    REQUEST_COLUMNS,
    expand_request_times,
)
from spark_jobs.replay.sensors.sensor_replay import (
    DECISION,
    REPLAYED,
    STATE,
    BrokerRules,
    CarriedState,
    replay_sensors,
)
from spark_jobs.replay.sensors.sensor_seconds import rates_per_second
from spark_jobs.replay.shared_throttles import with_shared_throttles
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.warehouse.read import read_frame
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import spark_path
from spark_jobs.warehouse.write import write_frame


def replay_request_quotas(
    spark: SparkSession,
    scope: RunScope,
    task: ReplayTask,
    tolerance_ms: int,
    mutations: pa.Table,
) -> dict[str, int]:
    """Stage all decisions of a day whose brokers have request quotas; return their verdicts.

    Those on bandwidth quotas were staged as ``replayed`` by the workers, ``mutations`` has those
    on mutations (REPLAYED).
    """
    folder = task.folder
    parts = [_request_times(spark, scope, task)]
    if (folder / "replayed").is_dir():
        schema = from_arrow_schema(REPLAYED)
        parts.append(spark.read.schema(schema).parquet(spark_path(folder / "replayed")))
    if mutations.num_rows:
        parts.append(spark.createDataFrame(mutations, schema=from_arrow_schema(REPLAYED)))
    replayed = parts[0]
    for part in parts[1:]:
        replayed = replayed.unionByName(part)
    settled = with_shared_throttles(replayed, task.rules, tolerance_ms).persist()
    try:
        decided = settled.where(F.col("row_kind") == DECISION)
        counts = {r["verdict"]: r["count"] for r in decided.groupBy("verdict").count().collect()}
        write_frame(decided, "decisions", folder / "decisions")
        states = settled.where(F.col("row_kind") == STATE)
        write_frame(states, "quota_state", folder / "quota_state")
        of_requests = decided.where(F.col("quota_type") == "request_percentage")
        write_frame(rates_per_second(of_requests), "rates", folder / "rates")
    finally:
        settled.unpersist()
    return counts


def _request_times(spark: SparkSession, scope: RunScope, task: ReplayTask) -> DataFrame:
    # Nested columns would cost the square of a batch's rows on their way to the workers.
    requests = read_frame(spark, "requests", scope).select(*REQUEST_COLUMNS)
    expand = expand_request_times(
        task.resolutions, task.controller_listeners, task.broker_log, task.lost, _read_us(requests)
    )
    amounts = requests.mapInArrow(expand, from_arrow_schema(AMOUNTS))
    in_order = amounts.repartition(*SENSOR_COLUMNS).sortWithinPartitions(
        *SENSOR_COLUMNS, *RECORD_ORDER
    )
    rules, carried, tolerances = task.rules, task.carried, task.tolerances
    return in_order.mapInArrow(
        lambda rows: _replayed(rows, rules, carried, tolerances), from_arrow_schema(REPLAYED)
    )


def _replayed(
    rows: Iterator[pa.RecordBatch],
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    tolerances: Tolerances,
) -> Iterator[pa.RecordBatch]:
    intervals: dict[SensorKey, Mapping[str, Any]] = {}
    align = align_amounts(rules, carried, intervals)
    return replay_sensors(rules, carried, tolerances, intervals)(align(rows))


def _read_us(requests: DataFrame) -> dict[int, float]:
    """Return, per broker, what reading a small request may have taken."""
    rows = requests.groupBy("broker_id").agg(
        F.percentile("send_time_us", READ_PERCENTILE / 100.0).alias("read_us")
    )
    return {row["broker_id"]: row["read_us"] for row in rows.collect()}
