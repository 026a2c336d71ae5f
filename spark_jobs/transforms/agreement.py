"""Decisions → how far the replay of each sensor agrees with what its broker logged: agreement."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.tables import AGREEMENT

_SENSOR = ("broker_id", "quota_type", "quota_user", "quota_client_id")
# Types whose logged throttle is the sensor's own.
_COMPARED_TYPES = ("producer_byte_rate",)


def agreement_per_sensor(decisions: DataFrame) -> DataFrame:
    """Return rows of AGREEMENT for the decisions of a day, in no order.

    Sensors without a bound have none; nor have decisions whose size is not in the log.
    """
    logged, replayed = F.col("logged_throttle_time_ms"), F.col("replayed_throttle_time_ms")
    distance = F.abs(logged - replayed)
    is_throttle = (logged > 0) | (replayed > 0)

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, True))

    compared = decisions.where(
        F.col("quota_type").isin(*_COMPARED_TYPES)
        & F.col("bound").isNotNull()
        & F.col("amount").isNotNull()
    )
    return (
        compared.groupBy(*_SENSOR)
        .agg(
            F.count("*").alias("decisions"),
            count((logged > 0) == (replayed > 0)).alias("same_decision"),
            count(is_throttle).alias("throttles"),
            count(is_throttle & (distance <= 1)).alias("within_1ms"),
            count(is_throttle & (distance <= 5)).alias("within_5ms"),
            F.coalesce(F.percentile(F.when(is_throttle, distance), 0.5), F.lit(0.0)).alias(
                "residual_median_ms"
            ),
            F.coalesce(F.max(F.when(is_throttle, distance)), F.lit(0))
            .cast("long")
            .alias("residual_max_ms"),
            count(F.col("is_proven")).alias("proven"),
        )
        .select(*AGREEMENT.names)
    )
