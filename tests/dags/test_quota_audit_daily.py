from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.submit import ASSETS, STEPS

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAG_FILE = Path(__file__).parents[2] / "dags" / "quota_audit_daily.py"
DAG_ID = "quota_audit_daily"
PARSED_WITHOUT = ("pyspark", "great_expectations", "pandas", "numba", "pyarrow", "numpy")

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def bag(airflow_home: Path) -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(DAG_FILE.parent))


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> Any:
    return bag.dags[DAG_ID]


def test_the_folder_has_this_dag_and_no_broken_one(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert list(bag.dags) == [DAG_ID]


def test_the_tasks_are_the_steps_one_after_the_other(dag: Any) -> None:
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == {
        "ingest_requests": ["validate_ingested"],
        "validate_ingested": ["resolve_quotas"],
        "resolve_quotas": ["replay_quotas"],
        "replay_quotas": ["validate_replayed"],
        "validate_replayed": ["judge_decisions"],
        "judge_decisions": ["recommend_quotas"],
        "recommend_quotas": ["validate_judged"],
        "validate_judged": ["publish_report"],
        "publish_report": [],
    }


def test_a_scheduled_run_has_the_day_that_has_just_ended_as_its_interval(dag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    # The scheduler knows the stored form only.
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    info = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=restriction(dt.datetime(2026, 11, 20))
    )
    assert info.data_interval.start.isoformat() == "2026-11-20T00:00:00+00:00"
    assert info.data_interval.end.isoformat() == "2026-11-21T00:00:00+00:00"
    assert info.run_after == info.data_interval.end
    assert dag.catchup is False
    # Two days at once would be two Sparks at once on one machine.
    assert dag.max_active_runs == 1


def restriction(earliest: dt.datetime) -> Any:
    import pendulum
    from airflow.timetables.base import TimeRestriction

    return TimeRestriction(pendulum.instance(earliest, tz="UTC"), latest=None, catchup=True)


def test_every_field_of_the_form_has_a_title_and_a_sentence(dag: Any) -> None:
    fields = {name: dag.params.get_param(name) for name in dag.params}
    assert list(fields) == [
        *["day", "cluster", "archive", "warehouse", "timezone", "broker_version"],
    ]
    for name, field in fields.items():
        assert field.schema["title"], name
        assert field.description.endswith("."), name


def test_the_form_can_be_sent_as_it_is(dag: Any) -> None:
    values = dag.params.validate()
    assert values["day"] is None
    assert values["cluster"] == "default"
    assert Path(values["archive"]).is_absolute()
    assert Path(values["warehouse"]).is_absolute()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("day", "yesterday"),
        ("cluster", "../x"),
        ("archive", "relative/path"),
        ("warehouse", ""),
        ("timezone", "--help"),
        ("broker_version", "latest"),
    ],
)
def test_the_form_refuses_what_no_step_could_use(dag: Any, field: str, value: str) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(field).resolve(value=value)


def test_outputs_are_assets_in_the_warehouse(dag: Any) -> None:
    outlets = {task.task_id: [(o.name, o.uri) for o in task.outlets] for task in dag.tasks}
    warehouse = Path(dag.params["warehouse"]).as_uri()
    assert outlets == {
        task_id: [(ASSETS[task_id][0], f"{warehouse}/{ASSETS[task_id][1]}")]
        if task_id in ASSETS
        else []
        for task_id in STEPS
    }


def test_a_crash_is_tried_once_more_and_nothing_runs_for_ever(dag: Any) -> None:
    for task in dag.tasks:
        assert task.retries == 1, task.task_id
        assert task.execution_timeout <= dt.timedelta(hours=4), task.task_id


def test_the_scheduler_can_store_the_dag(dag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    assert stored["dag"]["dag_id"] == DAG_ID
    assert "Which day" in dag.doc_md


def test_parsing_imports_no_engine(airflow_home: Path) -> None:
    code = (
        "import runpy, sys, warnings; warnings.simplefilter('ignore'); import airflow.sdk;"
        # What Airflow itself has imported by then is not the DAG's doing.
        f"before = set(sys.modules); runpy.run_path({str(DAG_FILE)!r});"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=DAG_FILE.parent,
    )
    new = set(json.loads(done.stdout.splitlines()[-1].replace("'", '"')))
    assert "spark_jobs" in new
    assert new.isdisjoint(PARSED_WITHOUT), new & set(PARSED_WITHOUT)


def test_the_file_stays_short_enough_to_hold_no_logic() -> None:
    assert len(DAG_FILE.read_text().splitlines()) <= 80
