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
_POLL_S = 0.02


class TerminatedError(RuntimeError):
    """Raised when SIGTERM came while a command ran; the command has been ended."""


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
