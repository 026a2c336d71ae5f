"""Writing the report of a run where people find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.report.audit_facts import gather
from spark_jobs.report.audit_outcome import outcome_of, outcome_path, outcome_text
from spark_jobs.report.page import render
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse import RunScope
from spark_jobs.whole_file import write_whole

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
    """Write the page and the outcome of an audited day; return where they are."""
    facts = gather(scope)
    page = render(facts, settings or ReportSettings())
    outcome = outcome_text(outcome_of(facts, dag_run_id))
    return Published(
        report=write_whole(report_path(scope), page),
        outcome=write_whole(outcome_path(scope), outcome),
    )
