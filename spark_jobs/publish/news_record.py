"""A day's message for programs: one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import get_args

import msgspec

from spark_jobs.publish.alert_message import NewsRecord, ProblemRecord, SeverityName
from spark_jobs.publish.facts.news import News
from spark_jobs.publish.facts.news_words import LISTED_MAX, news_subject, news_text
from spark_jobs.publish.follow.changes import Change, Status


def news_json(news: News, listed_max: int = LISTED_MAX) -> str:
    """Return the message as JSON on a line; half a character, as names may hold, as "?"."""
    text = json.dumps(msgspec.to_builtins(news_record(news, listed_max)), ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def news_record(news: News, listed_max: int = LISTED_MAX) -> NewsRecord:
    """Return the message; of each status as many problems are listed as ``listed_max``."""
    return NewsRecord(
        cluster=news.cluster,
        day=news.day,
        before=news.before,
        subject=news_subject(news),
        text=news_text(news, listed_max),
        urgency=_urgency(news),
        counts={status.value: len(news.of(status)) for status in Status},
        acknowledged=len(news.acknowledged),
        data_quality=news.data_quality,
        broken_rules=list(news.broken_rules),
        problems=[_problem(change, news) for change in _listed(news, listed_max)],
        errors=list(news.errors),
    )


def _urgency(news: News) -> SeverityName | None:
    severities: tuple[SeverityName, ...] = get_args(SeverityName)
    return next((name for rank, name in enumerate(severities) if news.is_urgent(rank)), None)


def _listed(news: News, listed_max: int) -> Iterator[Change]:
    for status in Status:
        yield from news.of(status)[:listed_max]
    yield from news.acknowledged[:listed_max]


def _problem(change: Change, news: News) -> ProblemRecord:
    problem = change.problem
    owner = news.owner(change)
    return ProblemRecord(
        status=change.status.value,
        severity=problem.level.severity,  # type: ignore[arg-type]
        problem_id=problem.problem_id,
        finding_id=problem.worst_id,
        broker_id=problem.sensor.broker_id,
        quota_type=problem.sensor.quota_type,
        quota_user=problem.sensor.quota_user,
        quota_client_id=problem.sensor.quota_client_id,
        kind=problem.kind,
        decisions=problem.level.decisions,
        since=change.since,
        explanation=problem.explanation,
        team=owner.team if owner else None,
        contact=owner.contact if owner else None,
        acknowledged_until=change.acknowledged.until if change.acknowledged else None,
    )
