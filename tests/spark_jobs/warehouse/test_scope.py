"""What a run says is read once by who holds it, and who asks anew sees what is published anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.warehouse.read import open_table
from spark_jobs.warehouse.runs import PUBLISHED
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import begin_draft, new_run
from tests.spark_jobs.warehouse.test_drafts import MONDAY, TUESDAY, audit, day_in, rows_in, write

TABLES = ("files", "brokers", "findings", "decisions", "demand")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files of runs that are read from now on."""
    names: list[str] = []
    read_text = Path.read_text

    def noting(path: Path, encoding: str | None = None) -> str:
        names.append(path.name)
        return read_text(path, encoding)

    monkeypatch.setattr(Path, "read_text", noting)
    return names


def test_a_pinned_day_reads_the_pointer_and_what_the_run_says_once(
    tmp_path: Path, read: list[str]
) -> None:
    day = day_in(tmp_path)
    audit(day, 1, TABLES)
    read.clear()
    pinned = day.pinned()
    assert [open_table(pinned, table).count_rows() for table in TABLES] == [1] * 5
    assert read == [PUBLISHED, f"run-{pinned.run}.json"]


def test_a_page_over_several_days_reads_each_of_them_once(tmp_path: Path, read: list[str]) -> None:
    monday, tuesday = day_in(tmp_path, MONDAY), day_in(tmp_path, TUESDAY)
    for day in (monday, tuesday):
        audit(day, 1, TABLES)
    before = tuesday.pinned().day_before
    read.clear()
    assert rows_in(before, TABLES) == [1] * 5
    assert read == []


def test_what_opens_one_table_reads_the_pointer_and_what_the_run_says_once(
    tmp_path: Path, read: list[str]
) -> None:
    day = day_in(tmp_path)
    audit(day, 1, TABLES)
    read.clear()
    open_table(day, "files")
    assert len(read) == 2


@pytest.mark.parametrize("hold", [RunScope.pinned, RunScope.held, RunScope.newest])
def test_who_holds_a_run_stays_with_it_and_the_next_request_sees_the_next_one(
    tmp_path: Path, hold: object
) -> None:
    assert callable(hold)
    day = day_in(tmp_path)
    audit(day, 1)
    held = hold(day)
    audit(day, 2)
    assert rows_in(held) == [1] * 4
    assert rows_in(day) == rows_in(hold(day)) == [2] * 4


def test_who_writes_a_draft_reads_what_it_has_written(tmp_path: Path) -> None:
    draft = begin_draft(day_in(tmp_path), new_run())
    write(draft, 1)
    assert rows_in(draft) == [1] * 4
    write(draft, 2)
    assert rows_in(draft) == [2] * 4
