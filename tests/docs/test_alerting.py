"""The examples of docs/howto/alerting.md, taken from the page and put where it says."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.airflow_home import airflow_environment
from spark_jobs.report.news import news_of
from spark_jobs.report.news_text import news_text
from spark_jobs.submit import ASSETS
from spark_jobs.submitted_step import asset_uri
from spark_jobs.warehouse import RunScope
from tests.docs.pages import ROOT, blocks
from tests.tables_builder import row, scope_in, write_rows

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
    f"{{dag_id}}.{{task.task_id}}": [c.subject for c in task.on_failure_callback]
    for dag_id, dag in bag.dags.items() for task in dag.tasks
}}))
"""


def python_of_the_page() -> tuple[str, str]:
    page = ROOT / "docs" / "howto" / "alerting.md"
    policy, dag = (block.text for block in blocks(page) if block.language == "python")
    return policy, dag


def test_the_policy_gives_every_task_of_our_dags_a_notifier(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "airflow_local_settings.py").write_text(python_of_the_page()[0])
    code = LOADED.format(dags=str(ROOT / "dags"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**airflow_environment(tmp_path, ROOT), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    attached = json.loads(done.stdout.splitlines()[-1])
    assert len(attached) > 10
    subject = "{{ ti.dag_id }}: {{ ti.task_id }} failed"
    assert dict.fromkeys(attached, 1) == {n: s.count(subject) for n, s in attached.items()}


@pytest.fixture(scope="module")
def alert(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    folder = tmp_path_factory.mktemp("dags")
    (folder / "quota_alert.py").write_text(python_of_the_page()[1])
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    return bag.dags["quota_alert"]


def test_the_dag_waits_for_the_asset_that_our_audit_renews(alert: Any) -> None:
    name, folder = "quota_report", ASSETS["quota_report"]
    (asset,) = alert.timetable.asset_condition.objects
    assert (asset.name, asset.uri) == (name, asset_uri(folder))


def test_it_tells_of_what_is_critical_once(alert: Any, tmp_path: Path) -> None:
    first = scope_in(tmp_path)
    second = RunScope(tmp_path, first.cluster, first.day + dt.timedelta(days=1))
    for scope in (first, second):
        write_rows(scope, "findings", [row("findings", severity="critical")])
    ask = alert.task_dict["critical_news"].python_callable
    (message,) = ask(triggering_asset_events=published(first))
    assert message == news_text(news_of(first))
    assert ask(triggering_asset_events=published(second)) == []
    assert ask(triggering_asset_events={}) == []
    assert alert.task_dict["mail"].upstream_task_ids == {"critical_news"}


def test_it_does_not_tell_of_a_warning(alert: Any, tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [row("findings", severity="warning")])
    ask = alert.task_dict["critical_news"].python_callable
    assert ask(triggering_asset_events=published(scope)) == []


def published(scope: RunScope) -> dict[str, list[SimpleNamespace]]:
    """Return the event of the asset that a published audit renews."""
    extra = {"warehouse": str(scope.warehouse), "cluster": scope.cluster, "day": str(scope.day)}
    return {"quota_report": [SimpleNamespace(extra=extra)]}


def test_names_in_a_sentence_are_harmless_in_the_mail(alert: Any) -> None:
    from jinja2 import Environment

    ti = SimpleNamespace(xcom_pull=lambda _: ["client '<script>'"])
    mail = Environment().from_string(alert.task_dict["mail"].html_content).render(ti=ti)
    assert mail == "<pre>client &#39;&lt;script&gt;&#39;</pre>"
