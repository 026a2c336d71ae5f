"""The report: what one run found, as one HTML document that needs nothing else.

For each owner there is one about their clients only, with a list of owners and of the unowned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.findings import by_severity
from spark_jobs.publish.facts.headline import headline
from spark_jobs.publish.facts.news import changes_in_words, gone_in_words, problem_name
from spark_jobs.publish.facts.owner_facts import TeamSummary, is_of_team, teams_on
from spark_jobs.publish.facts.quality import QuarantineReason, total_lines
from spark_jobs.publish.facts.timelines import EntityTimeline, SensorHistory
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.page.first_page import first_page
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.publish.page.pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.settings import ReportSettings
from spark_jobs.wording.names import entity_name

OWNERS_NAME = "owners.html"
_PAGE = re.compile(r"owner-[a-z0-9-]+\.html")
_SLUG_LENGTH_MAX = 40


@dataclass(frozen=True, slots=True)
class ReportTables:
    """What the reports of a day show of its tables and files besides the facts."""

    timelines: tuple[EntityTimeline, ...]
    quarantine: tuple[QuarantineReason, ...]
    data_docs: tuple[tuple[str, str], ...]  # stage, address as seen from the report
    written_files: tuple[tuple[str, str], ...]  # name, description


def render(
    facts: AuditFacts,
    tables: ReportTables,
    histories: Mapping[SensorKey, SensorHistory],
    settings: ReportSettings,
) -> str:
    """Return the page of ``facts``: the same text for the same tables and settings.

    Of one team's facts it leaves out what is about the run as a whole.
    """
    is_of_all = facts.team is None
    pictures = sensor_pictures(facts, histories)
    return page_template("report.html.j2").render(
        facts=facts,
        headline=headline(facts),
        first=first_page(facts),
        pictures=pictures,
        pictures_max=settings.pictures_max,
        pictures_possible=len(pictured_sensors(facts)),
        anchors={picture.sensor: picture.anchor for picture in pictures},
        timelines=[t for t in tables.timelines if is_of_all or is_of_team(t, facts)],
        quarantine=tables.quarantine,
        data_docs=tables.data_docs,
        lines=total_lines(facts.files),
        written_files=tables.written_files if is_of_all else (),
        rows_max=settings.table_rows_max,
        bound_in_words=bound_in_words,
        course=changes_in_words(facts.news),
        gone_in_words=gone_in_words,
        problem_name=problem_name,
        # A report of one owner does not repeat the team beside each name.
        team_of=teams_on(facts.news.owners if is_of_all else None, facts.scope.day),
    )


def page_name(team: str) -> str:
    """Return the name of a team's report: readable, and another one for every other team.

    >>> page_name("Orders & Co.")
    'owner-orders-co-cb402c.html'
    """
    slug = re.sub("[^a-z0-9]+", "-", team.lower()).strip("-")[:_SLUG_LENGTH_MAX]
    return "-".join(filter(None, ("owner", slug, _digest(team)))) + ".html"


def is_owner_page(name: str) -> bool:
    """Return True if a file's name is that of an owner's report, or of the list of owners."""
    return name == OWNERS_NAME or _PAGE.fullmatch(name) is not None


def render_owners(
    facts: AuditFacts, summaries: Sequence[TeamSummary], settings: ReportSettings
) -> str:
    """Return the page that lists the owners of clients, and the clients that nobody owns."""
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
