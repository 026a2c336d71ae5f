"""The report page: what one run found, as one HTML document that needs nothing else."""

from __future__ import annotations

from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.change_words import changes_in_words, gone_in_words
from spark_jobs.publish.facts.headline import headline
from spark_jobs.publish.facts.news_text import problem_name
from spark_jobs.publish.facts.owner_facts import is_of_team, teams_on
from spark_jobs.publish.facts.proposals import written_files
from spark_jobs.publish.facts.quality import data_docs_of, quarantine_reasons, total_lines
from spark_jobs.publish.facts.quota_intervals import EntityTimeline, quota_timelines
from spark_jobs.publish.page.first_page import first_page
from spark_jobs.publish.page.page_pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.settings import ReportSettings


def render(facts: AuditFacts, settings: ReportSettings) -> str:
    """Return the page of ``facts``: the same text for the same tables and settings.

    Of one team's facts it leaves out what is about the run as a whole.
    """
    is_of_all = facts.team is None
    pictures = sensor_pictures(facts, settings.pictures_max)
    return page_template("report.html.j2").render(
        facts=facts,
        headline=headline(facts),
        first=first_page(facts),
        pictures=pictures,
        pictures_max=settings.pictures_max,
        pictures_possible=len(pictured_sensors(facts)),
        anchors={picture.sensor: picture.anchor for picture in pictures},
        timelines=_timelines(facts),
        quarantine=quarantine_reasons(facts.scope),
        data_docs=data_docs_of(facts.scope),
        lines=total_lines(facts.files),
        written_files=written_files(facts.scope) if is_of_all else (),
        rows_max=settings.table_rows_max,
        bound_in_words=bound_in_words,
        course=changes_in_words(facts.news),
        gone_in_words=gone_in_words,
        problem_name=problem_name,
        # In a report of one owner it need not stand beside each name.
        team_of=teams_on(facts.news.owners if is_of_all else None, facts.scope.day),
    )


def _timelines(facts: AuditFacts) -> tuple[EntityTimeline, ...]:
    held = quota_timelines(facts.scope, facts.span_ms) if facts.span_ms else ()
    if facts.team is None:
        return held
    return tuple(timeline for timeline in held if is_of_team(timeline, facts))
