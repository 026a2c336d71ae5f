"""Step judge_decisions: decisions → findings."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.jobs.local_table import write_local
from spark_jobs.jobs.publish_table import read_partitions
from spark_jobs.judge.findings import SensorKey, SensorSecond, find
from spark_jobs.settings import JudgeSettings
from spark_jobs.tables import FINDINGS
from spark_jobs.transforms.sensor_seconds import SENSOR, seconds_of_suspects
from spark_jobs.warehouse import RunScope, read_table


def judge_decisions(
    spark: SparkSession, scope: RunScope, settings: JudgeSettings | None = None
) -> str:
    """Write the ``findings`` of a day and return what was found in a sentence."""
    settings = settings or JudgeSettings()
    decisions = read_partitions(spark, "decisions", scope.warehouse, scope.cluster, scope.day)
    seconds = []
    for row in seconds_of_suspects(decisions).collect():
        fields = row.asDict()
        key = SensorKey(**{name: fields.pop(name) for name in SENSOR})
        seconds.append(SensorSecond(key=key, **fields))
    brokers = read_table(scope, "brokers", ["broker_id", "version"]).to_pylist()
    findings = find(
        seconds,
        cluster=scope.cluster,
        versions={b["broker_id"]: b["version"] for b in brokers},
        min_decisions=settings.finding_min_decisions,
    )
    rows = pa.Table.from_pylist(findings, schema=FINDINGS)
    write_local(rows, "findings", scope)
    by_severity = {
        s: sum(f["severity"] == s for f in findings) for s in ("critical", "warning", "info")
    }
    counts = ", ".join(f"{n} {severity}" for severity, n in by_severity.items())
    return f"findings: {len(findings)} ({counts})"
