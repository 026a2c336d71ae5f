from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main

from quota_dags.process import TaskTerms
from quota_dags.steps import (
    PUBLISHES,
    DailyAudit,
    audit_of_context,
    audited_day,
    step_arguments,
)
from spark_jobs.cli import app as cli
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.pipeline import STEPS

AUDIT = DailyAudit("/logs", "/wh", "east", dt.date(2026, 11, 20), "Europe/Berlin", "4.1.0")
SCOPE = ["--warehouse", "/wh", "--cluster", "east", "--day", "2026-11-20"]
RUN_AFTER = dt.datetime(2026, 11, 21, 0, 30, tzinfo=dt.UTC)
RUN = SimpleNamespace(run_after=RUN_AFTER)
SETTINGS = DailyAuditSettings(archive=Path("/logs"), warehouse=Path("/wh"))


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


TERMS = TaskTerms(print, FinalError, FinalError)
MIDNIGHT = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)


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
    assert step_arguments(task_id, AUDIT) == [*arguments, *SCOPE]


def test_the_ingest_is_told_the_archive_its_time_zone_and_the_version_too() -> None:
    assert step_arguments("ingest_requests", AUDIT) == [
        *["ingest", "/logs", *SCOPE],
        *["--timezone", "Europe/Berlin", "--broker-version", "4.1.0"],
    ]


def test_no_version_is_passed_where_it_has_to_be_found_out() -> None:
    command = step_arguments("ingest_requests", replace(AUDIT, broker_version=None))
    assert "--broker-version" not in command


@pytest.mark.parametrize("task_id", STEPS)
def test_the_command_line_understands_every_step(task_id: str) -> None:
    name, *arguments = step_arguments(task_id, AUDIT)
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
    context = {"params": params, "data_interval_start": MIDNIGHT, "dag_run": RUN}
    assert audit_of_context(context, SETTINGS, TERMS) == AUDIT
    without = {"params": {**params, "broker_version": ""}, "dag_run": RUN}
    assert audit_of_context(without, SETTINGS, TERMS).broker_version is None
    for place in ("archive", "warehouse"):
        elsewhere = context | {"params": {**params, place: "/etc"}}
        with pytest.raises(FinalError, match=rf"^The form's {place} is '/etc', and the settings"):
            audit_of_context(elsewhere, SETTINGS, TERMS)
