"""Step judge_decisions: decisions → findings, rates → roll-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.judge.causes.findings import SensorSecond, find
from spark_jobs.judge.crosscheck_metrics import crosscheck_metrics
from spark_jobs.judge.explain_stretches import explain_stretches
from spark_jobs.judge.roll_up_rates import roll_up_rates
from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.suspect_seconds import seconds_of_suspects
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
