"""Joining the decisions on one request, where its client has a request quota."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.replay.sensors.sensor_replay import DECISION, REPLAYED, BrokerRules
from spark_jobs.replay.sensors.shared_throttles import SHARED, settle_shared_throttles

_REQUEST = ("broker_id", "connection", "correlation_id", "log_time_ms")


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
    )
    shared = (
        replayed.where(is_shared)
        .withColumn("request_min_ms", F.max("throttle_time_min_ms").over(request))
        .withColumn("request_max_ms", F.max("throttle_time_max_ms").over(request))
        .withColumn("bandwidth_ms", F.max(on_bandwidth).over(request))
        .select(*SHARED.names)
    )
    settle = settle_shared_throttles(rules, tolerance_ms)
    settled = shared.mapInArrow(settle, from_arrow_schema(REPLAYED))
    return replayed.where(~is_shared).unionByName(settled)
