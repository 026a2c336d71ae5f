"""Running a task's command so that nothing it started outlives it, and what its exit code means.

A Spark step is a small tree: Python, a JVM, and Python workers in a process group of their own
(``pyspark.daemon`` calls ``setpgid``). The command therefore gets a session of its own, and what
has to end is the whole session, not one group: a session id cannot be left by ``setpgid``.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from spark_jobs.wording.progress import (
    EVENTS_FILE,
    Event,
    EventFile,
    Failed,
    Finished,
    Said,
    Started,
    log_line,
)

# Exit codes of the command line that another attempt cannot change: the audit or the data
# failed (1), the input is wrong (2). Everything else (out of memory, killed) is worth a retry.
FINAL_EXIT_CODES = frozenset({1, 2})

_ERROR = "error: "
_LINES_OF_AN_END = 40
# Airflow's supervisor sends SIGKILL 5 s after SIGTERM; the session must be gone by then.
GRACE_S = 3.0

_POLL_S = 0.02


class StepCrashedError(RuntimeError):
    """A step ended neither well nor with a judgement: killed, or an error of ours."""


class TerminatedError(RuntimeError):
    """Raised when SIGTERM came while a command ran; the command has been ended."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended: negative ``exit_code`` = killed by that signal."""

    exit_code: int
    last_line: str
    seconds: float


def default_launcher() -> tuple[str, ...]:
    """Return the command line's own command: this interpreter, this package."""
    return (sys.executable, "-m", "spark_jobs.cli")


def ingest_arguments(timezone: str, broker_version: str | None) -> list[str]:
    """Return the options that only a command which ingests takes."""
    version = ["--broker-version", broker_version] if broker_version else []
    return ["--timezone", timezone, *version]


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """How a task says what it does and how it ends; ``launcher`` runs ``quota-audit``.

    ``final_error`` is raised where another attempt cannot help, ``skipped`` where there is
    nothing to do.
    """

    log: Callable[[str], None]
    final_error: type[Exception]
    skipped: type[Exception]
    launcher: Sequence[str] = ()

    def run(
        self,
        task_id: str,
        day: str,
        arguments: Sequence[str],
        failed: Callable[[dict[str, Any]], None] | None = None,
    ) -> str:
        """Run ``quota-audit`` as a process of its own and return its last line.

        Raises ``final_error`` with the last line where another attempt cannot help (exit code 1 or
        2), StepCrashedError for any other exit code, TerminatedError when told to end. ``failed``
        is told before of the ``exit_code``, and as ``reason`` all that the command ended with.
        """
        command = [*(self.launcher or default_launcher()), *arguments]
        last: deque[str] = deque(maxlen=_LINES_OF_AN_END)

        def on_line(line: str) -> None:
            last.append(line)
            self._tell(Said(line))

        self._tell(Started(task_id, day, shlex.join(command)))
        result = run_process(command, on_line)
        exit_code = result.exit_code
        if exit_code == 0:
            self._tell(Finished(task_id, result.seconds))
            return result.last_line
        if failed is not None:
            failed({"exit_code": exit_code, "reason": _reason(last) or result.last_line})
        self._tell(Failed(task_id, exit_code, result.seconds))
        if exit_code in FINAL_EXIT_CODES:
            raise self.final_error(result.last_line or f"step {task_id} failed and said nothing")
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        raise StepCrashedError(
            f"step {task_id} ended with {how}; its last line: "
            f"{result.last_line or 'none'}. The task's log has the rest."
        )

    def _tell(self, event: Event) -> None:
        # The log last: where a line of it arrives, the event is there.
        if path := os.environ.get(EVENTS_FILE):
            EventFile(Path(path)).tell(event)
        self.log(log_line(event))


def _reason(lines: Iterable[str]) -> str:
    """Return the lines from the last ``error: `` on: several where several rules broke.

    "" where no line begins so.
    """
    said: list[str] = []
    for line in lines:
        if line.startswith(_ERROR):
            said = [line.removeprefix(_ERROR)]
        elif said:
            said.append(line)
    return "\n".join(said).strip()


def run_process(
    command: Sequence[str],
    on_line: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    grace_s: float = GRACE_S,
) -> ProcessResult:
    """Run ``command`` to its end, passing each line of its output to ``on_line`` as it comes.

    Whatever ends the wait early (an exception of ``on_line``, a timeout raised by a signal
    handler, Ctrl-C, SIGTERM to this process) ends the command's whole session first: SIGTERM,
    then SIGKILL after ``grace_s``. So does the command's own end for what it left behind. Raises
    TerminatedError on SIGTERM, FileNotFoundError where there is no such command.
    """
    started = time.monotonic()
    last_line = ""
    with _sigterm_raised():
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            # Unbuffered, or the order of output and errors, and so the last line, is chance.
            env={**(os.environ if env is None else env), "PYTHONUNBUFFERED": "1"},
            cwd=cwd,
            start_new_session=True,
        )
        assert process.stdout is not None
        sweeper = threading.Thread(target=_sweep_after, args=(process.pid, grace_s), daemon=True)
        try:
            sweeper.start()
            for line in process.stdout:
                text = line.rstrip()
                last_line = text or last_line
                on_line(text)
            sweeper.join()
        finally:
            end_session(process.pid, grace_s)
            exit_code = process.wait()
            process.stdout.close()
    return ProcessResult(exit_code, last_line, time.monotonic() - started)


def _sweep_after(pid: int, grace_s: float) -> None:
    """End what a command leaves behind: it may hold the output open, and the reader with it."""
    with suppress(ChildProcessError):
        # Waiting without reaping keeps the id ours until the session is empty.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    end_session(pid, grace_s)


def session_members(session_id: int) -> list[psutil.Process]:
    """Return the living processes of a session and all their descendants.

    A descendant may lead a session of its own: a step that was started by a running task.
    """
    members: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session_id and _is_alive(process):
                members[process.pid] = process
    for process in list(members.values()):
        with suppress(psutil.Error):
            members |= {child.pid: child for child in process.children(recursive=True)}
    return list(members.values())


def end_session(session_id: int, grace_s: float = GRACE_S) -> None:
    """End every process of a session; do nothing where none is left."""
    assert session_id != os.getsid(0), "a process must not end its own session"
    end_processes(session_members(session_id), grace_s)
    # What was born between listing and ending is listed now, and gets no second grace.
    end_processes(session_members(session_id), grace_s=0.0)


def end_processes(processes: Sequence[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """Send SIGTERM, after ``grace_s`` SIGKILL; return those that had to be killed."""
    if grace_s > 0:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
    alive = _still_alive(processes, grace_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _still_alive(alive, GRACE_S)
    return alive


def _still_alive(processes: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait until all have ended; return those that have not ``within_s``.

    Not ``psutil.wait_procs``: it waits for a dead orphan until the machine's first process has
    reaped it, which in a container may be never, and it takes a child's exit code from its Popen.
    """
    deadline = time.monotonic() + within_s
    alive = list(processes)
    while alive := [process for process in alive if _is_alive(process)]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    return alive


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        # is_running() compares start times: a reused id is another process.
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


@contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Turn SIGTERM into an exception for the time of the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_once(signum: int, frame: FrameType | None) -> None:
        # A second SIGTERM must not interrupt the ending that the first one started.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TerminatedError("SIGTERM received: the running command was ended")

    previous = signal.signal(signal.SIGTERM, raise_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
