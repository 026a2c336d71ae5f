from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quota_dags.steps import ASSETS
from spark_jobs.warehouse.pipeline import STEPS

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> Any:
    return bag.dags["quota_audit_daily"]


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


def restriction(earliest: dt.datetime) -> Any:
    import pendulum
    from airflow.timetables.base import TimeRestriction

    return TimeRestriction(pendulum.instance(earliest, tz="UTC"), latest=None, catchup=True)


def test_the_form_can_be_sent_as_it_is(dag: Any) -> None:
    assert list(dag.params) == [
        *["day", "cluster", "archive", "warehouse", "timezone", "broker_version"],
    ]
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
        ("archive", "/etc"),
        ("warehouse", ""),
        ("warehouse", "/etc"),
        ("timezone", "--help"),
        ("broker_version", "latest"),
    ],
)
def test_the_form_refuses_what_no_step_could_use(dag: Any, field: str, value: str) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params.get_param(field).resolve(value=value)


def test_outputs_are_assets_that_publishing_renews_whatever_the_warehouse(dag: Any) -> None:
    outlets = {task.task_id: [(o.name, o.uri) for o in task.outlets] for task in dag.tasks}
    uris = [(name, f"x-quota-audit://warehouse/{folder}") for name, folder in ASSETS.items()]
    assert outlets == {task_id: uris if task_id == "publish_report" else [] for task_id in STEPS}
