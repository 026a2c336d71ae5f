"""A report for each owner, about their clients only, and the list of owners and of the unowned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b

from spark_jobs.publish.facts.audit_facts import AuditFacts
from spark_jobs.publish.facts.findings import by_severity
from spark_jobs.publish.facts.owner_facts import TeamSummary, team_summaries
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.page.page import render
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name

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
