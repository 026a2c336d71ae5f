"""One audited day: the answer, what needs a look, who was throttled, and every file of it."""

from __future__ import annotations

from quota_pages.audits import published_audit
from quota_pages.entities_page import entities_of, team_of
from quota_pages.page import Place, render
from spark_jobs.publish.facts.news import (
    changes_in_words,
    gone_in_words,
    news_in_a_line,
    problem_name,
)
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.page.report_page import is_owner_page
from spark_jobs.publish.read_facts import findings_of, news_of
from spark_jobs.warehouse.scope import RunScope

FINDINGS_MAX = 200
CLIENTS_MAX = 10
PAGES = ("report.html", "whatif.html")


def audit_page(place: Place, scope: RunScope) -> str | None:
    """Return the page of the audit that ``scope`` is of; None where none is published."""
    audit = published_audit(scope)
    if audit is None:
        return None
    findings = findings_of(scope)
    news = news_of(scope)
    entities = entities_of(scope)
    throttled = [one for one in entities if one.throttled_requests]
    return render(
        "audit.html.j2",
        place,
        audit=audit,
        found=audit.outcome,
        findings=findings[:FINDINGS_MAX],
        course=changes_in_words(news),
        since=news_in_a_line(news),
        errors=news.errors,
        gone=[(problem_name(one), gone_in_words(one)) for one in news.of(Status.GONE)],
        findings_left=max(len(findings) - FINDINGS_MAX, 0),
        throttled=throttled[:CLIENTS_MAX],
        throttled_left=max(len(throttled) - CLIENTS_MAX, 0),
        owner_pages=[name for name in audit.files if is_owner_page(name)],
        downloads=[n for n in audit.files if n not in PAGES and not is_owner_page(n)],
        team_of=team_of(scope),
    )
