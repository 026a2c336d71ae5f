from __future__ import annotations

import io

import pytest
from rich.console import Console

from quota_dags.local.audit_progress import AuditProgress


def logged(text: str) -> str:
    return f"2026-11-21T07:23:59.946473Z [info     ] {text} [quota_audit] loc=submit.py:140"


STARTED = logged("step replay_quotas of 2026-11-20 started: quota-audit replay --cluster east")
FINISHED = logged("step replay_quotas finished in 12.3 s")
FAILED = logged("step replay_quotas failed with exit code 2 in 0.3 s")


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(shown: io.StringIO) -> AuditProgress:
    return AuditProgress(Console(file=shown, width=120))


def read(progress: AuditProgress, *lines: str) -> None:
    with progress:
        for line in lines:
            progress.read(line)


def test_a_finished_step_is_a_line_with_its_seconds_and_its_last_sentence(
    progress: AuditProgress, shown: io.StringIO
) -> None:
    read(progress, STARTED, logged("reading"), logged("replayed 12 decisions"), FINISHED)
    line = next(line for line in shown.getvalue().splitlines() if line.startswith("✓"))
    assert line.split() == ["✓", "replay_quotas", "12.3", "s", "replayed", "12", "decisions"]
    assert progress.failed_step is None


def test_a_failed_step_is_remembered_with_its_exit_code_and_what_it_said(
    progress: AuditProgress, shown: io.StringIO
) -> None:
    read(progress, STARTED, logged("reading"), logged("error: no such day"), FAILED)
    assert (progress.failed_step, progress.failed_exit_code) == ("replay_quotas", 2)
    assert progress.last_sentence == "error: no such day"
    assert progress.recent_lines() == ["reading", "error: no such day"]
    line = next(line for line in shown.getvalue().splitlines() if line.startswith("✗"))
    assert line.split()[:5] == ["✗", "replay_quotas", "exit", "code", "2"]


def test_what_airflow_says_after_the_failure_is_not_taken_for_the_steps_words(
    progress: AuditProgress,
) -> None:
    read(progress, STARTED, logged("error: no such day"), FAILED, logged("Marking run as failed"))
    assert progress.last_sentence == "error: no such day"


def test_another_attempt_forgets_the_failed_one(progress: AuditProgress) -> None:
    read(progress, STARTED, logged("error: out of memory"), FAILED, STARTED, logged("went well"))
    assert (progress.failed_step, progress.failed_exit_code) == (None, None)
    assert progress.recent_lines() == ["went well"]


def test_without_a_step_airflows_own_lines_are_kept(progress: AuditProgress) -> None:
    read(progress, "Traceback (most recent call last):", "KeyError: 'x'")
    assert progress.recent_lines() == ["Traceback (most recent call last):", "KeyError: 'x'"]
    assert progress.last_sentence == "no step started"


def test_brackets_in_a_sentence_are_text_not_style(
    progress: AuditProgress, shown: io.StringIO
) -> None:
    read(progress, STARTED, logged("client [bold] wrote [/nothing]"), FINISHED)
    assert "client [bold] wrote [/nothing]" in shown.getvalue()
