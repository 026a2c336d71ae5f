from __future__ import annotations

import copy
import json
import os
import sqlite3
import subprocess
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from quota_dags.local.airflow_home import airflow_command
from quota_dags.whatif import NOTHING_TO_REPLAY, TASK_ID
from spark_jobs.whatif.clients.scenario import read_scenario
from spark_jobs.whatif.policies.catalogue import POLICIES
from tests.cluster.standalone import SMALL_SPARK

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "examples" / "capture"
SCENARIO = """\
[[policy]]
name = "broker_bandwidth"
label = "wie es war, größer"

[[policy]]
name = "kip13"
[policy.config]
"quota.producer.default" = "20K"
"""

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> Any:
    return bag.dags["quota_whatif"]


def replay(dag: Any, **form: Any) -> Any:
    return dag.task_dict[TASK_ID].python_callable(
        params={**dag.params.dump(), **form},
        run_id="manual__x",
        outlet_events=defaultdict(SimpleNamespace),
    )


def test_it_runs_when_it_is_asked_to_and_is_one_task(dag: Any) -> None:
    assert [task.task_id for task in dag.tasks] == [TASK_ID]
    assert dag.schedule is None
    # A run of a paused DAG waits for ever, without a word.
    assert dag.is_paused_upon_creation is False


def test_the_form_s_fields_can_be_sent_as_they_are_but_for_what_to_replay(dag: Any) -> None:
    assert list(dag.params) == [
        *["policies", "scenario", "mode", "day", "archive"],
        *["cluster", "warehouse", "timezone", "broker_version"],
    ]
    values = dag.params.validate()
    nothing = ["policies", "scenario", "day", "archive"]
    assert [values[name] for name in nothing] == [None] * len(nothing)
    assert values["mode"] == "as_logged"
    assert Path(values["warehouse"]).is_absolute()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policies", list(POLICIES)),
        ("policies", []),
        ("scenario", SCENARIO),
        ("scenario", ""),
        ("mode", "closed_loop"),
        ("mode", "both"),
        ("day", "2026-11-20"),
        ("archive", "/logs"),
        ("archive", ""),
    ],
)
def test_the_form_takes(dag: Any, field: str, value: object) -> None:
    # The param itself would keep the value, for every later test.
    assert copy.deepcopy(dag.params.get_param(field)).resolve(value=value) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policies", ["kip14"]),
        ("policies", ["--help"]),
        ("policies", "kip13"),
        ("policies", ["kip13", "kip13"]),
        ("scenario", {"policy": []}),
        ("mode", "open_loop"),
        ("mode", None),
        ("day", "yesterday"),
        ("cluster", "../x"),
        ("warehouse", "relative/path"),
        ("warehouse", ""),
        ("archive", "relative/path"),
        ("archive", "--help"),
        ("archive", "/etc"),
        ("warehouse", "/etc"),
        ("scenario", "#" * 32_001),
        ("timezone", "--help"),
        ("broker_version", "latest"),
    ],
)
def test_the_form_refuses_what_no_what_if_could_use(dag: Any, field: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(field).resolve(value=value)


def test_the_form_offers_every_policy_and_names_the_modes_for_people(dag: Any) -> None:
    # Airflow's form makes a multi-select of an array with examples.
    policies = dag.params.get_param("policies").schema
    assert policies["examples"] == policies["items"]["enum"] == list(POLICIES)
    mode = dag.params.get_param("mode").schema
    assert set(mode["values_display"]) == set(mode["enum"])
    assert dag.params.get_param("scenario").schema["format"] == "multiline"


def test_the_result_is_an_asset_whatever_the_warehouse(dag: Any) -> None:
    (outlet,) = dag.task_dict[TASK_ID].outlets
    assert outlet.name == "quota_whatif"
    assert outlet.uri == "x-quota-audit://warehouse/whatif"


def test_the_scenario_in_the_dag_s_docs_can_be_pasted_into_the_form(dag: Any) -> None:
    shown = [line for line in dag.doc_md.splitlines() if line.startswith("    ")]
    # Airflow's dialog shows a block of code on one line.
    for text in ("\n".join(shown), " ".join(shown)):
        as_it_was, kip13 = read_scenario(text, "doc_md")
        assert as_it_was.label == "as it was"
        assert kip13.config == {"quota.producer.default": "1M"}


def test_a_form_with_nothing_to_replay_fails_for_good_and_says_what_to_do(
    dag: Any, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException) as failed:
        replay(dag, warehouse=str(tmp_path))
    assert str(failed.value) == NOTHING_TO_REPLAY


def test_a_scenario_that_is_none_fails_for_good(dag: Any, tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(
        AirflowFailException, match=r"^The form's scenario: this is no TOML: .* line 1"
    ):
        replay(dag, warehouse=str(tmp_path), scenario="kip13, please")


@pytest.mark.spark
def test_a_run_over_a_capture_keeps_its_scenario_its_rows_and_renews_the_asset(
    migrated_home: Path, tmp_path: Path
) -> None:
    form = {"scenario": SCENARIO, "archive": str(CAPTURE), "warehouse": str(tmp_path)}
    done = subprocess.run(
        airflow_command("dags", "test", "quota_whatif", "-c", json.dumps(form)),
        cwd=ROOT, env=os.environ | SMALL_SPARK, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = (tmp_path / "scenarios").iterdir()
    assert kept.read_text() == SCENARIO
    assert kept.name.startswith("manual__")
    assert f"--scenario {kept}" in done.stdout + done.stderr
    rows = ds.dataset(tmp_path / "whatif", partitioning="hive").to_table()
    assert set(rows["label"].to_pylist()) == {"wie es war, größer", "kip13"}
    with closing(sqlite3.connect(migrated_home / "airflow.db")) as database:
        extras = database.execute("select extra from asset_event where source_dag_id = ?",
                                  ("quota_whatif",)).fetchall()  # fmt: skip
    assert [json.loads(extra) for (extra,) in extras] == [
        {"cluster": "default", "day": "all", "warehouse": str(tmp_path)}
    ]
