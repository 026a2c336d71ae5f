"""What a person answered: which changes, who, and with which note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quota_dags.approval_question import ALL, NONE


class UnclearAnswerError(ValueError):
    """An answer that says two things at once, or nobody's: nothing may be applied."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The changes that ``approved_by`` chose, in the order in which they were offered."""

    changes: tuple[str, ...]
    approved_by: str
    note: str | None


def decision_of(answer: Mapping[str, Any], offered: Sequence[str]) -> Decision:
    """Return what was decided about the ``offered`` changes.

    ``answer`` is the return value of Airflow's ``HITLOperator``. Raises UnclearAnswerError.
    """
    user = answer.get("responded_by_user") or {}
    name = user.get("name") or user.get("id")
    if not name:
        raise UnclearAnswerError(
            "The answer names nobody who gave it, so nothing is applied. Clear the task 'approve' "
            "to be asked again."
        )
    note = str((answer.get("params_input") or {}).get("note") or "").replace("\0", "").strip()
    return Decision(_changes(set(answer["chosen_options"]), offered), str(name), note or None)


def _changes(chosen: set[str], offered: Sequence[str]) -> tuple[str, ...]:
    if chosen == {NONE}:
        return ()
    if NONE in chosen or not chosen:
        others = ", ".join(sorted(chosen - {NONE})) or "nothing"
        raise UnclearAnswerError(
            f"The answer is unclear, so nothing is applied: found {NONE!r} together with {others}. "
            "Clear the task 'approve' to be asked again."
        )
    unknown = chosen - {ALL, *offered}
    if unknown:
        raise UnclearAnswerError(
            f"The answer is unclear, so nothing is applied: {', '.join(sorted(unknown))} was not "
            "offered. Clear the task 'approve' to be asked again."
        )
    return tuple(change for change in offered if ALL in chosen or change in chosen)
