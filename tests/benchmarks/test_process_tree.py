"""What is said of a measured command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import process_tree
from benchmarks.process_tree import DRIVER, CommandFailedError, run

WORK = """
import sys

def spend(rounds):
    return sum(i * i for i in range(rounds))

spend(3_000_000)
print("read 7 files", file=sys.stderr, flush=True)
print("wrote 1 of them", file=sys.stderr, flush=True)
spend(100)
print("done", flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "measured_work.py").write_text(WORK)
    monkeypatch.setattr(process_tree, "ROOT", tmp_path)
    return "measured_work"


def test_a_steps_seconds_are_those_up_to_its_line(module: str) -> None:
    taken = run(module, ["0"], {"read": "read ", "write": "wrote "})
    assert list(taken.step_cpu_s) == ["read", "write", ""]
    assert taken.step_cpu_s["read"] > taken.step_cpu_s["write"] + taken.step_cpu_s[""]
    assert sum(taken.step_cpu_s.values()) == pytest.approx(taken.cpu_s)


def test_the_process_that_was_started_is_the_driver(module: str) -> None:
    taken = run(module, ["0"])
    assert taken.said == "done"
    assert taken.peak_mb[DRIVER] == taken.worker_mb() > 0
    assert taken.step_cpu_s == {}


def test_a_command_that_fails_is_told_with_its_last_lines(module: str) -> None:
    with pytest.raises(CommandFailedError, match=r"(?s)exit code 3.*done.*read 7 files.*wrote 1"):
        run(module, ["3"])


def test_a_step_without_its_line_is_an_error(module: str) -> None:
    with pytest.raises(CommandFailedError, match=re.escape("no line of step judge")):
        run(module, ["0"], {"read": "read ", "judge": "findings"})
