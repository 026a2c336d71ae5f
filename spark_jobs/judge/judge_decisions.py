"""Step judge_decisions: decisions → findings, rates → roll-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.judge.causes.findings import SensorSecond, find
from spark_jobs.judge.crosscheck_metrics import crosscheck_metrics
from spark_jobs.judge.explain_stretches import explain_stretches
from spark_jobs.judge.roll_up_rates import roll_up_rates
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.verdicts.verdicts import THROTTLED_WITHOUT_QUOTA
from spark_jobs.settings import CrosscheckSettings, JudgeSettings
from spark_jobs.warehouse.read import open_table, read_frame, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS
from spark_jobs.warehouse.write import write_table


def judge_decisions(
    session: Callable[[], SparkSession],
    scope: RunScope,
    settings: JudgeSettings | None = None,
    metrics: Sequence[Path] = (),
) -> str:
    """Write ``findings`` and ``rate_rollups`` of a day and return what was found in a sentence.

    ``session`` returns a Spark session; it is not asked for one where no decision is suspect.
    ``metrics`` are exports of the brokers' own metrics, see :func:`crosscheck_metrics`.
    """
    settings = settings or JudgeSettings()
    seconds = _suspect_seconds(session(), scope) if _has_suspects(scope) else []
    brokers = read_table(scope, "brokers", ["broker_id", "version"]).to_pylist()
    findings = find(
        seconds,
        cluster=scope.cluster,
        versions={b["broker_id"]: b["version"] for b in brokers},
        min_decisions=settings.finding_min_decisions,
        stretches=explain_stretches(scope, settings),
    )
    compared = ""
    if metrics:
        checked = crosscheck_metrics(scope, metrics, CrosscheckSettings())
        findings += checked.findings
        agreeing = checked.compared - checked.disagreeing
        compared = f", {agreeing:,} of {checked.compared:,} samples of metrics agree"
    rows = pa.Table.from_pylist(findings, schema=FINDINGS)
    write_table(rows, "findings", scope)
    roll_up_rates(scope)
    by_severity = {
        s: sum(f["severity"] == s for f in findings) for s in ("critical", "warning", "info")
    }
    counts = ", ".join(f"{n} {severity}" for severity, n in by_severity.items())
    return f"findings: {len(findings)} ({counts}){compared}"


def _has_suspects(scope: RunScope) -> bool:
    unbound = pc.field("reason") == THROTTLED_WITHOUT_QUOTA
    suspect = pc.field("verdict").isin(WRONG_VERDICTS) | pc.coalesce(unbound, pa.scalar(False))
    return bool(open_table(scope, "decisions").count_rows(filter=suspect))


def _suspect_seconds(spark: SparkSession, scope: RunScope) -> list[SensorSecond]:
    decisions = read_frame(spark, "decisions", scope)
    seconds = []
    for row in seconds_of_suspects(decisions).collect():
        fields = row.asDict()
        key = SensorKey(*(fields.pop(name) for name in SENSOR_COLUMNS))
        seconds.append(SensorSecond(key=key, **fields))
    return seconds


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
