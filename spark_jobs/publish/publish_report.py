"""Step publish_report: tables → the files people read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from expectations.validate.overview import write_overview
from spark_jobs.judge.throttles import throttled_seconds
from spark_jobs.publish.audit_outcome import (
    METRICS_NAME,
    OUTCOME_NAME,
    metrics_text,
    outcome_of,
    outcome_text,
)
from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.owner_facts import team_summaries
from spark_jobs.publish.facts.timelines import SensorHistory
from spark_jobs.publish.facts.whatif import Row
from spark_jobs.publish.json_records import FINDINGS_NAME, finding_lines
from spark_jobs.publish.page.pictures import pictured_sensors
from spark_jobs.publish.page.report_page import (
    OWNERS_NAME,
    ReportTables,
    is_owner_page,
    page_name,
    render,
    render_owners,
)
from spark_jobs.publish.page.whatif_page import (
    WHATIF_PAGE_NAME,
    WhatifPolicy,
    render_whatif,
)
from spark_jobs.publish.read_facts import (
    data_docs_of,
    gather,
    quarantine_reasons,
    read_timelines,
    sensor_histories,
    written_files,
)
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.recommend.recommendations import write_files
from spark_jobs.settings import IngestSettings, ReportSettings
from spark_jobs.warehouse.days import newest_day
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import write_whole
from spark_jobs.warehouse.write import check_whole, continued_draft, new_output, publish_draft

REPORT_NAME = "report.html"


def publish_run(scope: RunScope) -> str:
    """Publish the run of ``scope``: its tables, its report and the recommendation files.

    Without a run, the files are made again of what is published. Returns a line with the report's
    path. Raises BadInputError, and publishes nothing, where the run is not whole or not validated.
    """
    if scope.run is not None:
        check_whole(scope)
    # Airflow tells its tasks, and what they start, which run they are.
    report = publish_report(scope, dag_run_id=os.environ.get("AIRFLOW_CTX_DAG_RUN_ID"))
    return f"report: {report}"


def report_path(scope: RunScope) -> Path:
    """Return the path of the published report of ``scope``, written or not."""
    return scope.shown_dir("reports") / REPORT_NAME


def publish_report(
    scope: RunScope, settings: ReportSettings | None = None, dag_run_id: str | None = None
) -> Path:
    """Write the pages, outcome and recommendation files into the run of a day, and publish it.

    Returns the path of the report.
    """
    draft = scope if scope.run is not None else continued_draft(scope)
    facts = gather(draft.held())
    settings = settings or ReportSettings()
    with new_output("reports", draft) as folder:
        write_files(read_table(facts.scope, "recommendations"), folder)
        pages = dict(report_pages(facts, settings, folder))
        write_whole(folder / FINDINGS_NAME, finding_lines(facts.scope, facts.news))
        write_whole(folder / METRICS_NAME, metrics_text(facts))
        for name, text in pages.items():
            write_whole(folder / name, text)
        for path in list(folder.iterdir()):
            if is_owner_page(path.name) and path.name not in pages:
                path.unlink()
        write_whole(folder / OUTCOME_NAME, outcome_text(outcome_of(facts, dag_run_id)))
    published = publish_draft(draft)
    _copy_metrics(published)
    write_overview(published.warehouse)
    return report_path(published)


def report_pages(
    facts: AuditFacts, settings: ReportSettings, folder: Path
) -> Iterator[tuple[str, str]]:
    """Yield name and text of each owner's report, of the list of owners, and of the whole one.

    Nothing of owners where no file says who owns clients. ``folder`` has the recommendation files.
    """
    scope = facts.scope
    tables = ReportTables(
        timelines=read_timelines(scope, facts.span_ms) if facts.span_ms else (),
        quarantine=quarantine_reasons(scope),
        data_docs=data_docs_of(scope),
        written_files=written_files(folder),
    )
    summaries = team_summaries(facts)
    for summary in summaries:
        if summary.team is not None:
            histories = pictured_histories(summary.facts, settings.pictures_max)
            yield page_name(summary.team), render(summary.facts, tables, histories, settings)
    if facts.news.owners is not None:
        yield OWNERS_NAME, render_owners(facts, summaries, settings)
    histories = pictured_histories(facts, settings.pictures_max)
    yield REPORT_NAME, render(facts, tables, histories, settings)


def pictured_histories(facts: AuditFacts, pictures_max: int) -> dict[SensorKey, SensorHistory]:
    """Return the histories of the sensors that get a picture, in ``pictured_sensors`` order."""
    sensors = pictured_sensors(facts)[:pictures_max]
    seconds = throttled_seconds(facts.throttled_by_second, sensors)
    return sensor_histories(facts.scope, sensors, seconds)


def metrics_path(warehouse: Path, cluster: str) -> Path:
    """Return the path of the metrics of a cluster's last audited day, written or not."""
    return warehouse / "metrics" / f"{cluster}.prom"


def _copy_metrics(scope: RunScope) -> None:
    """Copy the newest audited day's metrics to :func:`metrics_path`, where a collector looks."""
    days = [*days_of(scope.warehouse, scope.cluster, "findings"), scope.day]
    if scope.day == newest_day(days, IngestSettings().latest_day()):
        metrics = (scope.output_dir("reports") / METRICS_NAME).read_text("utf-8")
        write_whole(metrics_path(scope.warehouse, scope.cluster), metrics)


def withdraw_whatif(scope: RunScope) -> None:
    """Remove the page of an earlier comparison, before the table it was made of is replaced."""
    if (scope.output_dir("reports") / WHATIF_PAGE_NAME).is_file():
        with new_output("reports", scope) as folder:
            (folder / WHATIF_PAGE_NAME).unlink()


def publish_whatif(
    scope: RunScope,
    rows: Sequence[Row],
    policies: Sequence[WhatifPolicy],
    settings: ReportSettings | None = None,
) -> Path:
    """Write the page of ``rows``, of schema WHATIF, beside the day's report; return its path."""
    page = render_whatif(rows, scope, policies, settings)
    with new_output("reports", scope) as folder:
        write_whole(folder / WHATIF_PAGE_NAME, page)
    return scope.shown_dir("reports") / WHATIF_PAGE_NAME
