"""What is told of an audited day, as it is sent: each structure is the JSON that programs get."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import msgspec

SCHEMA_ID = "urn:quota-audit:alert:1"
SeverityName = Literal["critical", "warning", "info"]
StatusName = Literal["new", "worse", "still there", "gone", "not seen"]
_VERSION = "Of this format: higher where a reader must change."


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of fault of one sensor, and what became of it since the audited day before."""

    status: StatusName
    severity: SeverityName
    problem_id: Annotated[str, msgspec.Meta(description="The same on every day.")]
    finding_id: Annotated[str, msgspec.Meta(description="Of the day's worst interval.")]
    broker_id: Annotated[int | None, msgspec.Meta(description="null: every broker.")]
    quota_type: str
    quota_user: Annotated[str, msgspec.Meta(description="Empty: the quota has no user part.")]
    quota_client_id: Annotated[
        str, msgspec.Meta(description="Empty: the quota has no client-id part.")
    ]
    kind: str
    decisions: Annotated[int, msgspec.Meta(description="Wrong decisions of the day.", ge=0)]
    since: Annotated[
        dt.date, msgspec.Meta(description="From this day on it was there without being gone.")
    ]
    explanation: str
    team: Annotated[str | None, msgspec.Meta(description="Whose client it is; null: nobody's.")]
    contact: str | None
    acknowledged_until: Annotated[
        dt.date | None, msgspec.Meta(description="null: nobody knows of it as bad as it is.")
    ]


class NewsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is new on an audited day: what ``quota-audit news --json`` prints."""

    version: Annotated[Literal[1], msgspec.Meta(description=_VERSION)] = 1
    cluster: str
    day: Annotated[dt.date, msgspec.Meta(description="The audited UTC day.")]
    before: Annotated[
        dt.date | None, msgspec.Meta(description="The audited day before; null: there is none.")
    ]
    subject: Annotated[str, msgspec.Meta(description="The message in a line.")]
    text: Annotated[str, msgspec.Meta(description="The message, plain text.")]
    urgency: Annotated[
        SeverityName | None,
        msgspec.Meta(
            description="The worst of what is new or worse and not acknowledged, critical where "
            "data quality failed; null: nothing of that."
        ),
    ]
    counts: Annotated[
        dict[str, int],
        msgspec.Meta(description="How many problems have which status, besides acknowledged ones."),
    ]
    acknowledged: int
    data_quality: str
    broken_rules: list[str]
    problems: Annotated[
        list[ProblemRecord],
        msgspec.Meta(description="The first ten of each status, the worst first; --all: all."),
    ]
    errors: Annotated[
        list[str], msgspec.Meta(description="Why a file of acknowledgements or owners is not read.")
    ] = []


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The step at which a run ended."""

    step: Annotated[str, msgspec.Meta(description="The task's id.")]
    exit_code: Annotated[
        int | None, msgspec.Meta(description="Negative: a signal; null: nobody saw it end.")
    ]
    reason: Annotated[
        str, msgspec.Meta(description="What the step ended with; broken rules of data quality too.")
    ]


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The one message of a run: what is new, or why there is nothing."""

    version: Annotated[Literal[1], msgspec.Meta(description=_VERSION)] = 1
    kind: Literal["news", "failure"]
    cluster: str
    day: Annotated[dt.date, msgspec.Meta(description="The audited UTC day.")]
    run_id: Annotated[str, msgspec.Meta(description="Of Airflow's run.")]
    subject: Annotated[str, msgspec.Meta(description="The message in a line.")]
    text: Annotated[str, msgspec.Meta(description="The message, plain text.")]
    url: Annotated[
        str | None, msgspec.Meta(description="The audit's page, or the failed task's.")
    ] = None
    news: NewsRecord | None = None
    failure: FailureRecord | None = None


def alert_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a message."""
    schema = msgspec.json.schema(AlertMessage)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A message of quota-audit",
    } | schema
