from __future__ import annotations

import datetime as dt
import re
import sys
from dataclasses import replace

import pytest
import typer.main

from quota_dags.process import StepCrashedError, default_launcher
from quota_dags.steps import (
    PUBLISHES,
    DailyAudit,
    audit_of_run,
    audited_day,
    run_step,
    step_command,
)
from spark_jobs.cli import app as cli
from spark_jobs.warehouse.pipeline import STEPS

AUDIT = DailyAudit("/logs", "/wh", "east", dt.date(2026, 11, 20), "Europe/Berlin", "4.1.0")
SCOPE = ["--warehouse", "/wh", "--cluster", "east", "--day", "2026-11-20"]
RUN_AFTER = dt.datetime(2026, 11, 21, 0, 30, tzinfo=dt.UTC)
MIDNIGHT = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


def python(code: str) -> list[str]:
    # What comes after the code is the step's own arguments, which the code may ignore.
    return [sys.executable, "-S", "-c", code]


def test_the_tasks_run_in_this_order() -> None:
    assert list(STEPS) == [
        "ingest_requests",
        "validate_ingested",
        "resolve_quotas",
        "replay_quotas",
        "validate_replayed",
        "judge_decisions",
        "recommend_quotas",
        "validate_judged",
        "publish_report",
    ]
    assert list(STEPS)[-1] == PUBLISHES


def test_an_asset_s_event_says_where_the_audit_s_tables_are() -> None:
    assert AUDIT.scope() == {"cluster": "east", "day": "2026-11-20", "warehouse": "/wh"}


@pytest.mark.parametrize(
    ("task_id", "arguments"),
    [
        ("validate_ingested", ["validate", "ingested"]),
        ("resolve_quotas", ["resolve"]),
        ("replay_quotas", ["replay"]),
        ("validate_replayed", ["validate", "replayed"]),
        ("judge_decisions", ["judge", "--archive", "/logs"]),
        ("recommend_quotas", ["recommend"]),
        ("validate_judged", ["validate", "judged"]),
        ("publish_report", ["publish"]),
    ],
)
def test_a_step_after_the_ingest_is_told_warehouse_cluster_and_day(
    task_id: str, arguments: list[str]
) -> None:
    assert step_command(task_id, AUDIT, ["quota-audit"]) == ["quota-audit", *arguments, *SCOPE]


def test_the_ingest_is_told_the_archive_its_time_zone_and_the_version_too() -> None:
    assert step_command("ingest_requests", AUDIT, ["quota-audit"]) == [
        *["quota-audit", "ingest", "/logs", *SCOPE],
        *["--timezone", "Europe/Berlin", "--broker-version", "4.1.0"],
    ]


def test_no_version_is_passed_where_it_has_to_be_found_out() -> None:
    command = step_command("ingest_requests", replace(AUDIT, broker_version=None))
    assert "--broker-version" not in command


def test_a_step_runs_on_this_interpreter_unless_told_otherwise() -> None:
    launcher = (sys.executable, "-m", "spark_jobs.cli")
    assert default_launcher() == launcher
    assert tuple(step_command("resolve_quotas", AUDIT)[:3]) == launcher


@pytest.mark.parametrize("task_id", STEPS)
def test_the_command_line_understands_every_step(task_id: str) -> None:
    name, *arguments = step_command(task_id, AUDIT)[len(default_launcher()) :]
    command = typer.main.get_command(cli.app).commands[name]
    context = command.make_context(name, arguments)
    assert context.params["day"].date() == AUDIT.day
    assert context.params["cluster"] == AUDIT.cluster


@pytest.mark.parametrize(
    ("day", "interval_start", "expected"),
    [
        ("2026-10-01", MIDNIGHT, dt.date(2026, 10, 1)),
        (None, MIDNIGHT, dt.date(2026, 11, 20)),
        ("", MIDNIGHT, dt.date(2026, 11, 20)),
        (None, dt.datetime.fromisoformat("2026-11-20T01:00+02:00"), dt.date(2026, 11, 19)),
        (None, None, dt.date(2026, 11, 20)),
    ],
    ids=["own day first", "interval", "empty day", "interval in UTC", "no date: yesterday"],
)
def test_the_day_is_the_runs_own_else_its_intervals_else_yesterday(
    day: str | None, interval_start: dt.datetime | None, expected: dt.date
) -> None:
    assert audited_day(day, interval_start, RUN_AFTER) == expected


def test_a_day_that_is_no_date_is_refused() -> None:
    with pytest.raises(ValueError, match="month must be in"):
        audited_day("2026-13-01", None, RUN_AFTER)


def test_an_audit_is_what_the_form_says() -> None:
    params = {
        "archive": "/logs",
        "warehouse": "/wh",
        "cluster": "east",
        "timezone": "Europe/Berlin",
        "broker_version": "4.1.0",
        "day": None,
    }
    assert audit_of_run(params, MIDNIGHT, RUN_AFTER) == AUDIT
    assert audit_of_run({**params, "broker_version": ""}, None, RUN_AFTER).broker_version is None


def test_a_step_that_ends_well_returns_its_last_line_and_logs_its_command() -> None:
    log: list[str] = []
    code = "import sys; print('one'); print(sys.argv[1]); print()"
    assert run_step("resolve_quotas", AUDIT, log.append, FinalError, python(code)) == "resolve"
    assert log[0].startswith("step resolve_quotas of 2026-11-20 started: ")
    assert log[0].endswith("resolve " + " ".join(SCOPE))
    assert log[1:3] == ["one", "resolve"]
    assert re.fullmatch(r"step resolve_quotas finished in \d+\.\d s", log[-1])


@pytest.mark.parametrize("exit_code", [1, 2])
def test_a_failed_audit_and_a_bad_input_are_final_and_say_why(exit_code: int) -> None:
    log: list[str] = []
    code = f"import sys; print('so far'); sys.stderr.write('no such day\\n'); sys.exit({exit_code})"
    with pytest.raises(FinalError, match=r"^no such day$"):
        run_step("replay_quotas", AUDIT, log.append, FinalError, python(code))
    assert "no such day" in log
    assert f"failed with exit code {exit_code}" in log[-1]


def test_a_final_failure_without_a_word_names_the_step() -> None:
    with pytest.raises(FinalError, match="replay_quotas failed and said nothing"):
        run_step("replay_quotas", AUDIT, print, FinalError, python("import sys; sys.exit(1)"))


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("import sys; print('so far'); sys.exit(3)", "exit code 3"),
        ("import os; print('so far', flush=True); os.kill(os.getpid(), 9)", "signal 9"),
    ],
)
def test_a_crash_may_be_tried_again_and_says_how_it_ended(code: str, ending: str) -> None:
    with pytest.raises(StepCrashedError, match=f"{ending}; its last line: so far"):
        run_step("replay_quotas", AUDIT, print, FinalError, python(code))
