"""What is to be done about each alteration, given the values that the cluster has now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spark_jobs.apply.changes.change_key import change_key
from spark_jobs.apply.changes.quota_admin import AnswerKind, EntityAnswer, QuotaAdmin
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaKey
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


def value_text(value: float | None) -> str:
    """Return a quota value as ``kafka-configs.sh`` takes it, ``none`` for no value.

    >>> value_text(1_250_000.0), value_text(2.5), value_text(None)
    ('1250000', '2.5', 'none')
    """
    if value is None:
        return "none"
    return str(int(value)) if value.is_integer() else repr(value)


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
