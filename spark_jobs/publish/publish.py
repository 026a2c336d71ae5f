"""Writing the report of a run where people find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.publish.audit_outcome import outcome_of, outcome_path, outcome_text
from spark_jobs.publish.facts.audit_facts import gather
from spark_jobs.publish.finding_records import FINDINGS_NAME, finding_lines
from spark_jobs.publish.metrics import METRICS_NAME, metrics_text
from spark_jobs.publish.page.report_page import owner_pages, render, stale_pages
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import write_whole

REPORT_NAME = "report.html"


@dataclass(frozen=True, slots=True)
class Published:
    """Where the files of a run are."""

    report: Path
    outcome: Path


def report_path(scope: RunScope) -> Path:
    """Return where the report of ``scope`` is, or will be."""
    return scope.output_dir("reports") / REPORT_NAME


def publish_report(
    scope: RunScope, settings: ReportSettings | None = None, dag_run_id: str | None = None
) -> Published:
    """Write the pages and the outcome of an audited day; return where they are."""
    facts = gather(scope)
    settings = settings or ReportSettings()
    page = render(facts, settings)
    outcome = outcome_text(outcome_of(facts, dag_run_id))
    folder = scope.output_dir("reports")
    write_whole(folder / FINDINGS_NAME, finding_lines(scope, facts.news))
    _write_metrics(scope, metrics_text(facts))
    written = set()
    for name, text in owner_pages(facts, settings):
        written.add(write_whole(folder / name, text).name)
    for name in list(stale_pages(scope, written)):
        (folder / name).unlink()
    return Published(
        report=write_whole(report_path(scope), page),
        outcome=write_whole(outcome_path(scope), outcome),
    )


def metrics_path(warehouse: Path, cluster: str) -> Path:
    """Return where the metrics of a cluster's last audited day are, or will be."""
    return warehouse / "metrics" / f"{cluster}.prom"


def _write_metrics(scope: RunScope, metrics: str) -> None:
    """Write a day's metrics beside its report; the last day's to where Prometheus is told of."""
    write_whole(scope.output_dir("reports") / METRICS_NAME, metrics)
    if scope.day >= max(days_of(scope.warehouse, scope.cluster, "findings"), default=scope.day):
        write_whole(metrics_path(scope.warehouse, scope.cluster), metrics)
