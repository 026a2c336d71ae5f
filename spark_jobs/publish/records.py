"""What programs are told of an audited day: each structure is the JSON that they get."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import msgspec

SeverityName = Literal["critical", "warning", "info"]
StatusName = Literal["new", "worse", "still there", "gone", "not seen"]
_Version = Annotated[
    Literal[1], msgspec.Meta(description="Of this format: higher where a reader must change.")
]
_Day = Annotated[dt.date, msgspec.Meta(description="The audited UTC day.")]
_Since = Annotated[
    dt.date, msgspec.Meta(description="From this day on it was there without being gone.")
]
_BrokerId = Annotated[int | None, msgspec.Meta(description="null: every broker.")]
_QuotaUser = Annotated[str, msgspec.Meta(description="Empty: the quota has no user part.")]
_QuotaClientId = Annotated[str, msgspec.Meta(description="Empty: the quota has no client-id part.")]
_Subject = Annotated[str, msgspec.Meta(description="The message in a line.")]
_Text = Annotated[str, msgspec.Meta(description="The message, plain text.")]


class AcknowledgedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who knows of it, and until when; it is as bad as was known."""

    owner: str
    reason: str
    since: dt.date
    until: dt.date
    acknowledged_by: Annotated[
        str,
        msgspec.Meta(description="Who was signed in; empty: written by the command or by hand."),
    ] = ""


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Whose client it is about, by the file of owners."""

    team: str
    contact: str


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of a day, or one that is gone or was not seen on it."""

    version: _Version = 1
    cluster: str
    day: _Day
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
    since: _Since
    broker_id: _BrokerId
    quota_type: str
    quota_user: _QuotaUser
    quota_client_id: _QuotaClientId
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


class ProblemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of fault of one sensor, and what became of it since the audited day before."""

    status: StatusName
    severity: SeverityName
    problem_id: Annotated[str, msgspec.Meta(description="The same on every day.")]
    finding_id: Annotated[str, msgspec.Meta(description="Of the day's worst interval.")]
    broker_id: _BrokerId
    quota_type: str
    quota_user: _QuotaUser
    quota_client_id: _QuotaClientId
    kind: str
    decisions: Annotated[int, msgspec.Meta(description="Wrong decisions of the day.", ge=0)]
    since: _Since
    explanation: str
    team: Annotated[str | None, msgspec.Meta(description="Whose client it is; null: nobody's.")]
    contact: str | None
    acknowledged_until: Annotated[
        dt.date | None, msgspec.Meta(description="null: nobody knows of it as bad as it is.")
    ]


class NewsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is new on an audited day: what ``quota-audit news --json`` prints."""

    version: _Version = 1
    cluster: str
    day: _Day
    before: Annotated[
        dt.date | None, msgspec.Meta(description="The audited day before; null: there is none.")
    ]
    subject: _Subject
    text: _Text
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

    version: _Version = 1
    kind: Literal["news", "failure"]
    cluster: str
    day: _Day
    run_id: Annotated[str, msgspec.Meta(description="Of Airflow's run.")]
    subject: _Subject
    text: _Text
    url: Annotated[
        str | None, msgspec.Meta(description="The audit's page, or the failed task's.")
    ] = None
    news: NewsRecord | None = None
    failure: FailureRecord | None = None
