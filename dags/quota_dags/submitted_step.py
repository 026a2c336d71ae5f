"""A step of a DAG: a command line run to its end, and what its exit code means for the task."""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quota_dags.process import run_process

# Exit codes of the command line that another attempt cannot change: the audit or the data
# failed (1), the input is wrong (2). Everything else (out of memory, killed) is worth a retry.
FINAL_EXIT_CODES = frozenset({1, 2})
_ERROR = "error: "
_LINES_OF_AN_END = 40


class StepCrashedError(RuntimeError):
    """A step ended neither well nor with a judgement: killed, or an error of ours."""


def default_launcher() -> tuple[str, ...]:
    """Return the command line's own command: this interpreter, this package."""
    return (sys.executable, "-m", "spark_jobs.cli")


def ingest_arguments(timezone: str, broker_version: str | None) -> list[str]:
    """Return the options that only a command which ingests takes."""
    version = ["--broker-version", broker_version] if broker_version else []
    return ["--timezone", timezone, *version]


def run_submitted(
    task_id: str,
    day: str,
    command: Sequence[str],
    log: Callable[[str], None],
    final_error: type[Exception],
    failed: Callable[[dict[str, Any]], None] | None = None,
) -> str:
    """Run a task's command as a process of its own and return its last line.

    Raises ``final_error`` with the last line where another attempt cannot help (exit code 1 or
    2), StepCrashedError for any other exit code, TerminatedError when told to end. ``failed`` is
    told before of the ``exit_code``, and as ``reason`` all that the command ended with.
    """
    log(f"step {task_id} of {day} started: {shlex.join(command)}")
    last: deque[str] = deque(maxlen=_LINES_OF_AN_END)

    def on_line(line: str) -> None:
        last.append(line)
        log(line)

    result = run_process(command, on_line)
    if result.exit_code == 0:
        log(f"step {task_id} finished in {result.seconds:.1f} s")
        return result.last_line
    if failed is not None:
        failed({"exit_code": result.exit_code, "reason": _reason(last) or result.last_line})
    log(f"step {task_id} failed with exit code {result.exit_code} in {result.seconds:.1f} s")
    if result.exit_code in FINAL_EXIT_CODES:
        raise final_error(result.last_line or f"step {task_id} failed and said nothing")
    raise StepCrashedError(
        f"step {task_id} ended with {_ending(result.exit_code)}; its last line: "
        f"{result.last_line or 'none'}. The task's log has the rest."
    )


def asset_uri(table: str) -> str:
    """Return the address under which Airflow knows a table or folder of any warehouse.

    An event's ``extra`` says which. Airflow takes two addresses of one name for a conflict and
    fails the task, so the address cannot be the folder's: warehouses change with a setting.

    >>> asset_uri("findings")
    'x-quota-audit://warehouse/findings'
    """
    return f"x-quota-audit://warehouse/{table}"


def _reason(lines: Iterable[str]) -> str:
    """Return what was said from the last ``error: `` on: several lines where several rules broke.

    "" where no line begins so.
    """
    said: list[str] = []
    for line in lines:
        if line.startswith(_ERROR):
            said = [line.removeprefix(_ERROR)]
        elif said:
            said.append(line)
    return "\n".join(said).strip()


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
