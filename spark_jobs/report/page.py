"""The report page: what one run found, as one HTML document that needs nothing else."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_jobs.report import human_numbers as numbers
from spark_jobs.report import wording
from spark_jobs.report.audit_facts import AuditFacts
from spark_jobs.report.headline import headline
from spark_jobs.report.page_pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.report.proposals import written_files
from spark_jobs.report.quality import quarantine_reasons, total_lines
from spark_jobs.report.quota_intervals import quota_timelines
from spark_jobs.settings import ReportSettings


def render(facts: AuditFacts, settings: ReportSettings) -> str:
    """Return the page of ``facts``: the same text for the same tables and settings."""
    pictures = sensor_pictures(facts, settings.pictures_max)
    template = _environment().get_template("report.html.j2")
    return template.render(
        facts=facts,
        headline=headline(facts),
        pictures=pictures,
        pictures_max=settings.pictures_max,
        pictures_possible=len(pictured_sensors(facts)),
        anchors={picture.sensor: picture.anchor for picture in pictures},
        timelines=quota_timelines(facts.scope, facts.span_ms) if facts.span_ms else (),
        quarantine=quarantine_reasons(facts.scope),
        lines=total_lines(facts.files),
        written_files=written_files(facts.scope),
        rows_max=settings.table_rows_max,
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("spark_jobs", "report/templates"),
        # Client ids, users and log lines are text of strangers: nothing is HTML unless marked.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": numbers.count,
        "change": numbers.change,
        "duration": numbers.duration,
        "exact_rate": numbers.exact_rate,
        "in_words": wording.in_words,
        "iso": numbers.iso,
        "share": numbers.share,
        "significant": numbers.significant,
        "time": numbers.time_of_day,
        "value": numbers.rate,
        "visible": wording.visible,
    }
    words: dict[str, Any] = {
        "FINDING_KINDS": wording.FINDING_KINDS,
        "REASONS": wording.REASONS,
        "QUARANTINE_REASONS": wording.QUARANTINE_REASONS,
        "SOURCES": wording.SOURCES,
        "VERSION_SOURCES": wording.VERSION_SOURCES,
        "RATE_PROFILES": wording.RATE_PROFILES,
    }
    environment.globals |= words | {"plural": wording.plural, "bound_in_words": bound_in_words}
    return environment
