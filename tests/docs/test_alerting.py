"""The examples of docs/howto/alerting.md, taken from the page and put where it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quota_dags.local.airflow_home import airflow_environment
from quota_dags.steps import ASSETS, asset_uri
from spark_jobs.settings import AlertSettings
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "alerting.md"

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]

LOADED = """
import json, warnings
warnings.simplefilter("ignore")
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder={dags!r})
assert bag.import_errors == {{}}, bag.import_errors
print(json.dumps({{
    f"{{dag_id}}.{{task.task_id}}": [c.subject for c in task.on_failure_callback or []]
    for dag_id, dag in bag.dags.items() for task in dag.tasks
}}))
"""
OWNERS = "owners:\n  - match: alice\n    team: Orders\n    contact: orders@example.com\n"


def python_of_the_page() -> tuple[str, str]:
    dag, policy = (block.text for block in blocks(PAGE) if block.language == "python")
    return dag, policy


def test_the_page_names_every_setting_of_alerts_with_its_default() -> None:
    named = re.findall(r"^\| `QUOTA_AUDIT_ALERT_(\w+)` \| (?:`(\w+)`)?", PAGE.read_text(), re.M)
    assert [name.lower() for name, _ in named] == list(AlertSettings.model_fields)
    shown = {name.lower(): default for name, default in named if default}
    assert shown == {name: value for name, value in AlertSettings().model_dump().items() if value}


def test_the_policy_gives_the_other_dags_tasks_a_notifier(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "airflow_local_settings.py").write_text(python_of_the_page()[1])
    code = LOADED.format(dags=str(ROOT / "dags"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**airflow_environment(tmp_path, ROOT), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    attached = json.loads(done.stdout.splitlines()[-1])
    subject = "{{ ti.dag_id }}: {{ ti.task_id }} failed"
    assert {name: subjects.count(subject) for name, subjects in attached.items()} == {
        name: 0 if name.startswith("quota_audit_daily.") else 1 for name in attached
    }


@pytest.fixture(scope="module")
def own(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    folder = tmp_path_factory.mktemp("dags")
    (folder / "quota_orders.py").write_text(python_of_the_page()[0])
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    return bag.dags["quota_orders"]


def test_the_dag_waits_for_the_asset_that_our_audit_renews(own: Any) -> None:
    name, folder = "quota_report", ASSETS["quota_report"]
    (asset,) = own.timetable.asset_condition.objects
    assert (asset.name, asset.uri) == (name, asset_uri(folder))


@pytest.mark.parametrize(("user", "is_told"), [("alice", True), ("bob", False)])
def test_it_tells_a_team_of_its_own_clients_only(
    user: str, is_told: bool, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [row("findings", quota_user=user)])
    (tmp_path / "owners.yaml").write_text(OWNERS)
    extra = {"warehouse": str(scope.warehouse), "cluster": scope.cluster, "day": str(scope.day)}
    events = {"quota_report": [SimpleNamespace(extra=extra)]}
    told = own.task_dict["message"].python_callable(triggering_asset_events=events)
    assert [user in text for text in told] == [True] * is_told
    assert own.task_dict["mail"].upstream_task_ids == {"message"}


def test_names_in_a_sentence_are_harmless_in_the_mail(own: Any) -> None:
    from jinja2 import Environment

    ti = SimpleNamespace(xcom_pull=lambda _: ["client '<script>'"])
    mail = Environment().from_string(own.task_dict["mail"].html_content).render(ti=ti)
    assert mail == "<pre>client &#39;&lt;script&gt;&#39;</pre>"
