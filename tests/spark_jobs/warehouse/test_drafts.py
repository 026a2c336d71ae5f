"""Readers see all tables of a run or all of the one before, whatever happens to who writes them."""

from __future__ import annotations

import datetime as dt
import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.runs import draft_of, published_run
from spark_jobs.warehouse.scope import RunScope, days_of, scopes_of_days
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.write import (
    begin_draft,
    continued_draft,
    draft_or_published,
    new_run,
    publish_draft,
    put_files,
    write_table,
)
from tests.builders.tables_builder import row, write_rows

MONDAY, TUESDAY = dt.date(2026, 11, 9), dt.date(2026, 11, 10)
WRITTEN = ("files", "brokers", "quota_changes", "findings")


def day_in(warehouse: Path, day: dt.date = MONDAY) -> RunScope:
    return RunScope(warehouse, "default", day)


def write(scope: RunScope, rows: int, tables: tuple[str, ...] = WRITTEN) -> None:
    for table in tables:
        made = [row(table) for _ in range(rows)]
        write_table(pa.Table.from_pylist(made, TABLES[table]), table, scope)


def rows_in(scope: RunScope, tables: tuple[str, ...] = WRITTEN) -> list[int]:
    return [read_table(scope, table).num_rows for table in tables]


def audit(day: RunScope, rows: int, tables: tuple[str, ...] = WRITTEN) -> None:
    """Do as an audit does: write a run's tables one after the other, then publish them."""
    made = begin_draft(day, new_run())
    write(made, rows, tables)
    publish_draft(made)


def versions(day: RunScope, table: str) -> int:
    return len(list((day.runs / table).iterdir()))


def test_what_a_run_writes_is_seen_when_it_is_published_all_at_once(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    made = begin_draft(day, new_run())
    for written, table in enumerate(WRITTEN, start=1):
        write(made, 2, (table,))
        assert rows_in(day) == [1] * 4
        assert rows_in(made) == [2] * written + [0] * (4 - written)
    published = publish_draft(made)
    assert rows_in(published) == rows_in(day) == [2] * 4
    assert days_of(tmp_path, "default") == [MONDAY]


@pytest.mark.parametrize("table", WRITTEN)
@pytest.mark.parametrize("kept_bytes", [0, 3, 200])
def test_a_run_with_a_damaged_file_is_not_published(
    tmp_path: Path, table: str, kept_bytes: int
) -> None:
    day = day_in(tmp_path)
    audit(day, rows=1)
    made = begin_draft(day, new_run())
    write(made, 2)
    (damaged,) = made.partition_dir(table).glob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:kept_bytes])
    with pytest.raises(BadInputError, match=r"is damaged: .* Ingest its day again"):
        publish_draft(made)
    assert rows_in(day) == [1] * len(WRITTEN)


def test_a_day_nobody_published_is_no_day_yet(tmp_path: Path) -> None:
    write(begin_draft(day_in(tmp_path), new_run()), 1)
    assert days_of(tmp_path, "default") == []
    assert rows_in(day_in(tmp_path)) == [0] * 4


def test_a_table_that_a_run_does_not_write_is_not_the_one_before(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    made = begin_draft(day, new_run())
    write(made, 2, ("files",))
    publish_draft(made)
    assert rows_in(day) == [2, 0, 0, 0]
    assert not day.plain_dir("findings").exists()


def test_a_table_outside_of_a_run_is_published_at_once_and_alone(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    write(day, 3, ("findings",))
    assert rows_in(day) == [1, 1, 1, 3]
    put_files([], "findings", day)
    assert rows_in(day) == [1, 1, 1, 0]
    assert not day.partition_dir("findings").exists()


def test_a_reader_that_began_before_goes_on_with_the_run_it_began_with(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    reader = day.pinned()
    audit(day, 2)
    assert rows_in(reader) == [1] * 4
    assert rows_in(day.pinned()) == [2] * 4


def test_two_runs_are_kept_of_a_day_and_no_more(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    for rows in range(1, 5):
        audit(day, rows)
    assert [versions(day, table) for table in WRITTEN] == [2] * 4
    assert len(list(day.runs.glob("run-*.json"))) == 2
    write(day, 9, ("brokers",))
    assert versions(day, "brokers") == 2


def test_other_tools_find_the_published_rows_in_the_plain_folders(tmp_path: Path) -> None:
    audit(day_in(tmp_path), 1)
    audit(day_in(tmp_path, TUESDAY), 2)
    audit(day_in(tmp_path), 3)
    found = pq.read_table(tmp_path / "findings", partitioning="hive")
    days = found["date"].cast(pa.string()).to_pylist()
    assert sorted(days) == ["2026-11-09"] * 3 + ["2026-11-10"] * 2
    # The timeline has no day: it is the one of the last.
    assert pq.read_table(tmp_path / "quota_changes").num_rows == 2
    assert rows_in(day_in(tmp_path)) == [3] * 4


def test_the_earlier_of_two_runs_of_a_day_stops(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    earlier = begin_draft(day, new_run())
    write(earlier, 2)
    later = begin_draft(day, new_run())
    with pytest.raises(AuditFailedError, match=r"Another run of default 2026-11-09 has begun"):
        write(earlier, 2, ("findings",))
    with pytest.raises(AuditFailedError, match="nothing that it made is published"):
        publish_draft(earlier)
    assert rows_in(day) == [1] * 4
    write(later, 3)
    publish_draft(later)
    assert rows_in(day) == [3] * 4
    with pytest.raises(AuditFailedError):
        publish_draft(earlier)


def test_a_run_sees_the_other_days_it_wrote_and_those_of_other_runs_as_published(
    tmp_path: Path,
) -> None:
    audit(day_in(tmp_path, TUESDAY), 1)
    run = new_run()
    monday, tuesday = (begin_draft(day_in(tmp_path, day), run) for day in (MONDAY, TUESDAY))
    write(monday, 2)
    write(tuesday, 3)
    assert [rows_in(one)[0] for one in scopes_of_days(monday)] == [2, 3]
    assert tuesday.day_before == monday
    other = begin_draft(day_in(tmp_path, MONDAY), new_run())
    write(other, 4)
    assert [rows_in(one)[0] for one in scopes_of_days(other)] == [4, 1]


def test_a_step_goes_on_with_the_draft_or_begins_one_with_what_is_published(
    tmp_path: Path,
) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    made = continued_draft(day)
    write(made, 2, ("findings",))
    assert continued_draft(day) == draft_or_published(day) == made
    assert rows_in(made) == [1, 1, 1, 2]
    assert rows_in(day) == [1] * 4
    publish_draft(draft_or_published(day))
    assert rows_in(day) == [1, 1, 1, 2]
    assert draft_or_published(day) == day


def test_a_draft_of_another_airflow_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = day_in(tmp_path)
    audit(day, 1)
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "scheduled__1")
    write(begin_draft(day, new_run()), 2)
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__2")
    with pytest.raises(BadInputError, match="audited by the Airflow run scheduled__1, and this is"):
        continued_draft(day)
    assert rows_in(draft_or_published(day)) == [1] * 4
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "scheduled__1")
    assert rows_in(continued_draft(day)) == [2] * 4


def test_a_warehouse_from_before_there_were_runs_is_read_and_taken_over(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    for table in WRITTEN:
        write_rows(day, table, [row(table)])
    assert published_run(day.runs) is None
    assert rows_in(day) == rows_in(day.pinned()) == [1] * 4
    made = continued_draft(day)
    write(made, 2, ("findings",))
    assert (rows_in(day), rows_in(made)) == ([1] * 4, [1, 1, 1, 2])
    publish_draft(made)
    assert rows_in(day) == [1, 1, 1, 2]
    audit(day, 3)
    assert rows_in(day) == [3] * 4
    assert all(day.plain_dir(table).is_symlink() for table in WRITTEN)
    assert pq.read_table(tmp_path / "findings").num_rows == 3


class Killed(BaseException):
    """What stands for the end of the process: nothing catches it."""


@contextmanager
def killed_at(operation: int) -> Iterator[Callable[[], int]]:
    """Let the process end in place of one operation on files; yield how many there were."""
    done = itertools.count()
    counted = [0]

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            counted[0] = next(done) + 1
            if counted[0] > operation:  # of a dead process nothing more happens
                raise Killed
            return real(*args, **kwargs)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (Path, "replace"), (Path, "rename"), (Path, "unlink"), (Path, "mkdir"),
            (Path, "symlink_to"), (shutil, "rmtree"), (pq, "write_table"),
        ):  # fmt: skip
            patch.setattr(owner, name, dying(getattr(owner, name)))
        yield lambda: counted[0]


@pytest.mark.parametrize("was_before_runs", [False, True])
def test_whenever_a_run_dies_readers_see_one_whole_run_and_the_next_run_repairs_it(
    tmp_path: Path, was_before_runs: bool
) -> None:
    tables = ("files", "findings")
    seen, operation = set(), 0
    while True:
        day = day_in(tmp_path / str(operation))
        if was_before_runs:
            for table in tables:
                write_rows(day, table, [row(table)])
        else:
            audit(day, 1, tables)
        with killed_at(operation) as operations:
            try:
                audit(day, 2, tables)
                died = False
            except Killed:
                died = True
        assert rows_in(day, tables) in ([1] * 2, [2] * 2), operation
        assert rows_in(day.pinned(), tables) == rows_in(day, tables)
        assert days_of(day.warehouse, "default") == [MONDAY]
        seen.add((rows_in(day, tables)[0], died))
        audit(day, 3, tables)
        assert rows_in(day, tables) == [3] * 2
        assert [pq.read_table(day.plain_dir(table)).num_rows for table in tables] == [3] * 2
        assert draft_of(day.runs) is None
        assert max(versions(day, table) for table in tables) <= 2
        if not died:
            break
        operation += 1
    assert seen == {(1, True), (2, True), (2, False)}
    assert operations() == operation > 20


def test_a_step_that_dies_leaves_a_draft_that_can_be_gone_on_with(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    made = begin_draft(day, new_run())
    write(made, 1, ("files", "brokers"))
    with killed_at(1), pytest.raises(Killed):
        write(made, 2, ("brokers",))
    again = continued_draft(day)
    assert again == replace(day, run=made.run)
    assert rows_in(again) == [1, 1, 0, 0]
