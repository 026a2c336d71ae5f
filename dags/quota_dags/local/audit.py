"""`make audit`: the daily DAG over an archive with `airflow dags test`, no server needed."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from zoneinfo import available_timezones

import typer
from rich.console import Console

from quota_dags.forms import VERSION_PATTERN
from quota_dags.local.airflow_home import (
    DAG_ID,
    airflow_command,
    airflow_environment,
    find_project,
    prepare_home,
    run_app,
)
from quota_dags.process import default_launcher, run_process
from quota_dags.steps import DailyAudit
from spark_jobs.errors import AuditFailedError, BadInputError, QuotaAuditError
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.days import later_day
from spark_jobs.warehouse.storage import CLUSTER_PATTERN, storage_path
from spark_jobs.wording.progress import EVENTS_FILE, EventFile, StepProgress

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_SMALL_ARCHIVE_BYTES = 16 << 20
# Each step starts a JVM: on a small archive compiling well would take longer than it saves.
_QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CONSOLE = Console(soft_wrap=True, highlight=False)
_DAY = re.compile(r"^\d{4}-\d{2}-\d{2}$")
# Longer than the grace of the step inside it, or Airflow is killed before it has ended the step.
_DAG_RUN_GRACE_S = 10.0
_AIRFLOW_LINES = 30


@app.callback()
def local() -> None:
    """Run the daily audit's DAG without an Airflow server."""


@app.command()
def audit(
    archive: Annotated[
        str | None,
        typer.Option(help="Archive folder [default: examples/capture].", metavar="PLACE"),
    ] = None,
    warehouse: Annotated[
        str | None,
        typer.Option(help="Folder of the tables [default: artifacts/warehouse].", metavar="PLACE"),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster name [default: default].")] = None,
    day: Annotated[
        dt.datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Day [default: every day in the archive]."),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Time zone of the log lines [default: UTC].")
    ] = None,
    broker_version: Annotated[
        str | None, typer.Option(help="As 4.1.0 or 1=3.7.2,2=4.1.0 [default: found out].")
    ] = None,
    home: Annotated[Path, typer.Option(help="Airflow's folder.")] = Path(".airflow"),
    project: Annotated[Path, typer.Option(help="Folder with dags/ and plugins/.")] = Path("."),
) -> None:
    """Audit every day of an archive by the daily DAG; exit code of the step that failed."""
    if timezone is not None and timezone not in available_timezones():
        raise BadInputError(f"timezone {timezone!r} does not read like Europe/Berlin")
    given = {
        "archive": archive,
        "warehouse": warehouse,
        "cluster": cluster,
        "timezone": timezone,
        "broker_version": broker_version,
    }
    settings = DailyAuditSettings(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
    check_wording(settings)
    env = airflow_environment(home, find_project(project))
    # What is named here is allowed to the DAG's form.
    env["QUOTA_AUDIT_ARCHIVE"] = str(settings.archive)
    env["QUOTA_AUDIT_WAREHOUSE"] = str(settings.warehouse)
    files = (path for path in settings.archive.rglob("*") if path.is_file())
    if sum(path.stat().st_size for path in files) <= _SMALL_ARCHIVE_BYTES:
        env.setdefault("QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS", _QUICK_JVM)
    # Reading the archive's days takes as long as migrating the database: do both at once.
    with ThreadPoolExecutor(1) as background:
        migration = background.submit(prepare_home, home, env)
        with _CONSOLE.status("preparing Airflow and reading the archive's days"):
            days = [day.date()] if day else archive_days(settings)
            migration.result()
    audits = [audit_of_day(settings, found) for found in days]
    for one in audits:
        audit_day(one, env, home)
    for one in audits:
        show_result(one, settings.launcher)
    plural = "" if len(audits) == 1 else "s"
    reports = settings.warehouse / "reports" / f"cluster={settings.cluster}"
    _CONSOLE.print(f"audited {len(audits)} day{plural} of {settings.cluster}: {reports}")


def check_wording(settings: DailyAuditSettings) -> None:
    """Raise BadInputError for what the DAG's form would refuse, before Airflow is started."""
    for name, value, pattern, example in (
        ("cluster", settings.cluster, CLUSTER_PATTERN, "east-1"),
        ("broker_version", settings.broker_version, VERSION_PATTERN, "4.1.0 or 1=3.7.2,2=4.1.0"),
    ):
        if not re.search(pattern, value):
            raise BadInputError(f"{name} {value!r} does not read like {example}")


def audit_of_day(settings: DailyAuditSettings, day: dt.date) -> DailyAudit:
    """Return the audit of ``day`` by a run of the DAG."""
    return DailyAudit(
        archive=str(settings.archive),
        warehouse=str(settings.warehouse),
        cluster=settings.cluster,
        day=day,
        timezone=settings.timezone,
        broker_version=settings.broker_version or None,
    )


def archive_days(settings: DailyAuditSettings) -> list[dt.date]:
    """Return the UTC days of an archive's log lines, in order.

    Raises BadInputError where the archive cannot be used, AuditFailedError where reading broke.
    """
    launcher = settings.launcher or default_launcher()
    scope = ["--cluster", settings.cluster, "--timezone", settings.timezone]
    lines: list[str] = []
    result = run_process([*launcher, "days", str(settings.archive), *scope], lines.append)
    if result.exit_code != 0:
        raise _error(result.exit_code)(result.last_line.removeprefix("error: "))
    days = [dt.date.fromisoformat(line) for line in lines if _DAY.match(line)]
    if not days:
        raise BadInputError(
            f"{settings.archive} holds no line of a request log with a time: expected "
            "broker=<id>/…/kafka-request.log* with lines like `[2026-11-21 02:40:01,123] DEBUG …`."
        )
    return days


def dags_test_command(audit: DailyAudit) -> list[str]:
    """Return the command that runs the DAG for one day.

    ``airflow dags test`` takes the interval that *ends* at its date, hence the day after; the
    param ``day`` says the same without arithmetic, and wins.
    """
    conf = asdict(audit) | {"day": audit.day.isoformat()}
    logical_date = later_day(audit.day, 1)
    return airflow_command("dags", "test", DAG_ID, str(logical_date), "-c", json.dumps(conf))


def audit_day(audit: DailyAudit, env: dict[str, str], home: Path) -> None:
    """Run the DAG for one day, showing its steps; raises AuditFailedError or BadInputError."""
    log = home / f"audit-{audit.cluster}-{audit.day}.log"
    _CONSOLE.print(f"[bold]auditing {audit.day} of {audit.cluster}[/bold] (log: {log})")
    said_by_airflow: deque[str] = deque(maxlen=_AIRFLOW_LINES)
    with (
        log.open("w", encoding="utf-8") as out,
        TemporaryDirectory(prefix="quota-audit-events-") as folder,
        StepProgress(_CONSOLE) as progress,
    ):
        path = Path(folder) / "events.jsonl"
        events = EventFile(path)
        progress.wait_for("starting Airflow")

        def show_news() -> None:
            for event in events.news():
                progress.tell(event)

        def on_line(line: str) -> None:
            print(line, file=out, flush=True)
            said_by_airflow.append(line)
            show_news()

        env = {**env, EVENTS_FILE: str(path)}
        result = run_process(dags_test_command(audit), on_line, env, grace_s=_DAG_RUN_GRACE_S)
        # A step may have ended after the last line of the run.
        show_news()
    if result.exit_code == 0:
        return
    failed = progress.failed
    last_lines = progress.recent_lines() if failed else said_by_airflow
    _CONSOLE.print("\n".join(last_lines), markup=False, style="dim")
    where = f"step {failed.step}" if failed else "the DAG run"
    raise _error(failed.exit_code if failed else None)(
        f"{where} failed on {audit.day} of {audit.cluster}: {progress.last_sentence}. "
        f"The whole log is {log}."
    )


def show_result(audit: DailyAudit, launcher: Sequence[str] = ()) -> None:
    """Print the summary of an audited day, which says where its report is.

    Raises AuditFailedError where the summary cannot be made or the report is missing.
    """
    command = [*(launcher or default_launcher()), "summary", *audit.scope_arguments()]
    result = run_process(command, print)
    if result.exit_code != 0:
        raise _error(result.exit_code)(f"no summary of {audit.day}: {result.last_line}")
    reports = storage_path(audit.warehouse) / "reports"
    report = reports / f"cluster={audit.cluster}" / f"date={audit.day}" / "report.html"
    if not report.is_file():
        raise AuditFailedError(f"the audit of {audit.day} left no report at {report}")


def _error(exit_code: int | None) -> type[QuotaAuditError]:
    return BadInputError if exit_code == BadInputError.exit_code else AuditFailedError


def main() -> None:
    """Run the command line; exit codes as those of ``quota-audit``."""
    run_app(app)


if __name__ == "__main__":
    main()
