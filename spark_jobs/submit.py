"""The audit's steps as command lines, for whoever runs them one by one: the daily DAG."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from spark_jobs.step_process import run_process

STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": ("ingest",),
        "validate_ingested": ("validate", "ingested"),
        "resolve_quotas": ("resolve",),
        "replay_quotas": ("replay",),
        "validate_replayed": ("validate", "replayed"),
        "judge_decisions": ("judge",),
        "recommend_quotas": ("recommend",),
        "validate_judged": ("validate", "judged"),
        "publish_report": ("publish",),
    }
)
"""Task id → what follows ``quota-audit``, in the order the tasks run."""

ASSETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "replay_quotas": ("quota_decisions", "decisions"),
        "judge_decisions": ("quota_findings", "findings"),
        "recommend_quotas": ("quota_recommendations", "recommendations"),
        "publish_report": ("quota_report", "reports"),
    }
)
"""Task id → the asset it renews: Airflow's name of it, and its folder in the warehouse."""

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
TIMEZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+/-]*$"
VERSION_PATTERN = r"^(\d+(\.\d+){1,3}|\d+=\d+(\.\d+){1,3}(,\d+=\d+(\.\d+){1,3})*)?$"

# Exit codes of the command line that another attempt cannot change: the audit or the data
# failed (1), the input is wrong (2). Everything else (out of memory, killed) is worth a retry.
FINAL_EXIT_CODES = frozenset({1, 2})


class StepCrashedError(RuntimeError):
    """A step ended neither well nor with a judgement: killed, or an error of ours."""


@dataclass(frozen=True, slots=True)
class DailyAudit:
    """One day of one cluster to audit; ``broker_version`` None = found out by the ingest."""

    archive: str
    warehouse: str
    cluster: str
    day: dt.date
    timezone: str
    broker_version: str | None

    def scope_arguments(self) -> list[str]:
        """Return the options that every step takes."""
        return [
            "--warehouse", self.warehouse, "--cluster", self.cluster, "--day", self.day.isoformat()
        ]  # fmt: skip

    def ingest_arguments(self) -> list[str]:
        """Return the options that only the ingest takes."""
        version = ["--broker-version", self.broker_version] if self.broker_version else []
        return ["--timezone", self.timezone, *version]


def default_launcher() -> tuple[str, ...]:
    """Return the command line's own command: this interpreter, this package."""
    return (sys.executable, "-m", "spark_jobs.cli")


def step_command(task_id: str, audit: DailyAudit, launcher: Sequence[str] = ()) -> list[str]:
    """Return the command of a step as a list of arguments; no shell ever sees it.

    >>> audit = DailyAudit("logs", "wh", "east", dt.date(2026, 11, 20), "UTC", None)
    >>> step_command("validate_replayed", audit, ["quota-audit"])[:4]
    ['quota-audit', 'validate', 'replayed', '--warehouse']
    """
    command = [*(launcher or default_launcher()), *STEPS[task_id]]
    if task_id == "ingest_requests":
        return [*command, audit.archive, *audit.scope_arguments(), *audit.ingest_arguments()]
    return [*command, *audit.scope_arguments()]


def audited_day(
    day: str | None, interval_start: dt.datetime | None, run_after: dt.datetime
) -> dt.date:
    """Return the UTC day a run audits.

    The run's own ``day`` wins; else the day its data interval starts on; else, for a run without
    a logical date (triggered with ``logical_date: null``), the last full day before ``run_after``.

    >>> audited_day(None, None, dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC))
    datetime.date(2026, 11, 20)
    """
    if day:
        return dt.date.fromisoformat(day)
    if interval_start is not None:
        return interval_start.astimezone(dt.UTC).date()
    return run_after.astimezone(dt.UTC).date() - dt.timedelta(days=1)


def audit_of_run(
    params: Mapping[str, str | None],
    interval_start: dt.datetime | None,
    run_after: dt.datetime,
) -> DailyAudit:
    """Return what a DAG run audits, from its params and its times."""
    return DailyAudit(
        archive=_text(params, "archive"),
        warehouse=_text(params, "warehouse"),
        cluster=_text(params, "cluster"),
        day=audited_day(params.get("day"), interval_start, run_after),
        timezone=_text(params, "timezone"),
        broker_version=params.get("broker_version") or None,
    )


def run_step(
    task_id: str,
    audit: DailyAudit,
    log: Callable[[str], None],
    final_error: type[Exception],
    launcher: Sequence[str] = (),
) -> str:
    """Run a step as a process of its own and return its last line.

    Raises ``final_error`` with the last line where another attempt cannot help (exit code 1 or
    2), StepCrashedError for any other exit code, TerminatedError when told to end.
    """
    command = step_command(task_id, audit, launcher)
    log(f"step {task_id} of {audit.day} started: {shlex.join(command)}")
    result = run_process(command, log)
    if result.exit_code == 0:
        log(f"step {task_id} finished in {result.seconds:.1f} s")
        return result.last_line
    log(f"step {task_id} failed with exit code {result.exit_code} in {result.seconds:.1f} s")
    if result.exit_code in FINAL_EXIT_CODES:
        raise final_error(result.last_line or f"step {task_id} failed and said nothing")
    raise StepCrashedError(
        f"step {task_id} ended with {_ending(result.exit_code)}; its last line: "
        f"{result.last_line or 'none'}. The task's log has the rest."
    )


def asset_uri(warehouse: PurePath, table: str) -> str:
    """Return the address under which Airflow knows a table or folder of the warehouse."""
    return (warehouse / table).as_uri()


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def _text(params: Mapping[str, str | None], name: str) -> str:
    value = params.get(name)
    assert value, f"the DAG's schema lets no run start without {name}"
    return value
