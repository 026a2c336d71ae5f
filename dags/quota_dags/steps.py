"""The audit's steps as command lines, for whoever runs them one by one: the daily DAG.

Airflow's OpenLineage provider, where it is installed, makes datasets of files' addresses by
itself, and none of ours: an asset's (``asset_uri``) is that of any warehouse.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quota_dags.forms import check_places, refused_for_good, text_of
from quota_dags.process import TaskTerms, ingest_arguments
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.pipeline import ARCHIVE, STEPS

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
        """Return cluster, day and warehouse, as the asset's events have them."""
        day = self.day.isoformat()
        return {"cluster": self.cluster, "day": day, "warehouse": self.warehouse}

    def scope_arguments(self) -> list[str]:
        """Return the options that every step takes."""
        return [
            "--warehouse", self.warehouse, "--cluster", self.cluster, "--day", self.day.isoformat()
        ]  # fmt: skip


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


def audit_of_context(
    context: Mapping[str, Any], settings: DailyAuditSettings, terms: TaskTerms
) -> DailyAudit:
    """Return the audit that a DAG run asks for, from the context that Airflow gives its tasks.

    Raises ``terms.final_error`` where ``settings`` do not allow it.
    """
    params = context["params"]
    with refused_for_good(terms.final_error):
        check_places(params, settings)
    # A run that was triggered with no logical date has no interval.
    interval_start = context.get("data_interval_start")
    day = audited_day(params.get("day"), interval_start, context["dag_run"].run_after)
    return DailyAudit(
        archive=text_of(params, "archive"),
        warehouse=text_of(params, "warehouse"),
        cluster=text_of(params, "cluster"),
        day=day,
        timezone=text_of(params, "timezone"),
        broker_version=params.get("broker_version") or None,
    )


def run_step(
    task_id: str,
    audit: DailyAudit,
    terms: TaskTerms,
    lineage: Any,
    failed: Callable[[dict[str, Any]], None] | None = None,
) -> str:
    """Run a step on its day as :meth:`TaskTerms.run` does, and return its last line.

    ``lineage`` is Airflow's collector, which is told before what the step reads and writes.
    """
    report_lineage(task_id, audit, lineage)
    return terms.run(task_id, audit.day.isoformat(), step_arguments(task_id, audit), failed)


def step_arguments(task_id: str, audit: DailyAudit) -> list[str]:
    """Return a step's arguments of ``quota-audit``; no shell ever sees them.

    >>> audit = DailyAudit("logs", "wh", "east", dt.date(2026, 11, 20), "UTC", None)
    >>> step_arguments("validate_replayed", audit)[:4]
    ['validate', 'replayed', '--warehouse', 'wh']
    """
    command = STEPS[task_id].command
    if task_id == "ingest_requests":
        own = ingest_arguments(audit.timezone, audit.broker_version)
        return [*command, audit.archive, *audit.scope_arguments(), *own]
    if task_id == "judge_decisions":
        return [*command, "--archive", audit.archive, *audit.scope_arguments()]
    return [*command, *audit.scope_arguments()]


def report_lineage(task_id: str, audit: DailyAudit, collector: Any) -> None:
    """Tell Airflow's lineage ``collector`` what a step reads and writes.

    One that nothing reads, as where the OpenLineage provider is not installed, drops it.
    """
    for address in _addresses(STEPS[task_id].reads, audit):
        collector.add_input_asset(None, uri=address)
    for address in _addresses(STEPS[task_id].writes, audit):
        collector.add_output_asset(None, uri=address)


def _addresses(tables: tuple[str, ...], audit: DailyAudit) -> Iterator[str]:
    """Return the address of each table's folder, all of its clusters and days."""
    for table in tables:
        folder = audit.archive if table == ARCHIVE else f"{audit.warehouse}/{table}"
        yield folder if "://" in folder else Path(folder).as_uri()


def asset_uri(table: str) -> str:
    """Return the address under which Airflow knows a table or folder of any warehouse.

    An event's ``extra`` says which. Airflow takes two addresses of one name for a conflict and
    fails the task, so the address cannot be the folder's: warehouses change with a setting.

    >>> asset_uri("findings")
    'x-quota-audit://warehouse/findings'
    """
    return f"x-quota-audit://warehouse/{table}"
