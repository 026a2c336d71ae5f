"""The audit's steps as command lines, for whoever runs them one by one: the daily DAG."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quota_dags.forms import text_of
from quota_dags.process import default_launcher, ingest_arguments, run_submitted

STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": ("ingest",),
        "validate_ingested": ("validate", "ingested"),
        "resolve_quotas": ("resolve",),
        "replay_quotas": ("replay",),
        "validate_replayed": ("validate", "replayed"),
        "judge_decisions": ("judge",),
        "recommend_quotas": ("recommend",),
        "validate_judged": ("validate", "judged"),
        "publish_report": ("publish",),
    }
)
"""Task id → what follows ``quota-audit``, in the order the tasks run."""

ASSETS: Mapping[str, str] = MappingProxyType(
    {
        "quota_decisions": "decisions",
        "quota_findings": "findings",
        "quota_recommendations": "recommendations",
        "quota_report": "reports",
    }
)
"""Airflow's name of an asset → its folder in the warehouse. PUBLISHES renews all at once."""

PUBLISHES = "publish_report"
"""The task before which readers see nothing of a run."""

FAILURE_KEY = "failure"
"""Under this key a step that fails leaves its exit code and what it ended with (an XCom)."""

ARCHIVE = "archive"
"""What the ingest reads: no table, and not in the warehouse."""

_INGESTED = (
    "requests", "quarantine", "files", "brokers", "quota_events", "log_gaps", "broker_starts",
    "throttle_records",
)  # fmt: skip

_REPLAYED = (
    "located_changes", "decisions", "agreement", "rates", "quota_state", "topic_inventory",
)  # fmt: skip

WRITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": _INGESTED,
        "resolve_quotas": ("quota_changes",),
        "replay_quotas": _REPLAYED,
        "judge_decisions": ("findings", "rate_rollups"),
        "recommend_quotas": ("demand", "change_results", "recommendations"),
        "publish_report": ("reports",),
    }
)
"""Task id → the tables it writes; others check what is there."""

READS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": (ARCHIVE,),
        "validate_ingested": _INGESTED,
        "resolve_quotas": ("files", "brokers", "quota_events"),
        # States and inventory are the day before's.
        "replay_quotas": (
            "requests", "files", "brokers", "log_gaps", "broker_starts", "throttle_records",
            "quota_changes", "quota_state", "topic_inventory",
        ),
        "validate_replayed": ("quota_changes", *_REPLAYED),
        "judge_decisions": (
            "files", "brokers", "log_gaps", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates",
        ),
        "recommend_quotas": (
            "requests", "files", "brokers", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates", "findings", "demand", "applied_changes",
        ),
        "validate_judged": (
            "findings", "rate_rollups", "demand", "change_results", "recommendations",
        ),
        "publish_report": (
            "requests", "quarantine", "files", "brokers", "quota_changes", "decisions", "agreement",
            "rates", "findings", "change_results", "recommendations",
        ),
    }
)  # fmt: skip
"""Task id → the tables it reads."""


@dataclass(frozen=True, slots=True)
class DailyAudit:
    """One day of one cluster to audit; ``broker_version`` None = found out by the ingest."""

    archive: str
    warehouse: str
    cluster: str
    day: dt.date
    timezone: str
    broker_version: str | None

    def scope(self) -> dict[str, str]:
        """Return where the audit's tables are, as the asset's events have it."""
        day = self.day.isoformat()
        return {"cluster": self.cluster, "day": day, "warehouse": self.warehouse}

    def scope_arguments(self) -> list[str]:
        """Return the options that every step takes."""
        return [
            "--warehouse", self.warehouse, "--cluster", self.cluster, "--day", self.day.isoformat()
        ]  # fmt: skip

    def ingest_arguments(self) -> list[str]:
        """Return the options that only the ingest takes."""
        return ingest_arguments(self.timezone, self.broker_version)


def audited_day(
    day: str | None, interval_start: dt.datetime | None, run_after: dt.datetime
) -> dt.date:
    """Return the UTC day a run audits.

    The run's own ``day`` wins; else the day its data interval starts on; else, for a run without
    a logical date (triggered with ``logical_date: null``), the last full day before ``run_after``.

    >>> audited_day(None, None, dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC))
    datetime.date(2026, 11, 20)
    """
    if day:
        return dt.date.fromisoformat(day)
    if interval_start is not None:
        return interval_start.astimezone(dt.UTC).date()
    return run_after.astimezone(dt.UTC).date() - dt.timedelta(days=1)


def audit_of_run(
    params: Mapping[str, str | None],
    interval_start: dt.datetime | None,
    run_after: dt.datetime,
) -> DailyAudit:
    """Return what a DAG run audits, from its params and its times."""
    return DailyAudit(
        archive=text_of(params, "archive"),
        warehouse=text_of(params, "warehouse"),
        cluster=text_of(params, "cluster"),
        day=audited_day(params.get("day"), interval_start, run_after),
        timezone=text_of(params, "timezone"),
        broker_version=params.get("broker_version") or None,
    )


def audit_of_context(context: Mapping[str, Any]) -> DailyAudit:
    """Return what a DAG run audits, from the context that Airflow gives its tasks."""
    # A run that was triggered with no logical date has no interval.
    interval_start = context.get("data_interval_start")
    return audit_of_run(context["params"], interval_start, context["dag_run"].run_after)


def step_command(task_id: str, audit: DailyAudit, launcher: Sequence[str] = ()) -> list[str]:
    """Return the command of a step as a list of arguments; no shell ever sees it.

    >>> audit = DailyAudit("logs", "wh", "east", dt.date(2026, 11, 20), "UTC", None)
    >>> step_command("validate_replayed", audit, ["quota-audit"])[:4]
    ['quota-audit', 'validate', 'replayed', '--warehouse']
    """
    command = [*(launcher or default_launcher()), *STEPS[task_id]]
    if task_id == "ingest_requests":
        return [*command, audit.archive, *audit.scope_arguments(), *audit.ingest_arguments()]
    if task_id == "judge_decisions":
        return [*command, "--archive", audit.archive, *audit.scope_arguments()]
    return [*command, *audit.scope_arguments()]


def run_step(
    task_id: str,
    audit: DailyAudit,
    log: Callable[[str], None],
    final_error: type[Exception],
    launcher: Sequence[str] = (),
    failed: Callable[[dict[str, Any]], None] | None = None,
) -> str:
    """Run a step on its day, as ``run_submitted`` does, and return its last line."""
    command = step_command(task_id, audit, launcher)
    return run_submitted(task_id, audit.day.isoformat(), command, log, final_error, failed)


def report_lineage(task_id: str, audit: DailyAudit, collector: Any) -> None:
    """Tell Airflow's lineage ``collector`` what a step reads and writes.

    One that nothing reads, as where the OpenLineage provider is not installed, drops it.
    """
    for address in _addresses(READS[task_id], audit):
        collector.add_input_asset(None, uri=address)
    for address in _addresses(WRITES.get(task_id, ()), audit):
        collector.add_output_asset(None, uri=address)


def _addresses(tables: tuple[str, ...], audit: DailyAudit) -> Iterator[str]:
    """Return the address of each table's folder, all of its clusters and days."""
    for table in tables:
        folder = audit.archive if table == ARCHIVE else f"{audit.warehouse}/{table}"
        yield folder if "://" in folder else Path(folder).as_uri()
