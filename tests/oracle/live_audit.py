"""Real brokers under a scenario, audited and scored: what the live tests look at."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import Archive, find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.quota.codes import QUOTA_TYPES, WRONG_VERDICTS
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.score.agreement import FIRST_QUOTA_SLACK_MS, compare
from spark_jobs.score.score_capture import ScoreRequest, read_capture, score_capture
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from tests.oracle.capture import capture

SCENARIOS = Path(__file__).parent / "scenarios" / "live"
SENSOR = ("broker_id", "quota_type", "quota_user", "quota_client_id")
TOLD = (
    "source_line", "log_time_ms", "recorded_at_ms", "amount", "logged_throttle_time_ms",
    "replayed_throttle_time_ms", "logged_admitted", "tokens", "verdict", "reason", "is_proven",
)  # fmt: skip
_WORST = 8
SHOWN = (
    "produce_decisions", "decision_agreement", "throttled", "throttle_within_1ms",
    "mutation_decisions", "mutation_agreement", "indeterminate_share", "flags_by_type",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LiveAudit:
    """A finished capture, its audit and the figures of its score."""

    scenario: str
    kafka_version: str
    capture: Path
    warehouse: Path
    figures: dict[str, Any]
    seconds: float

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, all days."""
        days = days_of(self.warehouse, "default")
        scopes = [RunScope(self.warehouse, "default", day) for day in days]
        return [row for scope in scopes for row in read_table(scope, table).to_pylist()]

    def decisions(self, quota_type: str) -> list[dict[str, Any]]:
        """Return the decisions of a quota type that a quota was in force for."""
        return [
            row
            for row in self.rows("decisions")
            if row["quota_type"] == quota_type and row["bound"] is not None
        ]

    def accused(self, neighbours: int = 6) -> str:
        """Return every decision that is called wrong, among those around it."""
        lines = []
        rows = [r for t in QUOTA_TYPES for r in self.decisions(t)]
        rows.sort(key=lambda r: (*(r[name] for name in SENSOR), r["sensor_epoch"], r["sensor_seq"]))
        for i, row in enumerate(rows):
            if row["verdict"] not in WRONG_VERDICTS:
                continue
            lines.append(f"accused: {[row[name] for name in SENSOR]}, bound {row['bound']}")
            for each in rows[max(0, i - neighbours) : i + neighbours + 1]:
                told = ", ".join(f"{name} {each[name]}" for name in TOLD)
                lines.append(f"{'>' if each is row else ' '} {told}")
        return "\n".join(lines)

    def uncovered(self) -> str:
        """Return what was logged under a quota and has not one decision."""
        logged = read_capture(find_archive(self.capture, "default"), "UTC")
        logged.take_known_quotas(self.rows("quota_events"))
        rows_of = compare(self.rows("decisions"), logged).rows_of
        due = logged.due_decisions(FIRST_QUOTA_SLACK_MS)
        quotas = f"quotas: {logged.quota_changes}"
        found = [
            f"{rows_of[key]} decisions on {key}: {logged.produces.get(key) or 'a mutation'}"
            for key in due
            if rows_of[key] != 1
        ]
        return "\n".join([quotas, *found])

    def sentence(self) -> str:
        """Return the figures in one line."""
        figures = (f"{name} {_shown(self.figures[name])}" for name in SHOWN)
        return (
            f"{self.scenario} on {self.kafka_version}, {self.seconds:.0f} s: {', '.join(figures)}"
        )

    def worst(self) -> str:
        """Return the sentence, the sensors that agree least, and when changes were in force."""
        ranked = sorted(self.figures["sensors"], key=lambda one: one["decision_agreement"] or 0.0)
        sensors = [
            f"  {[one[name] for name in SENSOR]}: decided {one['decisions']}, "
            f"agree {_shown(one['decision_agreement'])}, throttled {one['throttled']}, "
            f"within 1 ms {_shown(one['throttle_within_1ms'])}"
            for one in ranked[:_WORST]
        ]
        changes = [
            f"  broker {row['broker_id']}: in force {row['in_force_ms'] - row['answered_ms']} ms "
            f"after the answer at {row['answered_ms']}"
            for row in self.rows("located_changes")
        ]
        return "\n".join([self.sentence(), *sensors, *changes])


def audit_live(spark: SparkSession, scenario: str, kafka_version: str, folder: Path) -> LiveAudit:
    """Return the audit of a scenario that real brokers have just run; takes about a minute."""
    start = time.monotonic()
    captured = capture(SCENARIOS / f"{scenario}.txt", kafka_version, folder / "capture")
    options = IngestOptions.of()
    figures = audit_and_score(spark, captured, folder / "warehouse", options)
    return LiveAudit(
        scenario=scenario,
        kafka_version=kafka_version,
        capture=captured,
        warehouse=folder / "warehouse",
        figures=figures,
        seconds=time.monotonic() - start,
    )


def audit_and_score(
    spark: SparkSession, captured: Path, warehouse: Path, options: IngestOptions
) -> dict[str, Any]:
    """Return the figures of a capture after the steps of an audit that decide and judge."""
    audit_archive(spark, find_archive(captured, "default"), warehouse, options)
    return score_capture(ScoreRequest(captured, options, warehouse))


def audit_archive(
    spark: SparkSession, archive: Archive, warehouse: Path, options: IngestOptions
) -> list[RunScope]:
    """Return the days of an archive after the steps of an audit that decide and judge."""
    scopes = list(ingest_requests(spark, archive, warehouse, None, options).scopes)
    for scope in scopes:
        resolve_quotas(scope)
        replay_quotas(spark, scope)
        judge_decisions(lambda: spark, scope)
    return scopes


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
