from __future__ import annotations

from typing import Any

import pytest

from quota_dags.approval import Decision, UnclearAnswerError, decision_of

OFFERED = [
    "users/a:producer_byte_rate",
    "users/b:producer_byte_rate",
    "clients/c:consumer_byte_rate",
]
PROPOSALS = [{"change": change, "exactly": f"{change}:1:2"} for change in OFFERED]


def answer(*chosen: str, **more: Any) -> dict[str, Any]:
    """Return what Airflow's HITLOperator returns."""
    return {
        "chosen_options": list(chosen),
        "params_input": {"note": None},
        "responded_at": "2026-11-21T09:00:00+00:00",
        "responded_by_user": {"id": "7", "name": "ada"},
    } | more


@pytest.mark.parametrize(
    ("chosen", "changes"),
    [
        (["all"], OFFERED),
        (["none"], []),
        (OFFERED[1:2], OFFERED[1:2]),
        ([OFFERED[2], OFFERED[0]], [OFFERED[0], OFFERED[2]]),
        ([OFFERED[0], OFFERED[0]], OFFERED[:1]),
        (["all", OFFERED[1]], OFFERED),
    ],
    ids=["all", "none", "one", "some, in the order offered", "one twice", "all and one"],
)
def test_what_is_chosen_is_what_is_approved(chosen: list[str], changes: list[str]) -> None:
    assert decision_of(answer(*chosen), PROPOSALS) == Decision(
        tuple(f"{change}:1:2" for change in changes), "ada", None
    )


@pytest.mark.parametrize("chosen", [["none", OFFERED[0]], ["none", "all"], []])
def test_an_answer_that_says_two_things_or_nothing_approves_nothing(chosen: list[str]) -> None:
    with pytest.raises(
        UnclearAnswerError, match=r"nothing is applied: .* Clear the task 'approve'"
    ):
        decision_of(answer(*chosen), PROPOSALS)


def test_what_was_not_offered_cannot_be_approved() -> None:
    with pytest.raises(UnclearAnswerError, match="users/mallory was not offered"):
        decision_of(answer(OFFERED[0], "users/mallory"), PROPOSALS)


@pytest.mark.parametrize("user", [None, {}, {"id": "", "name": ""}])
def test_nobody_s_answer_approves_nothing(user: dict[str, str] | None) -> None:
    with pytest.raises(UnclearAnswerError, match="names nobody"):
        decision_of(answer("all", responded_by_user=user), PROPOSALS)


def test_a_user_without_a_name_is_known_by_the_id() -> None:
    unnamed = answer("all", responded_by_user={"id": "7", "name": ""})
    assert decision_of(unnamed, PROPOSALS).approved_by == "7"


@pytest.mark.parametrize(
    ("params_input", "note"),
    [
        ({"note": "before\nFriday "}, "before\nFriday"),
        ({"note": "--execute"}, "--execute"),
        ({"note": "nul\0byte"}, "nulbyte"),
        ({"note": "  "}, None),
        ({"note": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_note_is_what_was_typed_or_none(params_input: Any, note: str | None) -> None:
    assert decision_of(answer("all", params_input=params_input), PROPOSALS).note == note
