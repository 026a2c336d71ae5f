from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAGS = Path(__file__).parents[2] / "dags"
DAG_IDS = ("quota_audit_daily", "quota_recommend", "quota_whatif")
PARSED_WITHOUT = ("pyspark", "great_expectations", "pandas", "numba", "pyarrow", "numpy")

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(params=DAG_IDS)
def dag(bag: DagBag, request: pytest.FixtureRequest) -> Any:
    return bag.dags[request.param]


def test_the_folder_has_these_dags_and_no_broken_one(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == sorted(DAG_IDS)


def test_airflow_looks_for_dags_in_their_files_only(bag: DagBag) -> None:
    from airflow.configuration import conf
    from airflow.utils.file import list_py_file_paths

    assert conf.get("core", "dag_ignore_file_syntax") == "glob"
    found = {Path(file).relative_to(DAGS) for file in list_py_file_paths(DAGS, safe_mode=False)}
    assert found == {Path(f"{dag_id}.py") for dag_id in DAG_IDS}
    assert {Path(stat.file.lstrip("/")) for stat in bag.dagbag_stats} == found


def test_every_field_of_a_form_has_a_title_and_a_sentence(dag: Any) -> None:
    fields = {name: dag.params.get_param(name) for name in dag.params}
    assert fields
    for name, field in fields.items():
        assert field.schema["title"], name
        assert field.description.endswith("."), name


def test_a_crash_is_tried_once_more_and_nothing_runs_for_ever(dag: Any) -> None:
    for task in dag.tasks:
        assert task.retries == 1, task.task_id
        assert task.execution_timeout <= dt.timedelta(hours=4), task.task_id
    # Two runs at once would be two Sparks on one machine, or ask twice about one value.
    assert dag.max_active_runs == 1


def test_the_scheduler_can_store_the_dag_with_its_file_s_own_words(dag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    assert stored["dag"]["dag_id"] == dag.dag_id
    assert "**When it is red**" in dag.doc_md
    assert "quota" in dag.tags


@pytest.mark.parametrize("dag_id", DAG_IDS)
def test_parsing_imports_no_engine(airflow_home: Path, dag_id: str) -> None:
    code = (
        "import runpy, sys, warnings; warnings.simplefilter('ignore'); import airflow.sdk;"
        # What Airflow itself has imported by then is not the DAG's doing.
        f"before = set(sys.modules); runpy.run_path({str(DAGS / f'{dag_id}.py')!r});"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DAGS
    )
    new = set(json.loads(done.stdout.splitlines()[-1].replace("'", '"')))
    assert "spark_jobs" in new
    assert new.isdisjoint(PARSED_WITHOUT), new & set(PARSED_WITHOUT)


@pytest.mark.parametrize("dag_id", DAG_IDS)
def test_a_file_stays_short_enough_to_hold_no_logic(dag_id: str) -> None:
    assert len((DAGS / f"{dag_id}.py").read_text().splitlines()) <= 80
