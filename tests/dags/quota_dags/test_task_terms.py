from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quota_dags.process import StepCrashedError, TaskTerms, default_launcher, ingest_arguments
from spark_jobs.wording.progress import EVENTS_FILE, EventFile, Failed, Said, Started

DAY = "2026-11-20"


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


def ran(
    code: str,
    *arguments: str,
    log: Callable[[str], None] = print,
    failed: Callable[[dict[str, Any]], None] | None = None,
) -> str:
    terms = TaskTerms(log, FinalError, FinalError, (sys.executable, "-S", "-c", code))
    return terms.run("replay_quotas", DAY, arguments, failed)


def test_a_step_runs_on_this_interpreter_unless_told_otherwise() -> None:
    assert default_launcher() == (sys.executable, "-m", "spark_jobs.cli")


def test_the_first_line_of_the_log_is_a_command_that_a_shell_takes() -> None:
    log: list[str] = []
    assert ran("import sys; print(sys.argv[1])", "it's $HOME", log=log.append) == "it's $HOME"
    assert log[0].startswith("step replay_quotas of 2026-11-20 started: ")
    assert log[0].endswith("""'it'"'"'s $HOME'""")


def test_a_step_that_ends_well_returns_its_last_line_and_logs_all() -> None:
    log: list[str] = []
    assert ran("print('one'); print('two'); print()", log=log.append) == "two"
    assert log[1:3] == ["one", "two"]
    assert re.fullmatch(r"step replay_quotas finished in \d+\.\d s", log[-1])


@pytest.mark.parametrize("exit_code", [1, 2])
def test_a_failed_audit_and_a_bad_input_are_final_and_say_why(exit_code: int) -> None:
    log: list[str] = []
    code = f"import sys; print('so far'); sys.stderr.write('no such day\\n'); sys.exit({exit_code})"
    with pytest.raises(FinalError, match=r"^no such day$"):
        ran(code, log=log.append)
    assert "no such day" in log
    assert f"failed with exit code {exit_code}" in log[-1]


def test_a_final_failure_without_a_word_names_the_step() -> None:
    with pytest.raises(FinalError, match="replay_quotas failed and said nothing"):
        ran("raise SystemExit(1)")


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("import sys; print('so far'); sys.exit(3)", "exit code 3"),
        ("import os; print('so far', flush=True); os.kill(os.getpid(), 9)", "signal 9"),
    ],
)
def test_a_crash_may_be_tried_again_and_says_how_it_ended(code: str, ending: str) -> None:
    with pytest.raises(StepCrashedError, match=f"{ending}; its last line: so far"):
        ran(code)


def test_a_version_that_has_to_be_found_out_is_not_passed() -> None:
    assert ingest_arguments("UTC", None) == ingest_arguments("UTC", "") == ["--timezone", "UTC"]
    assert ingest_arguments("UTC", "4.1.0")[2:] == ["--broker-version", "4.1.0"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "print('error: old'); print('fine'); print('error: The data is bad.');"
            "print('- one rule'); print('Details: x'); sys.exit(1)",
            {"exit_code": 1, "reason": "The data is bad.\n- one rule\nDetails: x"},
        ),
        ("print('so far'); sys.exit(3)", {"exit_code": 3, "reason": "so far"}),
        ("sys.exit(3)", {"exit_code": 3, "reason": ""}),
    ],
    ids=["all that the last error says", "no error: its last line", "not a word"],
)
def test_whoever_asks_is_told_how_a_step_failed(code: str, told: dict[str, Any]) -> None:
    ended: list[dict[str, Any]] = []
    with pytest.raises((FinalError, StepCrashedError)):
        ran(f"import sys; {code}", failed=ended.append)
    assert ended == [told]


def test_a_step_that_ends_well_has_no_failure() -> None:
    ended: list[dict[str, Any]] = []
    ran("print('error: none, really')", failed=ended.append)
    assert ended == []


def test_whoever_waits_in_another_process_reads_the_same_events_no_later_than_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EVENTS_FILE, str(tmp_path / "events"))
    file, seen = EventFile(tmp_path / "events"), []

    def log(line: str) -> None:
        seen.append((line, list(file.news())))

    with pytest.raises(FinalError):
        ran("print('step x finished in 1.0 s'); raise SystemExit(2)", log=log)
    events = [event for _, (event,) in seen]
    assert [type(event) for event in events] == [Started, Said, Failed]
    assert events[1] == Said("step x finished in 1.0 s")
    assert (events[2].step, events[2].exit_code) == ("replay_quotas", 2)
