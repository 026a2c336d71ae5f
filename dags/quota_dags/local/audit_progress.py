"""The steps of a DAG run as they start and end, read from the run's log."""

from __future__ import annotations

import re
from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

# What submitted_step.run_submitted logs, behind whatever Airflow's log format puts before it.
_STARTED = re.compile(r"step (?P<step>\w+) of \S+ started: ")
_FINISHED = re.compile(r"step (?P<step>\w+) finished in (?P<seconds>[\d.]+) s")
_FAILED = re.compile(r"step (?P<step>\w+) failed with exit code (?P<code>-?\d+)")
# `2026-11-21T07:23:57.775900Z [info     ] <what was logged> [quota_audit] loc=…`
_LOGGED = re.compile(r"\[\w+ *\] (?P<text>.*?) *\[quota_audit\] loc=")
_RECENT_LINES = 30


class AuditProgress:
    """A terminal's view of a DAG run: a spinner on the running step, a line per finished one."""

    def __init__(self, console: Console) -> None:
        self.failed_step: str | None = None
        self.failed_exit_code: int | None = None
        self.last_sentence = "no step started"
        self._recent: deque[str] = deque(maxlen=_RECENT_LINES)
        self._console = console
        self._spinner = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._running: TaskID | None = None

    def __enter__(self) -> Self:
        self._spinner.start()
        self._show("starting Airflow")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._spinner.stop()

    def read(self, line: str) -> None:
        """Take one line of the run's log."""
        logged = _LOGGED.search(line)
        if started := _STARTED.search(line):
            self.failed_step = self.failed_exit_code = None
            self._recent.clear()
            self._show(started["step"])
        elif finished := _FINISHED.search(line):
            self._print("green", "✓", finished["step"], f"{float(finished['seconds']):7.1f} s")
        elif failed := _FAILED.search(line):
            self.failed_step = failed["step"]
            self.failed_exit_code = int(failed["code"])
            self._print("red", "✗", failed["step"], f"exit code {failed['code']}")
        elif self.failed_step is None:
            self._recent.append(logged["text"] if logged else line)
            self.last_sentence = (logged and logged["text"]) or self.last_sentence

    def recent_lines(self) -> list[str]:
        """Return the last lines said by the step that failed, or by Airflow where none did."""
        return list(self._recent)

    def _show(self, step: str) -> None:
        if self._running is not None:
            self._spinner.remove_task(self._running)
        self._running = self._spinner.add_task(step, total=None)

    def _print(self, style: str, mark: str, step: str, note: str) -> None:
        sentence = escape(self.last_sentence)
        self._console.print(f"[{style}]{mark}[/{style}] {step:<18} {note}  [dim]{sentence}[/dim]")
