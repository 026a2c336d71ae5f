from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quota_dags.alerts import (
    FAILURE,
    NEWS,
    UNSEEN,
    alert,
    failed_run_message,
    news_message,
)
from quota_dags.process import TaskTerms
from quota_dags.steps import FAILURE_KEY, DailyAudit
from spark_jobs.settings import AlertSettings
from tests.builders.tables_builder import DAY, row, scope_in, write_rows


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


class Skipped(Exception):
    """Stands for Airflow's exception that ends a task as skipped."""


def audit_in(warehouse: Path, *severities: str) -> DailyAudit:
    found = [
        row("findings", severity=severity, quota_user=severity, finding_id=f"f-{severity}")
        for severity in severities
    ]
    write_rows(scope_in(warehouse), "findings", found)
    return DailyAudit("/logs", str(warehouse), "default", DAY, "UTC", None)


TERMS = TaskTerms(lambda line: None, FinalError, Skipped)
SETTINGS = AlertSettings()


class Task:
    """Stands for Airflow's task instance: what it says of a run's steps."""

    dag_id = "quota_audit_daily"

    def __init__(self, states: dict[str, str], ended: dict[str, Any] | None = None) -> None:
        self._states, self._ended = states, ended

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str]]:
        assert dag_id == self.dag_id
        return {run_ids[0]: self._states}

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert key == FAILURE_KEY
        return self._ended if self._states[task_ids] == "failed" else None


@pytest.mark.parametrize(
    ("level", "severities", "is_told"),
    [
        ("critical", ["critical", "warning"], True),
        ("critical", ["warning", "info"], False),
        ("warning", ["warning", "info"], True),
        ("warning", ["info"], False),
        ("warning", [], False),
    ],
)
def test_what_is_new_is_told_from_the_severity_that_the_setting_names(
    level: str, severities: list[str], is_told: bool, tmp_path: Path
) -> None:
    audit = audit_in(tmp_path, *severities)
    if is_told:
        message = news_message(audit, "run", TERMS, AlertSettings(level=level))
        assert message.news is not None
        assert [problem.quota_user for problem in message.news.problems] == severities
        assert message.text == message.news.text
    else:
        with pytest.raises(Skipped, match=f"nothing to tell: nothing new or worse is {level}"):
            news_message(audit, "run", TERMS, AlertSettings(level=level))


def test_a_day_that_was_not_published_is_no_news(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "default", DAY, "UTC", None)
    with pytest.raises(FinalError, match="holds no audited day of cluster 'default'"):
        news_message(audit, "run", TERMS, SETTINGS)


def test_a_link_leads_to_the_audit_s_page_where_the_setting_says_where_people_reach_it(
    tmp_path: Path,
) -> None:
    audit = audit_in(tmp_path, "critical")
    assert news_message(audit, "run", TERMS, SETTINGS).url is None
    page = news_message(
        audit, "run", TERMS, AlertSettings(base_url="https://a.example/airflow/")
    ).url
    assert page == f"https://a.example/airflow/quota-audit/clusters/default/{DAY}"


def test_a_failed_run_s_message_names_the_step_its_exit_code_and_its_reason(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "east", DAY, "UTC", None)
    ended = {"exit_code": 1, "reason": "The data is bad.\n- requests breaks unique_ids"}
    states = {"ingest_requests": "success", "validate_ingested": "failed",
              "resolve_quotas": "upstream_failed"}  # fmt: skip
    message = failed_run_message(
        audit, Task(states, ended), "manual__1+2", TERMS, AlertSettings(base_url="http://a")
    )
    assert message.failure is not None
    assert (message.failure.step, message.failure.exit_code) == ("validate_ingested", 1)
    assert message.text == (
        f"Kafka quotas, east on {DAY}: the audit failed at validate_ingested\n"
        "The step ended with exit code 1. Nothing of this run was published: what readers see is "
        "as it was before.\n\nThe data is bad.\n- requests breaks unique_ids\n"
    )
    assert message.url == (
        "http://a/dags/quota_audit_daily/runs/manual__1%2B2/tasks/validate_ingested"
    )


def test_a_step_that_was_killed_is_told_too(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "east", DAY, "UTC", None)
    message = failed_run_message(
        audit, Task({"replay_quotas": "failed"}), "run", TERMS, AlertSettings()
    )
    assert message.failure is not None
    assert (message.failure.exit_code, message.failure.reason) == (None, UNSEEN)
    assert "exit code" not in message.text


def test_an_endless_reason_is_cut_and_says_so(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "east", DAY, "UTC", None)
    ended = {"exit_code": 1, "reason": "\n".join(["x" * 5000] * 40)}
    message = failed_run_message(
        audit, Task({"replay_quotas": "failed"}, ended), "run", TERMS, AlertSettings()
    )
    assert message.failure is not None
    lines = message.failure.reason.splitlines()
    assert lines[-1] == "… and 10 lines more in its log"
    assert max(map(len, lines)) < 700


def test_a_run_that_was_mended_meanwhile_is_no_failure(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "east", DAY, "UTC", None)
    with pytest.raises(Skipped, match="no step of this run is failed any more"):
        failed_run_message(audit, Task({"replay_quotas": "success"}), "run", TERMS, SETTINGS)


def test_a_task_that_is_cleared_tells_the_same_no_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def notifier(channel: str, arguments: dict[str, Any]) -> Any:
        return lambda context: sent.append(channel)

    monkeypatch.setattr("quota_dags.alerts.provider_notifier", notifier)
    audit = audit_in(tmp_path, "critical")
    kept: dict[str, Any] = {}
    store = type(
        "Store", (), {"get": staticmethod(kept.get), "set": staticmethod(kept.__setitem__)}
    )
    context = {"run_id": "run", "ti": Task({}), "task_state_store": store}
    own = AlertSettings(webhook_connection="hook")
    assert alert(NEWS, audit, context, TERMS, own).endswith("1 new (1 critical)")
    with pytest.raises(Skipped, match="this run has told it before: Kafka quotas"):
        alert(NEWS, audit, context, TERMS, own)
    assert sent == ["webhook"]
    failed = context | {"ti": Task({"replay_quotas": "failed"})}
    assert alert(FAILURE, audit, failed, TERMS, own).endswith("failed at replay_quotas")


def test_the_news_are_asked_for_by_the_launcher_of_the_other_steps(tmp_path: Path) -> None:
    asked = tmp_path / "asked.json"
    code = f"import json, sys; json.dump(sys.argv[1:], open({str(asked)!r}, 'w')); sys.exit(2)"
    audit = DailyAudit("/logs", "/wh", "east", DAY, "UTC", None)
    launcher = (sys.executable, "-S", "-c", code)
    own = replace(TERMS, launcher=launcher)
    with pytest.raises(FinalError):
        news_message(audit, "run", own, AlertSettings())
    assert json.loads(asked.read_text()) == ["news", *audit.scope_arguments(), "--json"]
