from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.apply.changes.history import (
    RecordedApplication,
    application_to_take_back,
    cut_off_applications,
    recorded_applications,
    taken_back,
)
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT
from tests.builders.tables_builder import NOON_MS, row


def application(name: str, *outcomes: str, **columns: Any) -> list[dict[str, Any]]:
    """Return the rows of an application; ``name`` is its id, its letters go on with time."""
    return [
        row(
            "applied_changes",
            application_id=name,
            started_ms=NOON_MS + ord(name[0]),
            position=i,
            quota_user=f"user-{i}",
            outcome=outcome,
            **columns,
        )
        for i, outcome in enumerate(outcomes)
    ]


def rollback(name: str, of: str, *outcomes: str) -> list[dict[str, Any]]:
    return application(name, *outcomes, action="rollback", takes_back=of)


def history(*applications: list[dict[str, Any]]) -> list[RecordedApplication]:
    return recorded_applications(row for rows in reversed(applications) for row in reversed(rows))


def chosen(*applications: list[dict[str, Any]], named: str | None = None) -> str:
    return application_to_take_back(history(*applications), named).application_id


def test_applications_come_oldest_first_and_their_changes_as_they_were_made() -> None:
    found = history(application("a", "applied"), application("b", "applied", "failed"))
    assert [a.application_id for a in found] == ["a", "b"]
    assert [r["position"] for r in found[1].rows] == [0, 1]


def test_the_last_application_is_taken_back() -> None:
    assert chosen(application("a", "applied"), application("b", "applied")) == "b"


@pytest.mark.parametrize("outcome", ["already_so", "failed", "not_reached"])
def test_an_application_that_changed_nothing_is_passed_over(outcome: str) -> None:
    assert chosen(application("a", "applied"), application("b", outcome)) == "a"


@pytest.mark.parametrize("outcome", ["intended", "unknown", "differs"])
def test_an_application_that_may_have_changed_something_is_taken_back(outcome: str) -> None:
    assert chosen(application("a", "applied"), application("b", outcome)) == "b"


def test_what_was_taken_back_is_passed_over() -> None:
    done = application("b", "applied"), rollback("c", "b", "applied", "already_so")
    assert chosen(application("a", "applied"), *done) == "a"


def test_what_was_taken_back_in_part_still_stands() -> None:
    half_done = application("a", "applied"), rollback("b", "a", "applied", "failed")
    assert chosen(*half_done) == "a"


def test_what_was_restored_by_taking_a_rollback_back_stands_again() -> None:
    back_and_forth = rollback("b", "a", "applied"), rollback("c", "b", "applied")
    assert chosen(application("a", "applied"), *back_and_forth) == "a"


def test_any_application_may_be_named_a_rollback_too() -> None:
    applications = application("a", "applied"), rollback("b", "a", "applied")
    assert chosen(*applications, named="a") == "a"
    assert chosen(*applications, named="b") == "b"


def test_an_unknown_name_is_refused_and_the_known_ones_are_said() -> None:
    with pytest.raises(BadInputError, match=r"No application 'x' .* the last ones are: a, b"):
        chosen(application("a", "applied"), application("b", "applied"), named="x")


def test_a_named_application_that_changed_nothing_is_refused() -> None:
    with pytest.raises(BadInputError, match="a changed nothing"):
        chosen(application("a", "already_so"), named="a")


def test_with_nothing_left_to_take_back_it_says_so() -> None:
    with pytest.raises(BadInputError, match="of 0 recorded applications none has changes"):
        chosen()


def test_changes_are_undone_backwards_and_only_those_that_were_made() -> None:
    rows = application("a", "applied", "already_so", "applied", "failed")
    alterations = taken_back(history(rows)[0])
    assert [a.user for a in alterations] == ["user-2", "user-0"]
    assert {(a.before, a.after) for a in alterations} == {(100_000.0, 50_000.0)}


def test_what_was_created_is_deleted_and_says_whose_it_was() -> None:
    rows = application("a", "applied", value_before=None, quota_client_id=DEFAULT)
    (undone,) = taken_back(history(rows)[0])
    assert (undone.before, undone.after) == (100_000.0, None)
    assert undone.reason.startswith("Takes back a. It was made because: Throttled for 40 s")


def test_a_run_that_was_cut_off_is_seen() -> None:
    applications = application("a", "applied", "intended"), application("b", "applied")
    assert cut_off_applications(history(*applications)) == ("a",)


def test_a_run_that_was_cut_off_is_settled_by_a_later_one_about_the_same_values() -> None:
    cut_off = application("a", "intended", "intended")
    assert cut_off_applications(history(cut_off, application("b", "already_so"))) == ("a",)
    settled = application("b", "already_so", "applied")
    assert cut_off_applications(history(cut_off, settled)) == ()
    assert cut_off_applications(history(settled, application("c", "intended"))) == ("c",)
    assert cut_off_applications(history(cut_off, rollback("b", "a", "applied", "applied"))) == ()
