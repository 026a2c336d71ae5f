"""Applying a plan, and what then became of each change, as the cluster itself says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.apply.changes.change_plan import (
    ENTITIES_PER_REQUEST,
    ChangeStep,
    PlannedChange,
    requests_of,
    value_text,
)
from spark_jobs.apply.changes.quota_admin import (
    AnswerKind,
    EntityAnswer,
    QuotaAdmin,
    QuotaAdminError,
)
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaKey


class ChangeOutcome(StrEnum):
    """What became of a change; the names are those of ``tables.CHANGE_OUTCOMES``."""

    INTENDED = "intended"
    """Recorded before the first request: still there, the run was cut off."""
    APPLIED = "applied"
    ALREADY_SO = "already_so"
    FAILED = "failed"
    NOT_REACHED = "not_reached"
    """An earlier request of the run failed; this one was never sent."""
    DIFFERS = "differs"
    """Accepted, and the cluster has another value."""
    UNKNOWN = "unknown"
    """No answer, or accepted and not read back: it may have happened, or may still happen."""


DONE = (ChangeOutcome.APPLIED, ChangeOutcome.ALREADY_SO)


@dataclass(frozen=True, slots=True)
class CarriedOutChange:
    """What became of a change; ``read_back`` means something where ``is_read_back``."""

    planned: PlannedChange
    outcome: ChangeOutcome
    message: str | None
    read_back: float | None
    is_read_back: bool


def carry_out(
    plan: Sequence[PlannedChange],
    admin: QuotaAdmin,
    pause: Callable[[], bool],
    entities_max: int = ENTITIES_PER_REQUEST,
) -> tuple[CarriedOutChange, ...]:
    """Apply the plan, request by request until one fails, read everything back, say what happened.

    A broker learns of a change a moment after the controller has accepted it: the values are read
    until they are what was accepted, or ``pause``, which waits a little, returns False. The plan
    must not be refused.
    """
    answers: dict[Entity, EntityAnswer] = {}
    for batch in requests_of(plan, entities_max):
        answers |= admin.alter([change.alteration for change in batch], validate_only=False)
        if any(answer.kind != AnswerKind.ACCEPTED for answer in answers.values()):
            break
    now, trouble = _read_back(plan, answers, admin, pause)
    return tuple(_result(change, answers, now, trouble) for change in plan)


def _read_back(
    plan: Sequence[PlannedChange],
    answers: Mapping[Entity, EntityAnswer],
    admin: QuotaAdmin,
    pause: Callable[[], bool],
) -> tuple[Mapping[QuotaKey, float] | None, str]:
    """Return the values of the whole plan, or None and why they could not be read."""
    entities = list(dict.fromkeys(change.alteration.entity for change in plan))
    awaited = [
        change.alteration
        for change in plan
        if change.step == ChangeStep.APPLY and _may_come_true(answers.get(change.alteration.entity))
    ]
    trouble = ""
    now: Mapping[QuotaKey, float] | None = None
    while True:
        try:
            now = admin.values(entities)
        except QuotaAdminError as error:
            now, trouble = None, str(error)
        if now is not None and all(now.get(a.key) == a.after for a in awaited):
            return now, ""
        if not pause():
            return now, trouble


def _may_come_true(answer: EntityAnswer | None) -> bool:
    return answer is not None and answer.kind != AnswerKind.REFUSED


def _result(
    change: PlannedChange,
    answers: Mapping[Entity, EntityAnswer],
    now: Mapping[QuotaKey, float] | None,
    trouble: str,
) -> CarriedOutChange:
    read = None if now is None else now.get(change.alteration.key)
    outcome, message = _outcome(change, answers, now is not None, read, trouble)
    return CarriedOutChange(change, outcome, message, read, now is not None)


def _outcome(
    change: PlannedChange,
    answers: Mapping[Entity, EntityAnswer],
    is_read_back: bool,
    read: float | None,
    trouble: str,
) -> tuple[ChangeOutcome, str | None]:
    if change.step == ChangeStep.ALREADY_SO:
        return ChangeOutcome.ALREADY_SO, None
    answer = answers.get(change.alteration.entity)
    if answer is None:
        return ChangeOutcome.NOT_REACHED, "not sent: an earlier request failed"
    if answer.kind == AnswerKind.REFUSED:
        return ChangeOutcome.FAILED, answer.message
    if not is_read_back:
        said = answer.message or "accepted by the cluster"
        return ChangeOutcome.UNKNOWN, f"{said}; it could not be read back: {trouble}"
    wanted = change.alteration.after
    if read == wanted:
        return ChangeOutcome.APPLIED, answer.message and f"{answer.message}; read back all the same"
    if answer.kind == AnswerKind.UNKNOWN:
        return ChangeOutcome.UNKNOWN, f"{answer.message}; the cluster has {value_text(read)} so far"
    return ChangeOutcome.DIFFERS, f"accepted, and the cluster has {value_text(read)}"
