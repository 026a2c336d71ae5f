from __future__ import annotations

import datetime as dt
import json
import shlex
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from quota_dags.approval import (
    NO_TARGET,
    Bounds,
    Decision,
    RecommendRun,
    apply_answer,
    ask,
    plan_digest,
    recommend_run,
)
from quota_dags.process import StepCrashedError, TaskTerms
from spark_jobs.apply.changes.change_key import (
    change_key,
    change_key_with_values,
    parse_selection,
)
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.cli import app as cli
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings, KafkaTarget
from tests.builders.tables_builder import row, scope_in, write_rows

DAY = "2026-11-20"
FORM: dict[str, Any] = {
    "day": None,
    "cluster": "east",
    "warehouse": "/wh",
    "target": "default",
}
BOUNDS = Bounds(
    DailyAuditSettings(warehouse=Path("/wh"), warehouses=("/other",)),
    ApprovalSettings(
        bootstrap_servers="b:9092",
        targets={"west": KafkaTarget(bootstrap_servers="w:9093", command_config=Path("/w.conf"))},
    ),
)
LOOSE = replace(
    BOUNDS, approval=BOUNDS.approval.model_copy(update={"dry_run": False, "allow_delete": True})
)
ANSWERED = dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC)
RUN_ID = "manual__2026-11-21"
DAG_RUN = SimpleNamespace(run_id=RUN_ID, triggering_user_name="bob")
RUN = RecommendRun(
    *(RUN_ID, "bob", "/wh", "east", DAY, "default", "b:9092", None),
    dry_run=True,
    allow_delete=False,
)
SCOPE = ["--warehouse", "/wh", "--cluster", "east"]
TOLD = ["--by=ada", "--asked-by=bob", "--plan", "0123"]
DECISION = Decision(("users/a:producer_byte_rate:1000:2000",), "ada", None)
A, B, GONE = (
    "users/a:producer_byte_rate",
    "users/b:producer_byte_rate",
    "clients/c:producer_byte_rate",
)


A12 = f"{A}:1000:2000"


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


class Skipped(Exception):
    """Stands for Airflow's exception that skips a task."""


def proposal(change: str, after: float | None = 2000.0, before: float | None = 1000.0) -> Any:
    one = parse_selection(change)
    assert one.quota_type
    altered = QuotaAlteration(one.quota_type, one.user, one.client_id, before, after)
    return {
        "change": change,
        "exactly": change_key_with_values(altered),
        "quota_type": one.quota_type,
        "before": before,
        "after": after,
        "current": before,
        "throttle_time_ms_before": 5000,
        "throttle_time_ms_after": 0,
        "backtest_trials": 0,
        "backtest_kept": 0,
        "reason": "Throttled.",
    }


class Steps:
    """A `quota-audit` that says what is proposed, and notes what else it is asked."""

    def __init__(self, folder: Path) -> None:
        self.log: list[str] = []
        self._journal = folder / "journal"
        self._said = folder / "proposals.json"
        code = (
            "import json, sys; print(json.dumps(sys.argv[3:]), file=open(sys.argv[1], 'a'));"
            "print(open(sys.argv[2]).read() if sys.argv[3] == 'proposals' else '1 applied')"
        )
        launcher = [sys.executable, "-S", "-c", code, str(self._journal), str(self._said)]
        self.terms = TaskTerms(self.log.append, FinalError, Skipped, launcher)

    def propose(self, *proposals: Any, day: str = DAY) -> None:
        self._said.write_text(json.dumps({"day": day, "proposals": proposals}))

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()]


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def answer(asked: Any, *chosen: str, note: str | None = None, by: str = "ada") -> dict[str, Any]:
    """Return the answer to a question, as Airflow's HITLOperator returns it."""
    return {
        "chosen_options": list(chosen),
        "params_input": {"note": note, "plan": plan_digest(asked)},
        "responded_at": ANSWERED,
        "responded_by_user": {"id": "1", "name": by},
    }


def test_by_hand_the_form_says_what_is_asked_about(steps: Steps) -> None:
    assert recommend_run(FORM, [], DAG_RUN, BOUNDS, steps.terms) == replace(RUN, day=None)
    filled = {"day": DAY, "target": "west", "dry_run": False, "allow_delete": True}
    assert recommend_run(FORM | filled, [], DAG_RUN, LOOSE, steps.terms) == RecommendRun(
        *(RUN_ID, "bob", "/wh", "east", DAY, "west", "w:9093", "/w.conf"),
        dry_run=False,
        allow_delete=True,
    )
    # A form may be stricter than its settings.
    strict = {"dry_run": True, "allow_delete": False}
    assert recommend_run(FORM | strict, [], DAG_RUN, LOOSE, steps.terms) == replace(RUN, day=None)
    emptied = recommend_run(FORM | {"day": "", "target": None}, [], DAG_RUN, BOUNDS, steps.terms)
    assert emptied == replace(RUN, day=None, target="", bootstrap_servers="")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"dry_run": False}, "asks for dry_run = False, and the setting QUOTA_AUDIT_KAFKA_DRY_RUN"),
        ({"dry_run": "false"}, "asks for dry_run = 'false'"),
        ({"dry_run": None}, "asks for dry_run = None"),
        ({"allow_delete": True}, "QUOTA_AUDIT_KAFKA_ALLOW_DELETE is false"),
        ({"allow_delete": 1}, "asks for allow_delete = 1"),
        ({"warehouse": "/etc"}, "The form's warehouse is '/etc', and the settings allow /wh, /oth"),
        ({"archive": "/etc"}, "The form's archive is '/etc'"),
        ({"bootstrap_servers": "thief:1"}, "says bootstrap_servers, which settings alone may"),
        ({"command_config": "/c"}, "says command_config, .* There are: default, west"),
        ({"target": "east"}, "There is no target 'east'. There are: default, west"),
        ({"target": ["west"]}, "There is no target"),
    ],
)
def test_a_form_that_is_less_strict_than_the_settings_is_refused_before_anything_is_read(
    steps: Steps, form: dict[str, Any], said: str
) -> None:
    with pytest.raises(FinalError, match=rf"{said}.* Nothing was read or written\.$"):
        recommend_run(FORM | form, [], DAG_RUN, BOUNDS, steps.terms)


@pytest.mark.parametrize(
    "extra",
    [
        {"warehouse": "/etc"},
        {"warehouse": "/wh/../etc"},
        {"warehouse": ["/wh"]},
        {"warehouse": ""},
        {"day": "yesterday"},
        {"day": "2026-11-31"},
        {"day": DAY + "\n"},
        {"day": 20261120},
        {"cluster": "../x"},
        {"cluster": "east\n"},
        {"cluster": 7},
        ["east"],
    ],
)
def test_an_event_that_no_form_could_be_is_refused(steps: Steps, extra: Any) -> None:
    good = {"cluster": "east", "day": DAY, "warehouse": "/wh"}
    with pytest.raises(FinalError, match="event"):
        recommend_run(FORM, [good, extra], DAG_RUN, BOUNDS, steps.terms)


def test_an_audit_s_event_says_which_day_and_warehouse(steps: Steps) -> None:
    extra = {"cluster": "east", "day": DAY, "warehouse": "/other"}
    assert recommend_run(FORM, [extra], DAG_RUN, BOUNDS, steps.terms) == replace(
        RUN, warehouse="/other"
    )
    assert (
        recommend_run(FORM, [{"cluster": "east", "day": DAY}], DAG_RUN, BOUNDS, steps.terms) == RUN
    )
    # As an event that a person made in Airflow's page has it.
    assert recommend_run(FORM, [{}], DAG_RUN, BOUNDS, steps.terms) == replace(RUN, day=None)


def test_of_several_audits_the_latest_day_of_its_own_cluster_counts(steps: Steps) -> None:
    events = [
        {"cluster": "east", "day": "2026-11-19", "warehouse": "/wh/old"},
        {"cluster": "east", "day": DAY, "warehouse": "/wh/new"},
        {"cluster": "west", "day": "2026-11-25", "warehouse": "/wh/west"},
        {"cluster": "east", "day": "2026-11-01", "warehouse": "/wh/backfilled"},
    ]
    assert recommend_run(FORM, events, DAG_RUN, BOUNDS, steps.terms) == replace(
        RUN, warehouse="/wh/new"
    )


def test_another_cluster_s_proposals_never_come_near_these_brokers(steps: Steps) -> None:
    with pytest.raises(Skipped, match=r"audited is the cluster west, .* that of east\."):
        recommend_run(FORM, [{"cluster": "west", "day": DAY}], DAG_RUN, BOUNDS, steps.terms)


@pytest.mark.parametrize(("by_hand", "error"), [(True, FinalError), (False, Skipped)])
def test_with_no_brokers_nobody_is_asked(
    steps: Steps, by_hand: bool, error: type[Exception]
) -> None:
    with pytest.raises(error) as ended:
        ask(replace(RUN, target=""), BOUNDS.approval, steps.terms, by_hand=by_hand)
    assert str(ended.value) == NO_TARGET


def test_the_question_offers_all_none_and_each_change(steps: Steps) -> None:
    steps.propose(proposal(A), proposal(B))
    asked = ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)
    assert asked["subject"] == "Dry run: choose from 2 quota changes for east, 2026-11-20 UTC"
    assert asked["options"] == ["all", "none", A, B]
    assert f"`{A}`" in asked["body"]
    assert "the target `default`, the Kafka cluster at `b:9092`" in asked["body"]
    assert steps.calls() == [["proposals", *SCOPE, "--day", DAY, "--json"]]
    # As XCom keeps it.
    assert json.loads(json.dumps(asked)) == asked


def test_a_real_run_is_no_dry_run_and_says_how_to_take_it_back(steps: Steps) -> None:
    steps.propose(proposal(A))
    run = replace(RUN, dry_run=False, command_config="/my files/c", warehouse="/w h")
    asked = ask(run, BOUNDS.approval, steps.terms, by_hand=False)
    assert asked["subject"] == "Choose from 1 quota change for east, 2026-11-20 UTC"
    command = asked["body"].partition("To take it back: `")[2].removesuffix("`")
    assert shlex.split(command) == [
        *["quota-audit", "rollback", "--warehouse", "/w h", "--cluster", "east"],
        *["--bootstrap-server", "b:9092", "--command-config", "/my files/c", "--execute"],
    ]


def test_with_no_day_the_last_is_asked_about_and_applied(steps: Steps) -> None:
    steps.propose(proposal(A), day="2026-11-18")
    asked = ask(replace(RUN, day=None), BOUNDS.approval, steps.terms, by_hand=True)
    assert steps.calls() == [["proposals", *SCOPE, "--json"]]
    assert asked["asked"]["run"]["day"] == "2026-11-18"


def test_a_removal_is_offered_only_where_removing_is_allowed(steps: Steps) -> None:
    steps.propose(proposal(A), proposal(GONE, after=None))
    assert ask(RUN, BOUNDS.approval, steps.terms, by_hand=False)["options"] == ["all", "none", A]
    allowed = ask(replace(RUN, allow_delete=True), BOUNDS.approval, steps.terms, by_hand=False)
    assert allowed["options"] == ["all", "none", A, GONE]


@pytest.mark.parametrize(
    ("proposals", "said"),
    [
        ([], r"nothing is proposed for east, 2026-11-20 UTC\.$"),
        ([proposal(GONE, after=None)], r"but 1 removals, which are not allowed\.$"),
    ],
)
def test_where_nothing_can_be_chosen_nobody_is_asked(
    steps: Steps, proposals: list[Any], said: str
) -> None:
    steps.propose(*proposals)
    with pytest.raises(Skipped, match=f"^nothing to approve: .*{said}"):
        ask(RUN, BOUNDS.approval, steps.terms, by_hand=True)


@pytest.mark.parametrize(
    ("run", "decision", "arguments"),
    [
        (RUN, DECISION, ["--only", A12, *TOLD]),
        (
            RUN,
            replace(DECISION, changes=(A12, B)),
            ["--only", A12, "--only", B, *TOLD],
        ),
        (
            replace(RUN, dry_run=False),
            DECISION,
            ["--only", A12, *TOLD, "--execute"],
        ),
        (
            replace(RUN, allow_delete=True),
            DECISION,
            ["--only", A12, *TOLD, "--allow-delete"],
        ),
        (
            replace(RUN, command_config="/c"),
            DECISION,
            ["--command-config", "/c", "--only", A12, *TOLD],
        ),
        (
            RUN,
            replace(DECISION, approved_by="--execute", note="-x\ny"),
            ["--only", A12, "--by=--execute", "--asked-by=bob", "--plan", "0123", "--note=-x\ny"],
        ),
    ],
    ids=["one", "two", "for real", "with removals", "with TLS", "by one with a strange name"],
)
def test_the_command_says_what_was_approved(
    run: RecommendRun, decision: Decision, arguments: list[str]
) -> None:
    scope = ["apply", *SCOPE, "--day", DAY, "--bootstrap-server", "b:9092"]
    assert run.apply_arguments(decision, "0123") == [*scope, *arguments]


def test_without_a_change_there_is_no_command_as_it_would_apply_all() -> None:
    with pytest.raises(AssertionError, match="all changes would be applied"):
        RUN.apply_arguments(replace(DECISION, changes=()), "0123")


@pytest.mark.parametrize(
    "arguments",
    [
        RUN.proposals_arguments(),
        replace(RUN, day=None).proposals_arguments(),
        replace(RUN, dry_run=False, command_config="/c", allow_delete=True).apply_arguments(
            Decision((A, B), "--by", "--execute\n-h"), "0123"
        ),
        replace(RUN, command_config="/c").rollback_arguments(),
    ],
    ids=["proposals", "proposals of the last day", "apply", "rollback"],
)
def test_the_command_line_understands_the_command(arguments: list[str]) -> None:
    name, *options = arguments
    command = typer.main.get_command(cli.app).commands[name]  # type: ignore[attr-defined]
    params = command.make_context(name, list(options)).params
    assert (params["warehouse"], params["cluster"]) == (Path("/wh"), "east")
    if "day" in params and "--day" in options:
        assert params["day"].date() == dt.date.fromisoformat(DAY)
    if name == "apply":
        assert params["only"] == [A, B]
        assert (params["by"], params["note"]) == ("--by", "--execute\n-h")
        assert params["execute"] is params["allow_delete"] is True
    if name != "proposals":
        assert params["bootstrap_server"] == "b:9092"
        assert params["command_config"] == Path("/c")


def test_a_change_s_name_selects_that_change_whatever_it_is_called() -> None:
    strange = QuotaAlteration("producer_byte_rate", "a/b:c d", "--only\n%2F", None, 1.0)
    assert not change_key(strange).startswith("-")
    assert parse_selection(change_key(strange)).covers(strange)


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
