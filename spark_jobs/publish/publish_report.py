"""Step publish_report: tables → the files people read."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs.publish.audit_outcome import outcome_of, outcome_path, outcome_text
from spark_jobs.publish.facts.audit_facts import gather
from spark_jobs.publish.json_records import FINDINGS_NAME, finding_lines
from spark_jobs.publish.metrics import METRICS_NAME, metrics_text
from spark_jobs.publish.page.report_page import owner_pages, render, stale_pages
from spark_jobs.recommend.recommendations import write_files
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import write_whole
from spark_jobs.warehouse.write import publish_draft

REPORT_NAME = "report.html"


def publish_run(scope: RunScope) -> str:
    """Publish the run of ``scope``: its tables, then the report and the recommendation files.

    Without a run, the files are made of what is published. Returns where they are.
    """
    scope = publish_draft(scope).held()
    folder = scope.output_dir("reports")
    folder.mkdir(parents=True, exist_ok=True)
    write_files(read_table(scope, "recommendations"), folder)
    # Airflow tells its tasks, and what they start, which run they are.
    report = publish_report(scope, dag_run_id=os.environ.get("AIRFLOW_CTX_DAG_RUN_ID"))
    return f"report: {report}"


def report_path(scope: RunScope) -> Path:
    """Return the path of the report of ``scope``, written or not."""
    return scope.output_dir("reports") / REPORT_NAME


def publish_report(
    scope: RunScope, settings: ReportSettings | None = None, dag_run_id: str | None = None
) -> Path:
    """Write the pages and the outcome of an audited day; return the path of its report."""
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
    report = write_whole(report_path(scope), page)
    write_whole(outcome_path(scope), outcome)
    return report


def metrics_path(warehouse: Path, cluster: str) -> Path:
    """Return the path of the metrics of a cluster's last audited day, written or not."""
    return warehouse / "metrics" / f"{cluster}.prom"


def _write_metrics(scope: RunScope, metrics: str) -> None:
    """Write a day's metrics beside its report; the last day's to where Prometheus is told of."""
    write_whole(scope.output_dir("reports") / METRICS_NAME, metrics)
    if scope.day >= max(days_of(scope.warehouse, scope.cluster, "findings"), default=scope.day):
        write_whole(metrics_path(scope.warehouse, scope.cluster), metrics)
