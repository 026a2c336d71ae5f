"""Running a command so that nothing it started outlives it.

A Spark step is a small tree: Python, a JVM, and Python workers in a process group of their own
(``pyspark.daemon`` calls ``setpgid``). The command therefore gets a session of its own, and what
has to end is the whole session, not one group: a session id cannot be left by ``setpgid``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

# Airflow's supervisor sends SIGKILL 5 s after SIGTERM; the session must be gone by then.
GRACE_S = 3.0


class TerminatedError(RuntimeError):
    """This process was asked to end (SIGTERM) while its command ran; the command was ended."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended: negative ``exit_code`` = killed by that signal."""

    exit_code: int
    last_line: str
    seconds: float


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
    then SIGKILL after ``grace_s``. Raises TerminatedError on SIGTERM, FileNotFoundError where
    there is no such command.
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
        try:
            assert process.stdout is not None
            for line in process.stdout:
                text = line.rstrip()
                last_line = text or last_line
                on_line(text)
            exit_code = process.wait()
        finally:
            end_session(process.pid, grace_s)
            process.communicate()
    return ProcessResult(exit_code, last_line, time.monotonic() - started)


def session_members(session_id: int) -> list[psutil.Process]:
    """Return the living processes of a session, however far they are from its first one."""
    members = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session_id and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


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
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE_S)
    return alive


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
