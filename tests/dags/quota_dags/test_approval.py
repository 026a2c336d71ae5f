from __future__ import annotations

import datetime as dt
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quota_dags.approval import NO_TARGET, Decision, RecommendRun, ask, recommend_run
from spark_jobs.apply.changes.change_key import change_key, parse_selection
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.cli import app as cli
from tests.builders.approvals import (
    A12,
    BOUNDS,
    DAG_RUN,
    DAY,
    DECISION,
    FORM,
    GONE,
    LOOSE,
    RUN,
    RUN_ID,
    SCOPE,
    TOLD,
    A,
    B,
    FinalError,
    Skipped,
    Steps,
    proposal,
)


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


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
