"""What a run of the daily DAG sends, in Airflow, through the providers, to servers on 127.0.0.1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quota_dags.steps import PUBLISHES
from spark_jobs.warehouse.pipeline import STEPS
from tests.builders.alert_receivers import Receivers, receivers
from tests.builders.tables_builder import DAY, row, scope_in, write_rows
from tests.conftest import FakeSteps

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "reference" / "alert.schema.json"
HOSTILE = "{{ 7*7 }}<script>alert(1)</script><!channel>&<@U1>"
SECRETS = ("slack-secret", "webhook-secret")

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; what this project's code warns of is seen in the other tests.
    pytest.mark.filterwarnings("ignore"),
]


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the DAG ended; ``tasks``: state and number of attempts of each."""

    state: str
    tasks: dict[str, list[Any]]
    log: str

    def states(self, *task_ids: str) -> list[str]:
        return [self.tasks[task_id][0] for task_id in task_ids]


@pytest.fixture
def got() -> Iterator[Receivers]:
    with receivers() as servers:
        yield servers


def run_of(warehouse: Path, home: Path, steps: FakeSteps, **env: str) -> Run:
    """Run the DAG on a warehouse whose news are real and whose other steps are not."""
    conf = {"day": str(DAY), "cluster": "default", "archive": "/logs", "warehouse": str(warehouse)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.dags.alerting_run", json.dumps(conf)],
        cwd=ROOT,
        env={**os.environ, **steps.env, "FAKE_STEPS_REAL": '["news"]', **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return Run(found["state"], found["tasks"], done.stdout + done.stderr)


def published(warehouse: Path) -> Path:
    """Return a warehouse in which a fault of a client with a hostile name was found."""
    found = row("findings", severity="critical", quota_client_id=HOSTILE)
    write_rows(scope_in(warehouse), "findings", [found])
    return warehouse


def test_what_is_new_is_told_once_by_each_channel_and_names_are_only_names(
    migrated_home: Path, tmp_path: Path, fake_steps: FakeSteps, got: Receivers
) -> None:
    settings = got.environment("mail", "slack", "webhook", base_url="https://airflow.example.com/")
    run = run_of(published(tmp_path / "wh"), migrated_home, fake_steps, **settings)
    assert run.state == "success", run.log[-3000:]
    assert run.states(PUBLISHES, "alert_news", "alert_failure") == ["success", "success", "skipped"]

    (mail,) = got.mails
    assert mail["To"] == "platform@example.com, ada@example.com"
    assert mail["From"] == "airflow@example.com"
    assert mail["Subject"] == f"Kafka quotas, default on {DAY}: 1 new (1 critical)"
    body = mail.get_body(("html",))
    assert body is not None
    html = body.get_content()
    page = f"https://airflow.example.com/quota-audit/clusters/default/{DAY}"
    assert f'<a href="{page}">' in html
    assert "{{ 7*7 }}&lt;script&gt;alert(1)&lt;/script&gt;&lt;!channel&gt;&amp;&lt;@U1&gt;" in html
    assert "<script" not in html

    (slack,) = [body for path, _, body in got.posts if path == "/services/T0/B0/slack-secret"]
    *told, link = [block["text"] for block in slack["blocks"]]
    assert [text["type"] for text in told] == ["plain_text"]
    assert HOSTILE in told[0]["text"]
    assert link == {"type": "mrkdwn", "text": f"<{page}|The audit>"}
    assert slack["text"] == mail["Subject"]

    ((_, headers, message),) = [post for post in got.posts if post[0] == "/hook"]
    assert headers["Authorization"] == "Bearer webhook-secret"
    assert headers["Content-Type"] == "application/json"
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(message)
    assert (message["kind"], message["url"]) == ("news", page)
    assert message["news"]["problems"][0]["quota_client_id"] == HOSTILE
    assert len(got.posts) == 2

    said = run.log + fake_steps.journal.read_text()
    assert [secret for secret in SECRETS if secret in said] == []


def test_a_run_with_bad_data_stays_red_and_says_so_once(
    migrated_home: Path, tmp_path: Path, fake_steps: FakeSteps, got: Receivers
) -> None:
    settings = got.environment("webhook", base_url="https://airflow.example.com")
    bad = {
        "FAKE_STEPS_EXIT": '{"validate": 1}',
        "FAKE_STEPS_SAYS": "error: The data is bad: 1 critical rule broken.\n"
        f"- requests breaks unique_ids: user={HOSTILE}\nDetails: judged.json",
    }
    run = run_of(published(tmp_path / "wh"), migrated_home, fake_steps, **settings, **bad)
    assert run.state == "failed"
    assert run.states("validate_ingested", PUBLISHES, "alert_news", "alert_failure") == [
        *["failed", "upstream_failed", "upstream_failed", "success"]
    ]
    ((_, _, message),) = got.posts
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(message)
    assert message["subject"].endswith(": the audit failed at validate_ingested")
    assert message["failure"] == {
        "step": "validate_ingested",
        "exit_code": 1,
        "reason": "The data is bad: 1 critical rule broken.\n"
        f"- requests breaks unique_ids: user={HOSTILE}\nDetails: judged.json",
    }
    assert message["failure"]["reason"] in message["text"]
    assert message["url"].startswith("https://airflow.example.com/dags/quota_audit_daily/runs/")
    assert message["url"].endswith("/tasks/validate_ingested")
    assert [call[0] for call in fake_steps.calls()] == ["ingest", "validate"]


def test_what_could_not_be_sent_is_tried_again_and_nothing_else_is(
    migrated_home: Path, tmp_path: Path, fake_steps: FakeSteps, got: Receivers
) -> None:
    got.answers += [500]
    run = run_of(
        published(tmp_path / "wh"), migrated_home, fake_steps, **got.environment("mail", "webhook")
    )
    assert run.state == "success", run.log[-3000:]
    assert run.tasks["alert_news"] == ["success", 2]
    assert len(got.mails) == 1
    assert len(got.posts) == 2
    assert "Not sent by webhook (" in run.log


def test_a_message_that_nobody_takes_is_a_red_task_of_a_published_audit(
    migrated_home: Path, tmp_path: Path, fake_steps: FakeSteps, got: Receivers
) -> None:
    got.answers += [500] * 4
    run = run_of(
        published(tmp_path / "wh"), migrated_home, fake_steps, **got.environment("webhook")
    )
    assert run.state == "failed"
    assert run.tasks["alert_news"] == ["failed", 4]
    assert run.states(*STEPS) == ["success"] * len(STEPS)
    assert run.states("alert_failure") == ["skipped"]
    report = tmp_path / "wh" / "reports" / "cluster=default" / f"date={DAY}" / "report.html"
    assert report.is_file()


def test_without_anybody_to_tell_the_dag_has_no_such_tasks(bag: Any) -> None:
    assert list(bag.dags["quota_audit_daily"].task_dict) == list(STEPS)
