"""What warehouse/test_drafts.py says of folders holds of keys of a bucket."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.errors import AuditFailedError
from spark_jobs.warehouse import write as writing
from spark_jobs.warehouse.buckets import S3Files
from spark_jobs.warehouse.parquet import on_arrow
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.runs import draft_of
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.write import (
    begin_draft,
    continued_draft,
    new_run,
    publish_draft,
    put_files,
)
from tests.builders.tables_builder import row
from tests.spark_jobs.warehouse.test_drafts import (
    MONDAY,
    TUESDAY,
    WRITTEN,
    Killed,
    audit,
    day_in,
    rows_in,
    versions,
    write,
)


@pytest.fixture
def warehouse(bucket: str, request: pytest.FixtureRequest) -> Path:
    return storage_path(f"s3://{bucket}/{request.node.name}")


def keys(folder: Path) -> list[str]:
    return sorted(str(key.relative_to(folder).as_posix()) for key in folder.rglob("*.parquet"))


def put_rows(folder: Path, rows: int) -> Path:
    """Write a file of findings that belongs to no table yet, as a worker does."""
    file = folder / f"part-{rows}.parquet"
    source, filesystem = on_arrow(file)
    made = pa.Table.from_pylist([row("findings") for _ in range(rows)], TABLES["findings"])
    pq.write_table(made, source, filesystem=filesystem)
    return file


def test_what_a_run_writes_is_seen_when_it_is_published_all_at_once(warehouse: Path) -> None:
    day = day_in(warehouse)
    audit(day, 1)
    made = begin_draft(day, new_run())
    for written, table in enumerate(WRITTEN, start=1):
        write(made, 2, (table,))
        assert rows_in(day) == [1] * 4
        assert rows_in(made) == [2] * written + [0] * (4 - written)
    assert rows_in(publish_draft(made)) == rows_in(day) == [2] * 4
    audit(day_in(warehouse, TUESDAY), 3)
    assert days_of(warehouse, "default") == [MONDAY, TUESDAY]
    assert rows_in(day.pinned()) == [2] * 4


def test_two_runs_are_kept_of_a_day_and_no_more(warehouse: Path) -> None:
    day = day_in(warehouse)
    for rows in range(1, 5):
        audit(day, rows)
    assert [versions(day, table) for table in WRITTEN] == [2] * 4
    assert len(list(day.runs.glob("run-*.json"))) == 2


def test_no_key_is_put_where_a_folder_has_links(warehouse: Path) -> None:
    day = day_in(warehouse)
    audit(day, 1)
    assert all(not day.plain_dir(table).exists() for table in WRITTEN)
    assert {name.partition("/")[0] for name in keys(warehouse)} == {"runs"}


def test_what_workers_wrote_is_moved_key_by_key(warehouse: Path) -> None:
    day = day_in(warehouse)
    staged = warehouse / ".staged-1"
    put_files([put_rows(staged / "a", 2), put_rows(staged / "b", 3)], "findings", day)
    assert read_table(day, "findings").num_rows == 5
    assert keys(staged) == []
    put_files([], "findings", day)
    assert read_table(day, "findings").num_rows == 0


def test_a_name_of_a_place_may_have_any_character(warehouse: Path) -> None:
    day = day_in(warehouse / "a [1] #2?%20 +é'\"")
    audit(day, 2)
    assert rows_in(day) == [2] * 4


def test_the_earlier_of_two_runs_of_a_day_stops(warehouse: Path) -> None:
    day = day_in(warehouse)
    audit(day, 1)
    earlier = begin_draft(day, new_run())
    write(earlier, 2)
    begin_draft(day, new_run())
    with pytest.raises(AuditFailedError, match="nothing that it made is published"):
        publish_draft(earlier)
    assert rows_in(day) == [1] * 4


@contextmanager
def killed_at(operation: int) -> Iterator[Callable[[], int]]:
    """Let the process end in place of one change of the bucket; yield how many there were."""
    done = itertools.count()
    counted = [0]

    def dying(real: Callable[..., Any], is_change: Callable[..., bool]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if is_change(*args, **kwargs):
                counted[0] = next(done) + 1
                if counted[0] > operation:  # of a dead process nothing more happens
                    raise Killed
            return real(*args, **kwargs)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (S3Files, "mv"), (S3Files, "rm"), (writing, "remove_folder"),
            (pq, "write_table"),
        ):  # fmt: skip
            patch.setattr(owner, name, dying(getattr(owner, name), lambda *_, **__: True))
        opens = dying(S3Files._open, lambda _self, _path, mode="rb", **_: mode != "rb")
        patch.setattr(S3Files, "_open", opens)
        yield lambda: counted[0]


def test_whenever_a_run_dies_readers_see_one_whole_run_and_the_next_run_repairs_it(
    warehouse: Path,
) -> None:
    tables = ("files", "findings")

    def audit_of_workers(day: RunScope, rows: int) -> None:
        made = begin_draft(day, new_run())
        write(made, rows, ("files",))
        put_files([put_rows(day.warehouse / ".staged", rows)], "findings", made)
        publish_draft(made)

    seen, operation = set(), 0
    while True:
        day = day_in(warehouse / str(operation))
        audit(day, 1, tables)
        audit(day, 1, tables)  # so that there is a run to be removed
        with killed_at(operation) as operations:
            try:
                audit_of_workers(day, 2)
                died = False
            except Killed:
                died = True
        assert rows_in(day, tables) in ([1] * 2, [2] * 2), operation
        assert rows_in(day.pinned(), tables) == rows_in(day, tables)
        seen.add((rows_in(day, tables)[0], died))
        audit(day, 3, tables)
        assert rows_in(day, tables) == [3] * 2
        assert draft_of(day.runs) is None
        assert max(versions(day, table) for table in tables) <= 2
        if not died:
            break
        operation += 1
    assert seen == {(1, True), (2, True), (2, False)}
    assert operations() == operation > 10


def test_a_step_that_dies_leaves_a_draft_that_can_be_gone_on_with(warehouse: Path) -> None:
    day = day_in(warehouse)
    made = begin_draft(day, new_run())
    write(made, 1, ("files", "brokers"))
    with killed_at(1), pytest.raises(Killed):
        write(made, 2, ("brokers",))
    again = continued_draft(day)
    assert again == replace(day, run=made.run)
    assert rows_in(again) == [1, 1, 0, 0]
