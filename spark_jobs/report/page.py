"""The report page: what one run found, as one HTML document that needs nothing else."""

from __future__ import annotations

from spark_jobs.report.audit_facts import AuditFacts
from spark_jobs.report.change_words import changes_in_words, gone_in_words
from spark_jobs.report.first_page import first_page
from spark_jobs.report.headline import headline
from spark_jobs.report.news_text import problem_name
from spark_jobs.report.page_pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.report.page_template import page_template
from spark_jobs.report.proposals import written_files
from spark_jobs.report.quality import data_docs_of, quarantine_reasons, total_lines
from spark_jobs.report.quota_intervals import quota_timelines
from spark_jobs.settings import ReportSettings


def render(facts: AuditFacts, settings: ReportSettings) -> str:
    """Return the page of ``facts``: the same text for the same tables and settings."""
    pictures = sensor_pictures(facts, settings.pictures_max)
    return page_template("report.html.j2").render(
        facts=facts,
        headline=headline(facts),
        first=first_page(facts),
        pictures=pictures,
        pictures_max=settings.pictures_max,
        pictures_possible=len(pictured_sensors(facts)),
        anchors={picture.sensor: picture.anchor for picture in pictures},
        timelines=quota_timelines(facts.scope, facts.span_ms) if facts.span_ms else (),
        quarantine=quarantine_reasons(facts.scope),
        data_docs=data_docs_of(facts.scope),
        lines=total_lines(facts.files),
        written_files=written_files(facts.scope),
        rows_max=settings.table_rows_max,
        bound_in_words=bound_in_words,
        course=changes_in_words(facts.news),
        gone_in_words=gone_in_words,
        problem_name=problem_name,
    )
