"""The report: what one run found, as one HTML document that needs nothing else.

For each owner there is one about their clients only, with a list of owners and of the unowned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b

from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.findings import by_severity
from spark_jobs.publish.facts.headline import headline
from spark_jobs.publish.facts.news_words import changes_in_words, gone_in_words, problem_name
from spark_jobs.publish.facts.owner_facts import TeamSummary, is_of_team, team_summaries, teams_on
from spark_jobs.publish.facts.proposals import written_files
from spark_jobs.publish.facts.quality import data_docs_of, quarantine_reasons, total_lines
from spark_jobs.publish.facts.quota_intervals import EntityTimeline, quota_timelines
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.page.first_page import first_page
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.publish.page.pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name


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


OWNERS_NAME = "owners.html"
_PAGE = re.compile(r"owner-[a-z0-9-]+\.html")
_SLUG_LENGTH_MAX = 40


def page_name(team: str) -> str:
    """Return the name of a team's report: readable, and another one for every other team.

    >>> page_name("Orders & Co.")
    'owner-orders-co-cb402c.html'
    """
    slug = re.sub("[^a-z0-9]+", "-", team.lower()).strip("-")[:_SLUG_LENGTH_MAX]
    return "-".join(filter(None, ("owner", slug, _digest(team)))) + ".html"


def is_owner_page(name: str) -> bool:
    """Return whether a file's name is that of an owner's report, or of the list of owners."""
    return name == OWNERS_NAME or _PAGE.fullmatch(name) is not None


def owner_pages(facts: AuditFacts, settings: ReportSettings) -> Iterator[tuple[str, str]]:
    """Yield name and text of each owner's report, last that of the list.

    Nothing where no file says who owns clients.
    """
    summaries = team_summaries(facts)
    for summary in summaries:
        if summary.team is not None:
            yield page_name(summary.team), render(summary.facts, settings)
    if facts.news.owners is not None:
        yield OWNERS_NAME, _list_of(facts, summaries, settings)


def stale_pages(scope: RunScope, written: set[str]) -> Iterator[str]:
    """Yield the names of earlier owners' reports of a day that were not ``written`` again."""
    for path in scope.output_dir("reports").iterdir():
        if is_owner_page(path.name) and path.name not in written:
            yield path.name


def _list_of(
    facts: AuditFacts, summaries: tuple[TeamSummary, ...], settings: ReportSettings
) -> str:
    unowned = next((s.clients for s in summaries if s.team is None), ())
    return page_template("owners.html.j2").render(
        facts=facts,
        summaries=[s for s in summaries if s.team is not None],
        unowned=[entity_name(user, client_id) for user, client_id in unowned],
        page_name=page_name,
        by_severity=by_severity,
        told=(Status.NEW, Status.WORSE),
        rows_max=settings.table_rows_max,
    )


def _digest(team: str) -> str:
    return blake2b(team.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
