"""What is to be done about each alteration, doing it, and what the cluster says became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spark_jobs.apply.changes.change_key import change_key
from spark_jobs.apply.changes.quota_admin import (
    AnswerKind,
    EntityAnswer,
    QuotaAdmin,
    QuotaAdminError,
)
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaKey, value_text
from spark_jobs.errors import BadInputError

ENTITIES_PER_REQUEST = 50
"""So that what one lost answer leaves unknown stays small."""


class ChangeStep(StrEnum):
    """What a run does about an alteration; but for the first two it does nothing about any."""

    APPLY = "apply"
    ALREADY_SO = "already_so"
    DRIFT = "drift"
    DELETE_NOT_ALLOWED = "delete_not_allowed"
    REJECTED = "rejected"


_SOUND = (ChangeStep.APPLY, ChangeStep.ALREADY_SO)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """An alteration, the value the cluster has now (None: none), and what to do about it."""

    alteration: QuotaAlteration
    found: float | None
    step: ChangeStep
    message: str | None = None


def plan_changes(
    alterations: Sequence[QuotaAlteration],
    found: Mapping[QuotaKey, float],
    *,
    allow_delete: bool,
) -> tuple[PlannedChange, ...]:
    """Return a planned change for each alteration, in their order.

    The cluster's value decides: it is ``after`` already; it is ``before``, so the evidence holds;
    or it is neither, and somebody changed it since. Raises BadInputError where two alterations are
    about one value.
    """
    counts = Counter(alteration.key for alteration in alterations)
    twice = [a for a in alterations if counts[a.key] > 1]
    if twice:
        raise BadInputError(
            f"{change_key(twice[0])} is to be changed {len(twice)} times at once: choose one value."
        )
    return tuple(_planned(a, found.get(a.key), allow_delete) for a in alterations)


def validated(plan: Sequence[PlannedChange], admin: QuotaAdmin) -> tuple[PlannedChange, ...]:
    """Return the plan with what the cluster itself, asked before anything is changed, rejects."""
    answers: dict[Entity, EntityAnswer] = {}
    for batch in requests_of(plan):
        answers |= admin.alter([change.alteration for change in batch], validate_only=True)
    return tuple(_answered(change, answers.get(change.alteration.entity)) for change in plan)


def requests_of(
    plan: Iterable[PlannedChange], entities_max: int = ENTITIES_PER_REQUEST
) -> list[list[PlannedChange]]:
    """Return the changes to apply in portions of ``entities_max`` entities, none divided."""
    by_entity: dict[Entity, list[PlannedChange]] = {}
    for change in plan:
        if change.step == ChangeStep.APPLY:
            by_entity.setdefault(change.alteration.entity, []).append(change)
    entities = list(by_entity.values())
    return [
        [change for of_entity in entities[i : i + entities_max] for change in of_entity]
        for i in range(0, len(entities), entities_max)
    ]


def refusal(plan: Sequence[PlannedChange]) -> str | None:
    """Return the reason why nothing of the plan may be applied; None: it may."""
    refused = [change for change in plan if change.step not in _SOUND]
    if not refused:
        return None
    # A cause that all have in common is said once.
    changes_of: dict[str | None, list[str]] = {}
    for change in refused:
        changes_of.setdefault(change.message, []).append(change_key(change.alteration))
    lines = [f"- {', '.join(keys)}: {message}" for message, keys in changes_of.items()]
    return "\n".join(
        [f"Nothing was changed: {len(refused)} of {len(plan)} changes cannot be made.", *lines]
    )


def _planned(alteration: QuotaAlteration, found: float | None, allow_delete: bool) -> PlannedChange:
    if found == alteration.after:
        return PlannedChange(alteration, found, ChangeStep.ALREADY_SO)
    if found != alteration.before:
        message = (
            f"the cluster has {value_text(found)}, and {value_text(alteration.before)} was "
            "expected: it was changed since. Audit a newer day, or leave it out with --only"
        )
        return PlannedChange(alteration, found, ChangeStep.DRIFT, message)
    if alteration.after is None and not allow_delete:
        message = "deletes the entity's value: allow it with --allow-delete, or leave it out"
        return PlannedChange(alteration, found, ChangeStep.DELETE_NOT_ALLOWED, message)
    return PlannedChange(alteration, found, ChangeStep.APPLY)


def _answered(change: PlannedChange, answer: EntityAnswer | None) -> PlannedChange:
    if change.step != ChangeStep.APPLY or answer is None or answer.kind == AnswerKind.ACCEPTED:
        return change
    return replace(change, step=ChangeStep.REJECTED, message=answer.message)


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
        if change.step == ChangeStep.APPLY
        and (answer := answers.get(change.alteration.entity)) is not None
        and answer.kind != AnswerKind.REFUSED
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
