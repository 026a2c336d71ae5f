from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.errors import BadInputError
from spark_jobs.wording.progress import (
    Event,
    EventFile,
    Failed,
    Finished,
    Said,
    Started,
    StepProgress,
    log_line,
    telling,
)

STARTED = Started("replay_quotas", "2026-11-20", "quota-audit replay --cluster east")
FINISHED = Finished("replay_quotas", 12.34)
FAILED = Failed("replay_quotas", 2, 0.31)


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(shown: io.StringIO) -> StepProgress:
    return StepProgress(Console(file=shown, width=120))


def tell(progress: StepProgress, *events: Event) -> None:
    with progress:
        for event in events:
            progress.tell(event)


def test_a_finished_step_is_a_line_with_its_seconds_and_its_last_sentence(
    progress: StepProgress, shown: io.StringIO
) -> None:
    tell(progress, STARTED, Said("reading"), Said("replayed 12 decisions"), FINISHED)
    line = next(line for line in shown.getvalue().splitlines() if line.startswith("✓"))
    assert line.split() == ["✓", "replay_quotas", "12.3", "s", "replayed", "12", "decisions"]
    assert progress.failed is None


def test_a_failed_step_is_remembered_with_its_exit_code_and_what_it_said(
    progress: StepProgress, shown: io.StringIO
) -> None:
    tell(progress, STARTED, Said("reading"), Said("error: no such day"), Said(""), FAILED)
    assert progress.failed == FAILED
    assert progress.last_sentence == "error: no such day"
    assert progress.recent_lines() == ["reading", "error: no such day", ""]
    line = next(line for line in shown.getvalue().splitlines() if line.startswith("✗"))
    assert line.split()[:5] == ["✗", "replay_quotas", "exit", "code", "2"]


def test_another_attempt_forgets_the_failed_one(progress: StepProgress) -> None:
    tell(progress, STARTED, Said("error: out of memory"), FAILED, STARTED, Said("went well"))
    assert progress.failed is None
    assert progress.recent_lines() == ["went well"]


def test_a_step_that_says_nothing_does_not_get_the_words_of_the_one_before(
    progress: StepProgress,
) -> None:
    tell(progress, STARTED, Said("went well"), FINISHED, STARTED, FAILED)
    assert progress.last_sentence == ""


def test_brackets_in_a_sentence_are_text_not_style(
    progress: StepProgress, shown: io.StringIO
) -> None:
    tell(progress, STARTED, Said("client [bold] wrote [/nothing]"), FINISHED)
    assert "client [bold] wrote [/nothing]" in shown.getvalue()


def test_a_log_has_the_command_the_words_and_the_end() -> None:
    assert [log_line(event) for event in (STARTED, Said("reading"), FINISHED, FAILED)] == [
        "step replay_quotas of 2026-11-20 started: quota-audit replay --cluster east",
        "reading",
        "step replay_quotas finished in 12.3 s",
        "step replay_quotas failed with exit code 2 in 0.3 s",
    ]


def test_a_step_of_this_process_tells_how_it_ends() -> None:
    told: list[Event] = []
    with telling(told.append, "judge_decisions", "2026-11-20") as say:
        say("findings: 0")
    with (
        pytest.raises(BadInputError),
        telling(told.append, "recommend_quotas", "2026-11-20"),
    ):
        raise BadInputError("no such table")
    assert told[:2] == [Started("judge_decisions", "2026-11-20"), Said("findings: 0")]
    finished, _, failed = told[2:]
    assert isinstance(finished, Finished)
    assert isinstance(failed, Failed)
    assert (failed.step, failed.exit_code) == ("recommend_quotas", 2)


def test_a_file_of_events_is_read_on_and_what_is_being_written_is_waited_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events"
    reader, writer = EventFile(path), EventFile(path)
    assert list(reader.news()) == []
    writer.tell(STARTED)
    writer.tell(Said("größer\nals"))
    assert list(reader.news()) == [STARTED, Said("größer\nals")]
    whole = path.read_bytes()
    writer.tell(FAILED)
    later = path.read_bytes()
    path.write_bytes(later[: len(whole) + 5])
    assert list(reader.news()) == []
    path.write_bytes(later)
    assert list(reader.news()) == [FAILED]
