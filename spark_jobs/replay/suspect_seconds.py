"""Decisions → what each sensor with a wrong one did per second, for the findings."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.replay.verdicts.verdicts import THROTTLED_WITHOUT_QUOTA


def seconds_of_suspects(decisions: DataFrame) -> DataFrame:
    """Return per-second counts (SensorSecond's fields) of the sensors with any wrong decision."""
    suspects = decisions.where(_is_suspect()).select(*SENSOR_COLUMNS).distinct()
    return (
        decisions.join(F.broadcast(suspects), on=list(SENSOR_COLUMNS), how="left_semi")
        .withColumn("second_ms", (F.floor(F.col("recorded_at_ms") / 1000) * 1000).cast("long"))
        .groupBy(*SENSOR_COLUMNS, "second_ms")
        .agg(
            F.count_if(F.col("bound").isNotNull()).alias("decisions"),
            F.count_if(_is_due()).alias("due"),
            F.count_if(_is_due() & _is_enforced()).alias("enforced"),
            *[F.count_if(F.col("verdict") == v).alias(v) for v in WRONG_VERDICTS],
            F.count_if(_is_unbound_throttled()).alias("unbound_throttled"),
            F.min("bound").alias("bound_min"),
            F.max("bound").alias("bound_max"),
            F.sum(F.col("logged_throttle_time_ms").cast("long")).alias("logged_throttle_time_ms"),
            F.sum(F.coalesce("replayed_throttle_time_ms", F.lit(0)).cast("long"))
            .alias("replayed_throttle_time_ms"),
            F.max(F.when(F.col("verdict").isin(*WRONG_VERDICTS), _difference()).otherwise(0))
            .alias("difference_max_ms"),
        )
    )  # fmt: skip


def _is_unbound_throttled() -> Column:
    return F.coalesce(F.col("reason") == THROTTLED_WITHOUT_QUOTA, F.lit(False))


def _is_suspect() -> Column:
    return F.col("verdict").isin(*WRONG_VERDICTS) | _is_unbound_throttled()


def _is_due() -> Column:
    refused = ~F.coalesce("replayed_admitted", F.lit(True))
    throttled = F.coalesce("replayed_throttle_time_ms", F.lit(0)) > 0
    return F.col("bound").isNotNull() & (refused | throttled)


def _is_enforced() -> Column:
    return (F.col("logged_throttle_time_ms") > 0) | ~F.col("logged_admitted")


def _difference() -> Column:
    replayed = F.coalesce("replayed_throttle_time_ms", F.lit(0))
    return F.abs(F.col("logged_throttle_time_ms") - replayed)
