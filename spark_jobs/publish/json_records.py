"""A day's findings and its message as JSON for other programs: an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from spark_jobs.publish.facts.news import LISTED_MAX, News, news_subject, news_text
from spark_jobs.publish.follow.changes import Change, Status
from spark_jobs.publish.follow.problem import Problem
from spark_jobs.publish.records import (
    AcknowledgedRecord,
    FindingRecord,
    NewsRecord,
    OwnerRecord,
    ProblemRecord,
    SeverityName,
)
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS
from spark_jobs.wording.numbers import iso

FINDINGS_NAME = "findings.jsonl"
_OF_THE_TABLE = [name for name in FINDINGS.names if name not in ("from_ms", "until_ms", "evidence")]


def finding_lines(scope: RunScope, news: News) -> str:
    """Return the day's findings, worst first, then those gone or not seen, a line each."""
    rows = {row["finding_id"]: row for row in read_table(scope, "findings").to_pylist()}
    return "".join(f"{_line(one)}\n" for one in _finding_records(rows, news))


def news_json(news: News, listed_max: int = LISTED_MAX) -> str:
    """Return the message as JSON on a line."""
    return _line(news_record(news, listed_max))


def _line(record: msgspec.Struct) -> str:
    """Return a record as JSON; half a character, which a name may hold, as a question mark."""
    text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _finding_records(rows: dict[str, dict[str, Any]], news: News) -> Iterator[FindingRecord]:
    for change in news.changes:
        if not change.is_there:
            yield _finding_record(change, news, _gone(change))
            continue
        for finding_id in change.problem.finding_ids:
            yield _finding_record(change, news, rows[finding_id])


def _finding_record(change: Change, news: News, row: dict[str, Any]) -> FindingRecord:
    owner = news.owner(change)
    return FindingRecord(
        cluster=news.cluster,
        day=news.day,
        problem_id=change.problem.problem_id,
        status=change.status.value,
        since=change.since,
        first=iso(row["from_ms"]),
        last=iso(row["until_ms"]),
        evidence=_evidence(row["evidence"]),
        acknowledged=msgspec.convert(
            change.acknowledged, AcknowledgedRecord | None, from_attributes=True
        ),
        owner=msgspec.convert(owner, OwnerRecord | None, from_attributes=True),
        **{name: row[name] for name in _OF_THE_TABLE},
    )


def _gone(change: Change) -> dict[str, Any]:
    """Return the last known state of a problem as a row of ``findings``."""
    problem = change.problem
    return {
        **dict.fromkeys(FINDINGS.names),
        **_of_the_findings(problem),
        "finding_id": problem.worst_id,
        "from_ms": problem.from_ms,
        "until_ms": problem.until_ms,
        "evidence": "{}",
    }


def _evidence(text: str) -> dict[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def news_record(news: News, listed_max: int = LISTED_MAX) -> NewsRecord:
    """Return the message, with at most ``listed_max`` problems of each status."""
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
        problem_id=problem.problem_id,
        finding_id=problem.worst_id,
        since=change.since,
        team=owner.team if owner else None,
        contact=owner.contact if owner else None,
        acknowledged_until=change.acknowledged.until if change.acknowledged else None,
        **_of_the_findings(problem),
    )


def _of_the_findings(problem: Problem) -> dict[str, Any]:
    """Return the columns of ``findings`` that a problem has too."""
    return problem.sensor._asdict() | {
        "kind": problem.kind,
        "severity": problem.level.severity,
        "decisions": problem.level.decisions,
        "explanation": problem.explanation,
    }
