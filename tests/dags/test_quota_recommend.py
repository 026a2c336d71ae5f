from __future__ import annotations

import copy
import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from quota_dags.approval import APPLY, APPROVE, NO_TARGET, READ
from quota_dags.steps import PUBLISHES
from spark_jobs.settings import ApprovalSettings
from tests.builders.tables_builder import DAY, row, scope_in, write_rows

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).parents[2]
CHANGE = "users/alice:producer_byte_rate"
PLAN = "0123456789abcdef0123456789abcdef"

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> Any:
    return bag.dags["quota_recommend"]


@pytest.fixture(autouse=True)
def brokers(dag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks, whose file was read without one, know a target."""
    known = dag.task_dict[READ].python_callable.__globals__
    monkeypatch.setitem(known, "APPROVAL", ApprovalSettings(bootstrap_servers="b:9092"))


@pytest.fixture
def approve(dag: Any) -> Any:
    """Return the question as a run has it, its templates rendered."""
    question = copy.copy(dag.task_dict[APPROVE])
    question.options, question.plan = ["all", "none", CHANGE], PLAN
    question.params = copy.deepcopy(question.params)
    return question


def read(dag: Any, extras: tuple[dict[str, str], ...] = (), **form: Any) -> Any:
    events = {"asset": [SimpleNamespace(extra=extra) for extra in extras]} if extras else {}
    return dag.task_dict[READ].python_callable(
        params={**dag.params.dump(), **form},
        triggering_asset_events=events,
        dag_run=SimpleNamespace(run_id="manual__x", triggering_user_name="bob"),
    )


def event(*chosen: str, **more: Any) -> dict[str, Any]:
    """Return what Airflow resumes a question with once somebody has answered."""
    return {
        "chosen_options": list(chosen),
        "params_input": {"note": "Friday", "plan": PLAN},
        "responded_at": dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC),
        "responded_by_user": {"id": "admin", "name": "admin"},
        "timedout": False,
    } | more


def test_it_reads_asks_and_applies(dag: Any) -> None:
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == {
        # What applying needs to know was read, not answered.
        READ: sorted([APPLY, APPROVE]),
        APPROVE: [APPLY],
        APPLY: [],
    }
    # A run of a paused DAG waits for ever, without a word.
    assert dag.is_paused_upon_creation is False


def test_it_starts_when_an_audit_has_renewed_its_proposals(dag: Any, bag: DagBag) -> None:
    outlets = bag.dags["quota_audit_daily"].task_dict[PUBLISHES].outlets
    (renewed,) = [asset for asset in outlets if asset.name == "quota_recommendations"]
    (awaited,) = dag.timetable.asset_condition.objects
    assert (awaited.name, awaited.uri) == (renewed.name, renewed.uri)


def test_the_form_can_be_sent_as_it_is_and_changes_nothing(dag: Any) -> None:
    values = dag.params.validate()
    assert Path(values.pop("warehouse")).is_absolute()
    assert values == {
        "day": None,
        "cluster": "default",
        "target": None,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("day", "2026-11-20"),
    ],
)
def test_the_form_takes(dag: Any, field: str, value: object) -> None:
    # The param itself would keep the value, for every later test.
    assert copy.deepcopy(dag.params.get_param(field)).resolve(value=value) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("day", "yesterday"),
        ("cluster", "../x"),
        ("warehouse", "relative/path"),
        ("warehouse", "/etc"),
        ("target", "production"),
        ("target", ""),
    ],
)
def test_the_form_refuses_what_nothing_could_be_applied_with(
    dag: Any, field: str, value: object
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(field).resolve(value=value)


def test_settings_fill_the_form_in(airflow_home: Path) -> None:
    code = (
        "import json, runpy, warnings; warnings.simplefilter('ignore');"
        "dag = runpy.run_path('dags/quota_recommend.py');"
        "print(json.dumps([{n: p.value for n, p in dag['PARAMS'].items()},"
        "dag['APPROVAL'].answer_within_days]))"
    )
    settings = {
        "BOOTSTRAP_SERVERS": "b:9092",
        "COMMAND_CONFIG": "admin.properties",
        "DRY_RUN": "false",
        "ALLOW_DELETE": "true",
        "ANSWER_WITHIN_DAYS": "0.5",
    }
    env = os.environ | {f"QUOTA_AUDIT_KAFKA_{name}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    params, days = json.loads(done.stdout.splitlines()[-1])
    assert params | {"warehouse": "", "cluster": ""} == {
        "day": None,
        "cluster": "",
        "warehouse": "",
        "target": "default",
        "dry_run": False,
        "allow_delete": True,
    }
    assert days == 0.5


def test_the_question_is_about_what_an_audit_proposed(dag: Any, tmp_path: Path) -> None:
    write_rows(scope_in(tmp_path), "recommendations", [row("recommendations")])
    audit = {"cluster": "default", "day": str(DAY), "warehouse": str(tmp_path)}
    question = read(dag, (audit,), target="default")
    assert question["options"] == ["all", "none", CHANGE]
    assert f"`{CHANGE}`" in question["body"]
    assert question["asked"]["proposals"] == [
        {"change": CHANGE, "exactly": f"{CHANGE}:50000:100000"}
    ]


def test_where_nothing_is_proposed_the_run_ends_green(dag: Any, tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    kept = row("recommendations", status="keep", kind=None, proposed=None)
    write_rows(scope_in(tmp_path), "recommendations", [kept])
    with pytest.raises(AirflowSkipException, match=r"^nothing to approve: nothing is proposed for"):
        read(dag, target="default", warehouse=str(tmp_path))


def test_without_brokers_an_audit_s_run_is_skipped_and_one_by_hand_is_red(dag: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    with pytest.raises(AirflowSkipException) as skipped:
        read(dag, ({"cluster": "default", "day": str(DAY)},))
    with pytest.raises(AirflowFailException) as failed:
        read(dag)
    assert str(skipped.value) == str(failed.value) == NO_TARGET


@pytest.mark.parametrize(
    "form",
    [{"dry_run": False}, {"allow_delete": True}, {"bootstrap_servers": "thief:9092"}],
)
def test_a_form_opens_no_door_that_a_setting_closed(dag: Any, form: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"Nothing was read or written\.$"):
        read(dag, target="default", **form)


def test_a_warehouse_that_cannot_be_read_is_red_for_good(dag: Any, tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"^error: .* holds no recommendations of the"):
        read(dag, target="default", warehouse=str(tmp_path))


def test_several_changes_may_be_chosen_and_nothing_is_chosen_before(approve: Any) -> None:
    assert approve.multiple is True
    assert approve.defaults is None
    assert approve.assigned_users is None
    note = approve.serialized_params["note"]
    assert (note["value"], note["schema"]["format"]) == (None, "multiline")


def test_an_answer_says_what_was_chosen_by_whom_and_why(approve: Any) -> None:
    answer = approve.execute_complete({}, event(CHANGE))
    assert answer["chosen_options"] == [CHANGE]
    assert answer["responded_by_user"] == {"id": "admin", "name": "admin"}
    assert answer["params_input"] == {"note": "Friday", "plan": PLAN}


def test_an_answer_that_was_not_offered_is_refused(approve: Any) -> None:
    with pytest.raises(ValueError, match="users/mallory"):
        approve.execute_complete({}, event("users/mallory"))


def test_the_question_carries_its_plan_as_a_field_that_the_answer_brings_back(
    approve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.standard.operators import hitl
    from airflow.sdk.exceptions import TaskAwaitingInput

    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **fields: asked.update(fields))
    with pytest.raises(TaskAwaitingInput):
        approve.execute({"task_instance": SimpleNamespace(id="x")})
    field = asked["params"]["plan"]
    assert (field["value"], field["schema"]["enum"]) == (PLAN, [PLAN])


@pytest.mark.parametrize("brought", [{}, {"note": "Friday"}, {"plan": None}])
def test_an_answer_without_the_plan_is_red_for_good_and_says_what_to_send(
    approve: Any, brought: dict[str, Any]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"send params_input\.plan as the question"):
        approve.execute_complete({}, event(CHANGE, params_input=brought))


def test_a_script_need_not_send_a_note(approve: Any) -> None:
    answer = approve.execute_complete({}, event(CHANGE, params_input={"plan": PLAN}))
    assert answer["params_input"] == {"plan": PLAN}


def test_a_note_as_long_as_a_book_is_refused(approve: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError, match="note"):
        approve.execute_complete({}, event(CHANGE, params_input={"note": "x" * 1001, "plan": PLAN}))


def test_without_an_answer_nothing_is_applied_and_the_run_ends_green(approve: Any) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    assert approve.response_timeout == dt.timedelta(days=7)
    timeout = {"error": "The timeout has passed", "error_type": "timeout"}
    with pytest.raises(AirflowSkipException, match="nobody has answered in time: nothing is app"):
        approve.execute_complete({}, timeout)


def test_an_error_while_waiting_is_none_that_ends_green(approve: Any) -> None:
    from airflow.providers.standard.exceptions import HITLTriggerEventError

    with pytest.raises(HITLTriggerEventError):
        approve.execute_complete({}, {"error": "broken", "error_type": "unknown"})


def test_none_skips_applying(dag: Any) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    run = {
        **{
            "run_id": "manual__x",
            "asked_by": "bob",
            "warehouse": "/wh",
            "cluster": "default",
            "day": str(DAY),
            "command_config": None,
        },
        **{
            "target": "default",
            "bootstrap_servers": "b:9092",
            "dry_run": True,
            "allow_delete": False,
        },
    }
    proposals = [{"change": CHANGE, "exactly": f"{CHANGE}:1:2"}]
    with pytest.raises(AirflowSkipException, match="admin approved nothing"):
        dag.task_dict[APPLY].python_callable({"run": run, "proposals": proposals}, event("none"))


def test_what_is_read_is_never_taken_for_a_template(dag: Any) -> None:
    approve = dag.task_dict[APPROVE]
    assert set(approve.template_fields) == {"subject", "body", "options", "plan"}
    # A string would be rendered as Jinja; a reference is replaced by what was read.
    for field in approve.template_fields:
        reference = getattr(approve, field)
        assert [(task.task_id, key) for task, key in reference.iter_references()] == [(READ, field)]
