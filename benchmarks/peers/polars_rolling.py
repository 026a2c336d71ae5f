"""Peer of the replay: Polars' rolling sums of 10 s, to the columns of ``decisions`` and ``rates``.

An approximation: a sliding sum over ten seconds instead of Kafka's samples, a throttle from it, no
record times, no sensors of several clients, no changes of quotas. All rows are held in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

WINDOW = "10s"
WINDOW_MS = 10_000
KEY = ["broker_id", "quota_type", "user", "client_id"]
LANES = (("PRODUCE", "producer_byte_rate", "request_bytes"),
         ("FETCH", "consumer_byte_rate", "response_bytes"))  # fmt: skip


def lane(warehouse: Path, api_name: str, quota_type: str, size: str) -> pl.LazyFrame:
    """Return one quota type's decisions."""
    quotas = pl.read_parquet(f"{warehouse}/quota_changes/**/*.parquet", hive_partitioning=False)
    quotas = quotas.filter(pl.col("quota_type") == quota_type)
    everyone = quotas.filter(pl.col("quota_user") == "<default>")["bound"][0]
    own = quotas.filter(pl.col("quota_user") != "<default>").select(
        user="quota_user", client_id="quota_client_id", bound="bound"
    )
    requests = pl.scan_parquet(f"{warehouse}/requests/**/*.parquet", hive_partitioning=False)
    at_ms = pl.col("recorded_estimate_us") // 1000
    rate = pl.col("summed") / (WINDOW_MS / 1000)
    over = ((rate - pl.col("bound")) / pl.col("bound") * WINDOW_MS).round()
    logged, replayed = pl.col("logged_throttle_time_ms"), pl.col("replayed_throttle_time_ms")
    return (
        requests.filter(pl.col("api_name") == api_name)
        .select(
            "broker_id", "connection", "correlation_id", "api_name", "api_version", "user",
            "client_id", "log_time_ms", "recorded_estimate_us", "source_file", "source_line",
            amount=pl.col(size).cast(pl.Float64),
            logged_throttle_time_ms="throttle_time_ms",
            recorded_at_ms=at_ms,
            at=pl.from_epoch(at_ms, time_unit="ms"),
            quota_type=pl.lit(quota_type),
        )
        .join(own.lazy(), on=["user", "client_id"], how="left")
        .with_columns(pl.col("bound").fill_null(everyone))
        .sort(*KEY, "recorded_estimate_us", "source_line")
        .with_columns(
            summed=pl.col("amount").rolling_sum_by("at", window_size=WINDOW).over(KEY),
            sensor_seq=pl.int_range(pl.len(), dtype=pl.Int64).over(KEY),
        )
        .with_columns(
            rate=rate,
            replayed_throttle_time_ms=pl.when(rate > pl.col("bound")).then(over).otherwise(0)
            .cast(pl.Int32),
        )
        .select(
            "broker_id", "connection", "correlation_id", "api_name", "api_version", "user",
            "client_id", "quota_type",
            quota_user="user",
            quota_client_id="client_id",
            quota_level=pl.lit("user+client_id"),
            resource=pl.lit(None, pl.String),
            sensor_epoch=pl.lit(0, pl.Int32),
            sensor_seq="sensor_seq",
            log_time_ms="log_time_ms",
            recorded_at_ms="recorded_at_ms",
            amount="amount",
            is_unrecorded=pl.lit(False),
            bound="bound",
            rate="rate",
            window_size_ms=pl.lit(WINDOW_MS, pl.Int64),
            tokens=pl.lit(None, pl.Float64),
            logged_throttle_time_ms="logged_throttle_time_ms",
            replayed_throttle_time_ms="replayed_throttle_time_ms",
            logged_admitted=pl.lit(True),
            replayed_admitted=pl.lit(True),
            verdict=pl.when((logged - replayed).abs() <= 5).then(pl.lit("agree"))
            .when(logged < replayed).then(pl.lit("under_throttled"))
            .otherwise(pl.lit("over_throttled")),
            reason=pl.lit(None, pl.String),
            is_proven=pl.lit(False),
            source_file="source_file",
            source_line="source_line",
        )
    )  # fmt: skip


def rates(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each sensor and second."""
    key = ["broker_id", "quota_type", "quota_user", "quota_client_id"]
    return decisions.group_by(
        *key, (pl.col("recorded_at_ms") // 1000 * 1000).alias("second_ms")
    ).agg(
        pl.col("amount").sum(),
        pl.col("rate", "tokens", "bound").last(),
        throttled_requests=(pl.col("logged_throttle_time_ms") > 0).sum(),
        throttle_time_ms=pl.col("logged_throttle_time_ms").sum(),
    )


def main(warehouse: Path, out: Path) -> None:
    decisions = pl.concat([lane(warehouse, *each) for each in LANES]).collect()
    out.mkdir(parents=True)
    decisions.write_parquet(out / "decisions.parquet", compression="zstd")
    rates(decisions).write_parquet(out / "rates.parquet", compression="zstd")
    print(len(decisions))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
