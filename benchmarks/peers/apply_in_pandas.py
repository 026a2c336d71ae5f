"""Peer of the replay: the same kernel, called by Spark's ``applyInPandas`` for each sensor.

Exact as the replay is while nobody is throttled; it aligns nothing and judges simply.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd  # noqa: TID251  what is measured is the way through it
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.quota.states import SensorStates
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.tables import DECISIONS, RATES

KEY = ("broker_id", "quota_type", "user", "client_id")


def replayed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the decisions of one sensor."""
    rows = rows.sort_values(["recorded_estimate_us", "source_line"])
    n = len(rows)
    states = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
    at_ms = rows["recorded_estimate_us"].to_numpy() // 1000
    logged_ms = rows["logged_throttle_time_ms"].to_numpy().astype(np.int64)
    found = replay_rate(
        np.zeros(n, np.int64), at_ms, rows["amount"].to_numpy(), rows["bound"].to_numpy(),
        np.full(n, RECORD), logged_ms, np.full(n, NO_THROTTLE_MAX), *states.rate_arrays(),
    )  # fmt: skip
    off_ms = logged_ms - found.throttle_time_ms
    near, less = np.abs(off_ms) <= 5, off_ms < 0
    verdict = np.where(near, "agree", np.where(less, "under_throttled", "over_throttled"))
    own = {
        "quota_user": rows["user"], "quota_client_id": rows["client_id"],
        "quota_level": "user+client_id", "resource": None, "sensor_epoch": 0,
        "sensor_seq": np.arange(n), "recorded_at_ms": at_ms, "is_unrecorded": False,
        "rate": found.rate, "window_size_ms": found.window_size_ms, "tokens": np.nan,
        "replayed_throttle_time_ms": found.throttle_time_ms, "logged_admitted": True,
        "replayed_admitted": True, "verdict": verdict, "reason": None, "is_proven": False,
    }  # fmt: skip
    return rows.assign(**own)[DECISIONS.names]


def rates_per_second(decisions: DataFrame) -> DataFrame:
    """Return the rows of the ``rates`` table: one sensor in one second, each part in order."""
    last = F.struct("sensor_epoch", "sensor_seq")
    second = (F.floor(F.col("recorded_at_ms") / 1000) * 1000).cast("long")
    return (
        decisions.withColumn("second_ms", second)
        .groupBy(*SENSOR_COLUMNS, "second_ms")
        .agg(
            _sum_in_order().alias("amount"),
            F.max_by("rate", last).alias("rate"),
            F.max_by("tokens", last).alias("tokens"),
            F.max_by("bound", last).alias("bound"),
            F.count_if((F.col("logged_throttle_time_ms") > 0) | ~F.col("logged_admitted")).alias(
                "throttled_requests"
            ),
            F.sum(F.col("logged_throttle_time_ms").cast("long")).alias("throttle_time_ms"),
        )
        .select(*RATES.names)
        .sortWithinPartitions(*SENSOR_COLUMNS, "second_ms")
    )


def _sum_in_order() -> Column:
    """Return the sum of what was recorded, added as the sensor did.

    Rows of a shuffle come in the order in which machines answer, and a sum of floats tells of it.
    """
    amount = F.when(~F.col("is_unrecorded"), F.coalesce("amount", F.lit(0.0))).otherwise(0.0)
    rows = F.collect_list(F.struct("sensor_epoch", "sensor_seq", amount.alias("amount")))
    return F.aggregate(
        F.sort_array(rows), F.lit(0.0), lambda total, row: total + row.getField("amount")
    )


def main(warehouse: Path, out: Path) -> None:
    with spark_session("peer") as spark:
        requests = spark.read.parquet(f"{warehouse}/requests")
        is_produce = F.col("api_name") == "PRODUCE"
        quotas = spark.read.parquet(f"{warehouse}/quota_changes").select(
            "quota_type", F.col("quota_user").alias("user"),
            F.col("quota_client_id").alias("client_id"), "bound",
        )  # fmt: skip
        everyone = quotas.where(F.col("user") == "<default>").first()
        assert everyone is not None
        rows = (
            requests.where(F.col("api_name").isin("PRODUCE", "FETCH"))
            .withColumn("quota_type", F.when(is_produce, "producer_byte_rate")
                        .otherwise("consumer_byte_rate"))
            .withColumn("amount", F.when(is_produce, F.col("request_bytes"))
                        .otherwise(F.col("response_bytes")).cast("double"))
            .withColumnRenamed("throttle_time_ms", "logged_throttle_time_ms")
            .select(*KEY, "connection", "correlation_id", "api_name", "api_version", "amount",
                    "log_time_ms", "recorded_estimate_us", "logged_throttle_time_ms",
                    "source_file", "source_line")
            .join(F.broadcast(quotas), on=["quota_type", "user", "client_id"], how="left")
            .fillna({"bound": everyone["bound"]})
        )  # fmt: skip
        schema = from_arrow_schema(DECISIONS)
        decided = rows.groupBy(*KEY).applyInPandas(replayed, schema)
        decided.write.parquet(str(out / "decisions"))
        written = spark.read.parquet(str(out / "decisions"))
        rates_per_second(written).write.parquet(str(out / "rates"))
        print(written.count())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
