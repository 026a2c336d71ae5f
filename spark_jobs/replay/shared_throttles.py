"""Joining the decisions on one request, where its client has a request quota."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.quota.request_time import READ_PERCENTILE
from spark_jobs.replay.replay_broker import ReplayTask
from spark_jobs.replay.sensors.sensor_states import DECISION, REPLAYED, STATE, BrokerRules
from spark_jobs.replay.sensors.shared_throttles import SHARED, fix_shared_throttles
from spark_jobs.replay.verdicts.verdicts import QUOTA_CHANGE_IN_FLIGHT
from spark_jobs.warehouse.read import read_frame
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import spark_path
from spark_jobs.warehouse.write import write_frame

_REQUEST = ("broker_id", "connection", "correlation_id", "log_time_ms")


def read_times_us(spark: SparkSession, scope: RunScope) -> dict[int, float]:
    """Return, per broker, the time (µs) that reading a small request may have taken."""
    rows = (
        read_frame(spark, "requests", scope)
        .groupBy("broker_id")
        .agg(F.percentile("send_time_us", READ_PERCENTILE / 100.0).alias("read_us"))
    )
    return {row["broker_id"]: row["read_us"] for row in rows.collect()}


def put_shared_throttles(
    spark: SparkSession, task: ReplayTask, tolerance_ms: int, mutations: pa.Table
) -> dict[str, int]:
    """Stage all decisions of a day whose brokers have request quotas; return their verdicts.

    Those on windowed rates were staged as ``replayed`` by the workers, ``mutations`` has those on
    mutations (REPLAYED).
    """
    folder, schema = task.folder, from_arrow_schema(REPLAYED)
    replayed = spark.createDataFrame(mutations, schema=schema)
    if (folder / "replayed").is_dir():
        staged = spark.read.schema(schema).parquet(spark_path(folder / "replayed"))
        replayed = replayed.unionByName(staged)
    fixed = with_shared_throttles(replayed, task.rules, tolerance_ms).persist()
    try:
        decided = fixed.where(F.col("row_kind") == DECISION)
        counts = {r["verdict"]: r["count"] for r in decided.groupBy("verdict").count().collect()}
        write_frame(decided, "decisions", folder / "decisions")
        states = fixed.where(F.col("row_kind") == STATE)
        write_frame(states, "quota_state", folder / "quota_state")
    finally:
        fixed.unpersist()
    return counts


def with_shared_throttles(
    replayed: DataFrame, rules: Mapping[int, BrokerRules], tolerance_ms: int
) -> DataFrame:
    """Return ``replayed`` (REPLAYED) with the verdicts of requests that have a request quota."""
    is_shared = F.coalesce(F.col("has_request_bound"), F.lit(False)) & (
        F.col("quota_type") != "controller_mutation_rate"
    )
    is_shared &= F.col("row_kind") == DECISION
    request = Window.partitionBy(*_REQUEST)
    is_request = F.col("quota_type") == "request_percentage"
    on_bandwidth = F.when(
        ~is_request & F.col("bound").isNotNull(),
        F.coalesce(F.col("replayed_throttle_time_ms"), F.lit(0)).cast("long"),
    ).when(
        # A quota that comes or goes may have asked for what was logged.
        ~is_request & (F.col("reason_alone") == QUOTA_CHANGE_IN_FLIGHT),
        F.col("logged_throttle_time_ms").cast("long"),
    )
    shared = (
        replayed.where(is_shared)
        .withColumn("request_min_ms", F.max("throttle_time_min_ms").over(request))
        .withColumn("request_max_ms", F.max("throttle_time_max_ms").over(request))
        .withColumn("bandwidth_ms", F.max(on_bandwidth).over(request))
        .select(*SHARED.names)
    )
    fix = fix_shared_throttles(rules, tolerance_ms)
    fixed = shared.mapInArrow(fix, from_arrow_schema(REPLAYED))
    return replayed.where(~is_shared).unionByName(fixed)
