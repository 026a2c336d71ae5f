from __future__ import annotations

import datetime as dt
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine

from quota_dags.local.airflow_home import airflow_environment, find_project, prepare_home
from quota_dags.local.audit import (
    archive_days,
    audit,
    check_wording,
    dags_test_command,
    show_result,
)
from quota_dags.steps import DailyAudit
from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.pipeline import STEPS
from tests.endurance.living_processes import living

if TYPE_CHECKING:
    from tests.conftest import FakeSteps

ROOT = Path(__file__).parents[4]
AUDIT = DailyAudit("/logs", "/wh", "east", dt.date(2026, 11, 30), "Europe/Berlin", None)


def says(code: str) -> DailyAuditSettings:
    return DailyAuditSettings(launcher=(sys.executable, "-S", "-c", code))


def test_a_run_ends_the_day_after_and_is_told_the_day_itself() -> None:
    command = dags_test_command(AUDIT)
    assert command[:6] == [
        *[sys.executable, "-m", "airflow", "dags", "test", "quota_audit_daily"],
    ]
    assert command[6:8] == ["2026-12-01", "-c"]
    assert json.loads(command[8]) == {
        "day": "2026-11-30",
        "archive": "/logs",
        "warehouse": "/wh",
        "cluster": "east",
        "timezone": "Europe/Berlin",
        "broker_version": None,
    }


def test_the_last_day_of_the_calendar_has_none_after_it() -> None:
    assert "9999-12-31" in dags_test_command(replace(AUDIT, day=dt.date.max))


def test_the_days_of_an_archive_are_those_the_command_line_prints() -> None:
    settings = says("print('reading'); print('2026-11-10'); print('2026-11-11')")
    assert archive_days(settings) == [dt.date(2026, 11, 10), dt.date(2026, 11, 11)]


def test_an_archive_without_a_day_is_an_error_not_an_empty_audit() -> None:
    with pytest.raises(BadInputError, match="holds no line of a request log"):
        archive_days(says("print('nothing here')"))


@pytest.mark.parametrize(("exit_code", "error"), [(2, BadInputError), (1, AuditFailedError)])
def test_an_archive_that_cannot_be_read_fails_with_the_words_of_the_command_line(
    exit_code: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^no request log found$"):
        archive_days(says(f"print('error: no request log found'); raise SystemExit({exit_code})"))


@pytest.mark.parametrize("zone", ["--day", "Mars/Phobos", ""])
def test_a_time_zone_that_there_is_not_is_refused_before_airflow_starts(zone: str) -> None:
    with pytest.raises(BadInputError, match=f"timezone '{zone}' does not read like Europe/Berlin"):
        audit(timezone=zone)


@pytest.mark.parametrize("wrong", [{"cluster": "../x"}, {"broker_version": "latest"}])
def test_what_the_form_would_refuse_is_refused_before_airflow_starts(wrong: dict[str, str]) -> None:
    check_wording(DailyAuditSettings())
    with pytest.raises(BadInputError, match=next(iter(wrong))):
        check_wording(DailyAuditSettings(**wrong))


def test_a_summary_that_fails_and_a_missing_report_fail_the_audit(tmp_path: Path) -> None:
    audit = DailyAudit("/logs", str(tmp_path), "east", AUDIT.day, "UTC", None)
    with pytest.raises(AuditFailedError, match="no summary of 2026-11-30: table gone"):
        show_result(audit, says("print('table gone'); raise SystemExit(1)").launcher)
    with pytest.raises(AuditFailedError, match="left no report at"):
        show_result(audit, says("print('fine')").launcher)


def test_an_inherited_airflow_is_never_touched(tmp_path: Path) -> None:
    inherited = {"AIRFLOW_HOME": "/other", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "x", "PATH": "/p"}
    env = airflow_environment(tmp_path, ROOT, inherited)
    assert env["AIRFLOW_HOME"] == str(tmp_path)
    database = f"sqlite:///{tmp_path}/airflow.db"
    assert env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].partition("?")[0] == database
    assert env["PYSPARK_PYTHON"] == sys.executable
    assert env["PATH"] == "/p"


def test_who_finds_the_trial_run_s_database_locked_waits_a_minute(tmp_path: Path) -> None:
    address = airflow_environment(tmp_path, ROOT, {})["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with create_engine(address).connect() as database:
        assert database.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 60_000


def test_connections_of_the_environment_are_those_of_the_trial_run_too(tmp_path: Path) -> None:
    inherited = {"AIRFLOW_CONN_QUOTA_WEBHOOK": "{}", "AIRFLOW__CORE__FERNET_KEY": "x"}
    env = airflow_environment(tmp_path, ROOT, inherited)
    assert env["AIRFLOW_CONN_QUOTA_WEBHOOK"] == "{}"
    assert "AIRFLOW__CORE__FERNET_KEY" not in env


def test_a_folder_without_the_dag_is_named_with_what_to_do(tmp_path: Path) -> None:
    assert find_project(ROOT) == ROOT.absolute()
    with pytest.raises(BadInputError, match=r"has no dags/quota_audit_daily.py: run this in"):
        find_project(tmp_path)


@pytest.mark.airflow
def test_a_second_run_migrates_nothing_and_the_folder_is_its_owners_alone(
    migrated_home: Path,
) -> None:
    env = airflow_environment(migrated_home, ROOT)
    assert prepare_home(migrated_home, env) is False
    assert stat.S_IMODE(migrated_home.stat().st_mode) == 0o700


def audit_command(home: Path, warehouse: Path, *more: str) -> list[str]:
    return [
        *[sys.executable, "-m", "quota_dags.local.audit", "audit", "--home", str(home)],
        *["--archive", "/logs", "--warehouse", str(warehouse), "--cluster", "east", *more],
    ]


@pytest.mark.airflow
def test_an_audit_runs_every_step_of_every_day_and_says_where_the_report_is(
    migrated_home: Path, fake_steps: FakeSteps, tmp_path: Path
) -> None:
    done = subprocess.run(
        audit_command(migrated_home, tmp_path, "--broker-version", "4.1.0"),
        cwd=ROOT, env={**os.environ, **fake_steps.env}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    ticked = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("✓")]
    assert ticked == list(STEPS)
    reports = tmp_path / "reports" / "cluster=east"
    assert (reports / "date=2026-11-10" / "report.html").is_file()
    last = ["summary went well", f"audited 1 day of east: {reports}"]
    assert done.stdout.splitlines()[-2:] == last
    scope = ["--warehouse", str(tmp_path), "--cluster", "east", "--day", "2026-11-10"]
    calls = fake_steps.calls()
    assert calls[0] == ["days", "/logs", "--cluster", "east", "--timezone", "UTC"]
    ingest = ["ingest", "/logs", *scope, "--timezone", "UTC", "--broker-version", "4.1.0"]
    assert calls[1] == ingest
    later = [*(step.command for step in STEPS.values()), ("summary",)][1:]
    archive = {("judge",): ["--archive", "/logs"]}  # exports of metrics lie there
    assert calls[2:] == [[*step, *archive.get(tuple(step), []), *scope] for step in later]


@pytest.mark.airflow
def test_a_failed_step_gives_the_audit_its_exit_code_and_its_words(
    migrated_home: Path, fake_steps: FakeSteps, tmp_path: Path
) -> None:
    # 2, because Airflow itself ends with 1 whatever failed.
    env = {**os.environ, **fake_steps.env, "FAKE_STEPS_EXIT": json.dumps({"ingest": 2})}
    done = subprocess.run(
        audit_command(migrated_home, tmp_path, "--day", "2026-11-12"),
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    said = "error: [fake] ingest ends with 2"
    assert f"error: step ingest_requests failed on 2026-11-12 of east: {said}" in done.stderr
    assert "✗ ingest_requests" in done.stdout
    assert len(fake_steps.calls()) == 1, "neither tried again nor gone on"


@pytest.mark.airflow
def test_ctrl_c_ends_the_running_step_and_all_it_started(
    migrated_home: Path, fake_steps: FakeSteps, tmp_path: Path
) -> None:
    env = {**os.environ, **fake_steps.env, "FAKE_STEPS_HANG": "ingest"}
    with subprocess.Popen(
        audit_command(migrated_home, tmp_path, "--day", "2026-11-14"), cwd=ROOT, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
        # Of what a shell has put into the background it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as audit:  # fmt: skip
        while not fake_steps.hanging():
            assert audit.poll() is None, "the audit ended before its first step ran"
            time.sleep(0.1)
        audit.send_signal(signal.SIGINT)
        said, _ = audit.communicate()
    assert audit.returncode != 0, said
    assert living(fake_steps.hanging()[0]) == []
