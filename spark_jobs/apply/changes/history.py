"""Rows of ``tables.APPLIED_CHANGES``: written of one application, and read to take one back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from spark_jobs.apply.changes.change_plan import (
    DONE,
    CarriedOutChange,
    ChangeOutcome,
    ChangeStep,
    PlannedChange,
)
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaKey
from spark_jobs.errors import BadInputError

APPLY, ROLLBACK = "apply", "rollback"
# A change that may have been made: a run that was cut off leaves its intentions.
_MAY_HAVE_HAPPENED = (
    ChangeOutcome.APPLIED,
    ChangeOutcome.DIFFERS,
    ChangeOutcome.UNKNOWN,
    ChangeOutcome.INTENDED,
)
_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Application:
    """One run of apply or rollback; the columns that its rows have in common."""

    application_id: str
    action: str
    takes_back: str | None
    started_ms: int
    applied_by: str
    asked_by: str | None
    plan: str | None
    note: str | None
    bootstrap_servers: str
    kafka_cluster_id: str | None
    evidence_day: str


_PREDICTED = ("throttle_time_ms_before", "throttle_time_ms_after")
Predictions = Mapping[QuotaKey, Mapping[str, int | None]]
"""By column: throttle time of the evidence's day, as it was and as the backtest has it."""


def predictions_of(recommendations: Sequence[Mapping[str, Any]]) -> Predictions:
    """Return the predictions of rows of ``tables.RECOMMENDATIONS``."""
    return {_key(row): {name: row[name] for name in _PREDICTED} for row in recommendations}


def intended_rows(
    application: Application, plan: Sequence[PlannedChange], predictions: Predictions
) -> list[dict[str, Any]]:
    """Return the rows to write before the first request: a run that is cut off leaves these."""
    results = [
        CarriedOutChange(
            change,
            ChangeOutcome.INTENDED if change.step == ChangeStep.APPLY else ChangeOutcome.ALREADY_SO,
            message=None,
            read_back=None,
            is_read_back=False,
        )
        for change in plan
    ]
    return rows_of_run(application, results, None, predictions)


def rows_of_run(
    application: Application,
    results: Sequence[CarriedOutChange],
    ended_ms: int | None,
    predictions: Predictions,
) -> list[dict[str, Any]]:
    """Return the rows to write when a run has ended (ms), however it did; None: it goes on."""
    return [
        {
            **asdict(application),
            "position": position,
            "quota_type": result.planned.alteration.quota_type,
            "quota_user": result.planned.alteration.user,
            "quota_client_id": result.planned.alteration.client_id,
            "value_before": result.planned.found,
            "value_after": result.planned.alteration.after,
            "value_read_back": result.read_back,
            "is_read_back": result.is_read_back,
            "outcome": str(result.outcome),
            "message": result.message,
            "reason": result.planned.alteration.reason,
            "ended_ms": ended_ms,
            **predictions.get(result.planned.alteration.key, dict.fromkeys(_PREDICTED)),
        }
        for position, result in enumerate(results)
    ]


@dataclass(frozen=True, slots=True)
class RecordedApplication:
    """One run's rows of ``tables.APPLIED_CHANGES``, in their order; there is at least one."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def application_id(self) -> str:
        """Return its id."""
        return str(self.rows[0]["application_id"])

    @property
    def changed(self) -> tuple[Mapping[str, Any], ...]:
        """Return the rows of changes that it made, or may have made."""
        return tuple(row for row in self.rows if row["outcome"] in _MAY_HAVE_HAPPENED)

    def common(self, column: str) -> Any:
        """Return the value that all its rows have in ``column``."""
        return self.rows[0][column]


def recorded_applications(rows: Iterable[Mapping[str, Any]]) -> list[RecordedApplication]:
    """Return the applications that ``rows`` tell of, oldest first."""
    ordered = sorted(rows, key=lambda r: (r["started_ms"], r["application_id"], r["position"]))
    return [
        RecordedApplication(tuple(of_one))
        for _, of_one in groupby(ordered, key=lambda r: r["application_id"])
    ]


def cut_off_applications(history: Sequence[RecordedApplication]) -> tuple[str, ...]:
    """Return the ids of runs that never said what became of their changes, oldest first.

    Not of those whose values a later run has read and found, or made, as they were to be.
    """
    found: list[str] = []
    known: set[QuotaKey] = set()
    for application in reversed(history):
        if {_key(r) for r in application.rows if r["outcome"] == ChangeOutcome.INTENDED} - known:
            found.append(application.application_id)
        known |= {_key(row) for row in application.rows if row["outcome"] in DONE}
    return tuple(reversed(found))


def application_to_take_back(
    history: Sequence[RecordedApplication], application_id: str | None
) -> RecordedApplication:
    """Return the application named, or the last one that changed something and still stands.

    Raises BadInputError where there is none, saying which there are.
    """
    if application_id is not None:
        named = [a for a in history if a.application_id == application_id]
        if not named:
            known = ", ".join(a.application_id for a in history[-_SHOWN_MAX:]) or "none"
            raise BadInputError(
                f"No application {application_id!r} is recorded; the last ones are: {known}."
            )
        if not named[0].changed:
            raise BadInputError(f"{application_id} changed nothing: there is nothing to take back.")
        return named[0]
    gone = _gone(history)
    standing = [
        a
        for a in history
        if a.common("action") == APPLY and a.changed and a.application_id not in gone
    ]
    if not standing:
        raise BadInputError(
            f"There is nothing to take back: of {len(history)} recorded applications none has "
            "changes that still stand. --change names an application all the same."
        )
    return standing[-1]


def check_not_taken_back(history: Sequence[RecordedApplication], plan: str) -> None:
    """Raise BadInputError where what was applied of a plan was taken back, be it in part."""
    by_plan = {a.application_id for a in history if a.common("plan") == plan}
    for application in history:
        undone = application.common("takes_back")
        if undone in by_plan and application.changed:
            raise BadInputError(
                f"{undone} applied what was approved of the plan {plan}, and "
                f"{application.application_id} has taken it back since: an approval is good once. "
                "Nothing was changed. Have it approved again: start a new run of quota_recommend."
            )


def taken_back(application: RecordedApplication) -> list[QuotaAlteration]:
    """Return the alterations that undo an application, its last one first.

    What had no value before is deleted: the application itself had set it.
    """
    return [
        QuotaAlteration(
            row["quota_type"],
            row["quota_user"],
            row["quota_client_id"],
            before=row["value_before"],
            after=row["value_after"],
            reason=f"Takes back {application.application_id}. It was made because: {row['reason']}",
        ).taken_back()
        for row in reversed(application.changed)
    ]


def _key(row: Mapping[str, Any]) -> QuotaKey:
    return row["quota_type"], row["quota_user"], row["quota_client_id"]


def _gone(history: Sequence[RecordedApplication]) -> set[str]:
    """Return the ids of what was taken back, by something that was not taken back itself."""
    gone: set[str] = set()
    for application in reversed(history):
        is_complete = all(row["outcome"] in DONE for row in application.rows)
        if is_complete and application.application_id not in gone:
            gone.add(application.common("takes_back"))
    return gone
