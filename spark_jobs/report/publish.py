"""Writing the report of a run where people find it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.report.audit_facts import gather
from spark_jobs.report.page import render
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse import RunScope

REPORT_NAME = "report.html"


@dataclass(frozen=True, slots=True)
class Published:
    """Where the files of a run are."""

    report: Path


def report_path(scope: RunScope) -> Path:
    """Return where the report of ``scope`` is, or will be."""
    return scope.output_dir("reports") / REPORT_NAME


def publish_report(scope: RunScope, settings: ReportSettings | None = None) -> Published:
    """Write the page of an audited day beside its other files and return where it is."""
    page = render(gather(scope), settings or ReportSettings())
    return Published(report=write_page(report_path(scope), page))


def write_page(path: Path, page: str) -> Path:
    """Write ``page`` and return its path: readers see the page of before or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
