"""A day's findings for other programs: a JSON object a line, each as its JSON Schema says."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from spark_jobs.publish.facts.news import News
from spark_jobs.publish.follow.acknowledgements import Acknowledgement
from spark_jobs.publish.follow.changes import Change
from spark_jobs.publish.follow.owners import Owner
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import FINDINGS
from spark_jobs.wording.numbers import iso

FINDINGS_NAME = "findings.jsonl"
SCHEMA_ID = "urn:quota-audit:finding:1"
_OF_THE_TABLE = [name for name in FINDINGS.names if name not in ("from_ms", "until_ms", "evidence")]

StatusName = Literal["new", "worse", "still there", "gone", "not seen"]
SeverityName = Literal["critical", "warning", "info"]


class AcknowledgedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who knows of it, and until when; it is as bad as was known."""

    owner: str
    reason: str
    since: dt.date
    until: dt.date


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Whose client it is about, by the file of owners."""

    team: str
    contact: str


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of a day, or one that is gone or was not seen on it."""

    version: Annotated[
        Literal[1], msgspec.Meta(description="Of this format: higher where a reader must change.")
    ] = 1
    cluster: str
    day: Annotated[dt.date, msgspec.Meta(description="The audited UTC day.")]
    finding_id: str
    problem_id: Annotated[
        str,
        msgspec.Meta(
            description="The same on every day for one kind of fault of one sensor; several "
            "findings of a day may share it."
        ),
    ]
    status: Annotated[
        StatusName, msgspec.Meta(description="Of the problem, since the audited day before.")
    ]
    since: Annotated[
        dt.date, msgspec.Meta(description="From this day on it was there without being gone.")
    ]
    broker_id: Annotated[int | None, msgspec.Meta(description="null: every broker.")]
    quota_type: str
    quota_user: Annotated[str, msgspec.Meta(description="Empty: the quota has no user part.")]
    quota_client_id: Annotated[
        str, msgspec.Meta(description="Empty: the quota has no client-id part.")
    ]
    kind: str
    severity: SeverityName
    decisions: Annotated[int, msgspec.Meta(description="Wrong decisions.", ge=0)]
    first: Annotated[str, msgspec.Meta(description="Of the interval, UTC, ISO 8601.")]
    last: Annotated[str, msgspec.Meta(description="Of the interval, UTC, ISO 8601.")]
    explanation: str
    hypothesis: Annotated[
        str | None, msgspec.Meta(description="What explains the interval; null: nothing does.")
    ] = None
    hypothesis_share: float | None = None
    runner_up: str | None = None
    runner_up_share: float | None = None
    estimated_bound: Annotated[
        float | None, msgspec.Meta(description="What the broker went by, in the quota's unit.")
    ] = None
    evidence: dict[str, Any] = {}
    acknowledged: AcknowledgedRecord | None = None
    owner: OwnerRecord | None = None


def finding_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a line."""
    schema = msgspec.json.schema(FindingRecord)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A finding of quota-audit",
    } | schema


def finding_lines(scope: RunScope, news: News) -> str:
    """Return the day's findings, worst first, then what is gone or was not seen, a line each."""
    rows = {row["finding_id"]: row for row in read_table(scope, "findings").to_pylist()}
    return "".join(f"{_line(one)}\n" for one in _records(rows, news))


def _line(record: FindingRecord) -> str:
    """Return a record as JSON; half a character, which a name may hold, as a question mark."""
    text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _records(rows: dict[str, dict[str, Any]], news: News) -> Iterator[FindingRecord]:
    for change in news.changes:
        if not change.is_there:
            yield _record(change, news, _gone(change))
            continue
        for finding_id in change.problem.finding_ids:
            yield _record(change, news, rows[finding_id])


def _record(change: Change, news: News, row: dict[str, Any]) -> FindingRecord:
    return FindingRecord(
        cluster=news.cluster,
        day=news.day,
        problem_id=change.problem.problem_id,
        status=change.status.value,
        since=change.since,
        first=iso(row["from_ms"]),
        last=iso(row["until_ms"]),
        evidence=_evidence(row["evidence"]),
        acknowledged=_acknowledged(change.acknowledged),
        owner=_owner(news.owner(change)),
        **{name: row[name] for name in _OF_THE_TABLE},
    )


def _acknowledged(known: Acknowledgement | None) -> AcknowledgedRecord | None:
    if known is None:
        return None
    return AcknowledgedRecord(
        owner=known.owner, reason=known.reason, since=known.since, until=known.until
    )


def _owner(owner: Owner | None) -> OwnerRecord | None:
    return None if owner is None else OwnerRecord(team=owner.team, contact=owner.contact)


def _gone(change: Change) -> dict[str, Any]:
    """Return what was last known of a problem as a row of ``findings``."""
    problem = change.problem
    sensor = problem.sensor
    return dict.fromkeys(FINDINGS.names) | {
        "finding_id": problem.worst_id,
        **sensor._asdict(),
        "kind": problem.kind,
        "from_ms": problem.from_ms,
        "until_ms": problem.until_ms,
        "decisions": problem.level.decisions,
        "severity": problem.level.severity,
        "explanation": problem.explanation,
        "evidence": "{}",
    }


def _evidence(text: str) -> dict[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}
