from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quota_dags.process import (
    TerminatedError,
    end_processes,
    run_process,
    session_members,
)
from tests.endurance.living_processes import living

PYTHON = [sys.executable, "-S", "-c"]
# Each prints the ids of what it started, then stays until it is ended.
CHILD_IN_OWN_GROUP = """
import os, signal, subprocess
child = subprocess.Popen(["sleep", "3600"], process_group=0)
print(os.getpid(), child.pid, flush=True)
signal.pause()
"""
CHILD_IN_OWN_SESSION = CHILD_IN_OWN_GROUP.replace("process_group=0", "start_new_session=True")
STUBBORN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""
LEFT_BEHIND = """
import subprocess
print(subprocess.Popen(["sleep", "3600"], process_group=0).pid, flush=True)
print("done", flush=True)
"""


class EnoughError(Exception):
    """Raised by a reader that wants no more lines."""


def run_until_first_line(code: str, error: type[BaseException], grace_s: float) -> list[int]:
    """Run ``code``, give up with ``error`` at its first line, return the ids on that line."""
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.extend(map(int, line.split()))
        assert living(pids) == pids
        raise error

    with pytest.raises(error):
        run_process([*PYTHON, code], on_line, grace_s=grace_s)
    return pids


def test_output_and_errors_come_line_by_line_in_their_order() -> None:
    lines: list[str] = []
    code = "import sys; print('one'); sys.stderr.write('two\\n'); print('three  '); print()"
    result = run_process([*PYTHON, code], lines.append)
    assert lines == ["one", "two", "three", ""]
    assert (result.exit_code, result.last_line) == (0, "three")
    assert result.seconds > 0


def test_bytes_that_are_no_text_are_replaced_and_do_not_end_the_reading() -> None:
    lines: list[str] = []
    run_process(["printf", r"caf\351\nnext\n"], lines.append)
    assert lines == ["caf\N{REPLACEMENT CHARACTER}", "next"]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("raise SystemExit(2)", 2), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_the_exit_code_is_the_commands_own(code: str, exit_code: int) -> None:
    assert run_process([*PYTHON, code], print).exit_code == exit_code


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        run_process(["no-such-command"], print)


def test_environment_and_folder_are_those_given(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import os; print(os.environ.get('ONLY'), os.environ.get('HOME'), os.getcwd())"
    run_process([*PYTHON, code], lines.append, env={"ONLY": "this"}, cwd=tmp_path)
    assert lines == [f"this None {tmp_path}"]


@pytest.mark.parametrize("code", [CHILD_IN_OWN_GROUP, CHILD_IN_OWN_SESSION])
@pytest.mark.parametrize("error", [EnoughError, KeyboardInterrupt])
def test_giving_up_ends_the_command_and_all_it_started(
    code: str, error: type[BaseException]
) -> None:
    pids = run_until_first_line(code, error, grace_s=3.0)
    assert len(pids) == 2
    assert living(pids) == []


def test_what_ignores_the_request_to_end_is_killed() -> None:
    assert living(run_until_first_line(STUBBORN, EnoughError, grace_s=0.2)) == []


def test_what_a_command_leaves_behind_is_ended_and_does_not_hold_its_reader() -> None:
    lines: list[str] = []
    result = run_process([*PYTHON, LEFT_BEHIND], lines.append)
    assert (result.exit_code, result.last_line) == (0, "done")
    assert living([int(lines[0])]) == []


def test_sigterm_to_the_runner_ends_the_command_and_is_reported() -> None:
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.extend(map(int, line.split()))
        os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TerminatedError, match="was ended"):
        run_process([*PYTHON, CHILD_IN_OWN_GROUP], on_line)
    assert living(pids) == []
    assert signal.getsignal(signal.SIGTERM) == handler


def test_a_session_holds_its_descendants_and_nobody_else() -> None:
    with subprocess.Popen(
        [*PYTHON, CHILD_IN_OWN_SESSION], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as first:
        assert first.stdout is not None
        pids = list(map(int, first.stdout.readline().split()))
        members = session_members(first.pid)
        assert sorted(member.pid for member in members) == sorted(pids)
        assert end_processes(members, grace_s=3.0) == []
    assert living(pids) == []
    assert session_members(first.pid) == []
