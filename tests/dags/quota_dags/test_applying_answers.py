from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quota_dags.approval import RecommendRun, apply_answer, ask, plan_digest
from quota_dags.process import StepCrashedError
from spark_jobs.settings import DailyAuditSettings
from tests.builders.approvals import (
    A12,
    ANSWERED,
    BOUNDS,
    RUN,
    A,
    B,
    FinalError,
    Skipped,
    Steps,
    answer,
    proposal,
)
from tests.builders.tables_builder import row, scope_in, write_rows


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


@pytest.mark.parametrize(
    ("chosen", "applied"),
    [(["all"], "ab"), ([B], "b"), ([B, A], "ab")],
    ids=["all", "one", "both by name"],
)
def test_only_what_was_approved_is_applied_by_name(
    steps: Steps, chosen: list[str], applied: str
) -> None:
    steps.propose(proposal(A), proposal(B))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    assert (
        apply_answer(asked, answer(asked, *chosen, note="Friday"), ANSWERED, BOUNDS, steps.terms)
        == "1 applied"
    )
    *_, call = steps.calls()
    assert [change for word, change in pairwise(call) if word == "--only"] == [
        f"users/{name}:producer_byte_rate:1000:2000" for name in applied
    ]
    assert call[-5:] == [
        *("--by=ada", "--asked-by=bob", "--plan", plan_digest(asked), "--note=Friday")
    ]
    assert f"ada approved {len(applied)} of 2, with the note: Friday" in steps.log


@pytest.mark.parametrize("note", ["x\ned approved 2 of 2", "half \ud800 and \0 none"])
def test_no_note_begins_a_line_of_the_log_or_cannot_be_handed_on(steps: Steps, note: str) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    given = answer(asked, A, note=note)
    assert apply_answer(asked, given, ANSWERED, BOUNDS, steps.terms) == "1 applied"
    (said,) = [line for line in steps.log if "with the note" in line]
    assert said.isprintable()


def test_none_applies_nothing_and_says_who_decided_so(steps: Steps) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    with pytest.raises(Skipped, match=r"^ada approved nothing, with the note: too soon$"):
        apply_answer(asked, answer(asked, "none", note="too soon"), ANSWERED, BOUNDS, steps.terms)
    assert len(steps.calls()) == 1


def test_a_question_that_was_set_to_success_by_hand_approves_nothing(steps: Steps) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    with pytest.raises(FinalError, match="The answer names nobody who gave it, so nothing is appl"):
        apply_answer(asked, None, ANSWERED, BOUNDS, steps.terms)


def test_an_unclear_answer_applies_nothing_for_good(steps: Steps) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    with pytest.raises(FinalError, match="unclear"):
        apply_answer(asked, answer(asked, "none", A), ANSWERED, BOUNDS, steps.terms)
    assert len(steps.calls()) == 1


@pytest.mark.parametrize(
    "since",
    [{"proposed": 2001.0}, {"previous": 999.0, "current": 999.0}, {"status": "keep"}],
    ids=["another value", "another value before", "nothing"],
)
def test_a_value_that_nobody_was_shown_is_not_applied(
    tmp_path: Path, steps: Steps, since: dict[str, Any]
) -> None:
    """The command line itself refuses, so that nothing can come between a look and the change."""
    scope, shown = scope_in(tmp_path), {"previous": 1000.0, "current": 1000.0, "proposed": 2000.0}
    others = row("recommendations", quota_user="bob")
    write_rows(scope, "recommendations", [row("recommendations", **shown), others])
    terms = replace(steps.terms, launcher=())
    run = replace(RUN, warehouse=str(tmp_path), cluster=scope.cluster, day=str(scope.day))
    bounds = replace(BOUNDS, audit=DailyAuditSettings(warehouse=tmp_path))
    asked = ask(run, bounds.approval, terms, by_hand=False)["asked"]
    write_rows(scope, "recommendations", [row("recommendations", **{**shown, **since}), others])
    chosen = answer(asked, "users/alice:producer_byte_rate")
    with pytest.raises(FinalError, match=r"proposed is users/alice|Nothing is proposed for users"):
        apply_answer(asked, chosen, ANSWERED, bounds, terms)


def test_a_plan_that_was_never_shown_is_not_applied(steps: Steps) -> None:
    """The task that reads proposals was cleared; the answer is to what it had read before."""
    steps.propose(proposal(A))
    shown = ask(RUN, BOUNDS.approval, steps.terms, by_hand=True)
    steps.propose(proposal(A, after=9.0))
    never = ask(RUN, BOUNDS.approval, steps.terms, by_hand=True)
    assert shown["plan"] != never["plan"]
    with pytest.raises(
        FinalError, match=rf"answer is to the plan '{shown['plan']}', .* Start a new"
    ):
        apply_answer(never["asked"], answer(shown["asked"], "all"), ANSWERED, BOUNDS, steps.terms)
    assert [call[0] for call in steps.calls()] == ["proposals", "proposals"]


def test_an_answer_is_good_for_as_long_as_a_question(steps: Steps) -> None:
    """The task that applies was cleared, be it by somebody who may not approve."""
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=True)["asked"]
    last = ANSWERED + dt.timedelta(days=7)
    assert apply_answer(asked, answer(asked, A), last, BOUNDS, steps.terms) == "1 applied"
    with pytest.raises(FinalError, match=r"answer is of 2026-11-21 09:00 UTC, and holds for 7 day"):
        apply_answer(asked, answer(asked, A), last + dt.timedelta(1), BOUNDS, steps.terms)


@pytest.mark.parametrize("brought", [None, {}, {"note": "x"}, {"plan": ""}, {"plan": None}])
def test_an_answer_that_brings_no_plan_applies_nothing(steps: Steps, brought: Any) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=True)["asked"]
    with pytest.raises(FinalError, match=r"^The answer brings no plan back, so nothing is applied"):
        apply_answer(
            asked, answer(asked, A) | {"params_input": brought}, ANSWERED, BOUNDS, steps.terms
        )


@pytest.mark.parametrize(
    "other",
    [
        {"run_id": "another run"},
        {"warehouse": "/other"},
        {"cluster": "west"},
        {"day": "2026-11-19"},
        {"target": "west"},
        {"bootstrap_servers": "thief:1"},
        {"command_config": "/c"},
        {"dry_run": False},
        {"allow_delete": True},
        {"asked_by": "eve"},
    ],
)
def test_a_plan_is_of_its_run_warehouse_target_and_proposals(other: dict[str, Any]) -> None:
    asked = {"run": asdict(RUN), "proposals": [{"change": A, "exactly": A12}]}
    digest = plan_digest(asked)
    # As XCom hands it on.
    assert plan_digest(json.loads(json.dumps(asked))) == digest
    assert plan_digest(asked | {"run": asdict(replace(RUN, **other))}) != digest
    assert plan_digest(asked | {"proposals": [{"change": A, "exactly": f"{A}:1000:3"}]}) != digest


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (replace(RUN, dry_run=False), "asks for dry_run = False"),
        (replace(RUN, allow_delete=True), "asks for allow_delete = True"),
        (replace(RUN, warehouse="/etc"), "warehouse is '/etc'"),
        (replace(RUN, target="gone"), "There is no target 'gone'"),
        (replace(RUN, bootstrap_servers="old:1"), "target default was old:1 .* is b:9092 by now"),
        (replace(RUN, command_config="/old"), "has other credentials"),
    ],
)
def test_what_the_settings_do_not_allow_any_more_is_not_applied(
    steps: Steps, run: RecommendRun, said: str
) -> None:
    asked = {"run": asdict(run), "proposals": [{"change": A, "exactly": A12}]}
    with pytest.raises(FinalError, match=said):
        apply_answer(asked, answer(asked, A), ANSWERED, BOUNDS, steps.terms)


TWO_PERSONS = replace(BOUNDS, approval=BOUNDS.approval.model_copy(update={"two_persons": True}))


@pytest.mark.parametrize(
    ("asked_by", "user", "said"),
    [
        ("ada", {"id": "1", "name": "ada"}, "ada has both started the run and answered"),
        ("Ada ", {"id": "1", "name": "ada"}, "has both started the run and answered"),
        ("ada", {"id": "ada", "name": "A. Lovelace"}, "has both started the run and answered"),
        (None, {"id": "1", "name": "ada"}, "nobody is known to have started this run"),
        ("bob", {"id": "1", "name": ""}, "Airflow knows no name of 1, who answered"),
        ("bob", None, "names nobody who gave it"),
    ],
)
def test_where_two_persons_are_demanded_one_does_not_do(
    steps: Steps, asked_by: str | None, user: Any, said: str
) -> None:
    run = replace(RUN, asked_by=asked_by)
    asked = {"run": asdict(run), "proposals": [{"change": A, "exactly": A12}]}
    given = answer(asked, A) | {"responded_by_user": user}
    with pytest.raises(FinalError, match=said):
        apply_answer(asked, given, ANSWERED, TWO_PERSONS, steps.terms)


def test_two_persons_do_and_one_may_always_say_no(steps: Steps) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, TWO_PERSONS.approval, steps.terms, by_hand=True)["asked"]
    assert apply_answer(asked, answer(asked, A), ANSWERED, TWO_PERSONS, steps.terms) == "1 applied"
    with pytest.raises(Skipped, match="bob approved nothing"):
        apply_answer(asked, answer(asked, "none", by="bob"), ANSWERED, TWO_PERSONS, steps.terms)
    # One does where the setting does not say otherwise.
    assert (
        apply_answer(asked, answer(asked, A, by="bob"), ANSWERED, BOUNDS, steps.terms)
        == "1 applied"
    )


@pytest.mark.parametrize(("by_hand", "error"), [(True, FinalError), (False, Skipped)])
def test_where_two_persons_are_demanded_nobody_is_asked_for_a_run_that_nobody_started(
    steps: Steps, by_hand: bool, error: type[Exception]
) -> None:
    run = replace(RUN, asked_by=None)
    with pytest.raises(error, match="nobody is known to have started this run: start one by hand"):
        ask(run, TWO_PERSONS.approval, steps.terms, by_hand=by_hand)


@pytest.mark.parametrize(("exit_code", "error"), [(2, FinalError), (9, StepCrashedError)])
def test_a_refusal_is_final_and_a_crash_is_not(
    steps: Steps, exit_code: int, error: type[Exception]
) -> None:
    steps.propose(proposal(A))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["asked"]
    code = f"import sys; sys.argv[3] == 'apply' and (print('drift'), sys.exit({exit_code}));"
    *start, program, journal, said = steps.terms.launcher
    terms = replace(steps.terms, launcher=[*start, code + program, journal, said])
    with pytest.raises(error, match="drift"):
        apply_answer(asked, answer(asked, A), ANSWERED, BOUNDS, terms)
