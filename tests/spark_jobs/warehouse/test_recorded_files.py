"""A run says what its files are like, and readers notice where they are no longer so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expectations.validate.frames import stored_table
from spark_jobs.errors import BadInputError, CheckBrokenError
from spark_jobs.warehouse.read import read_batches, read_table
from spark_jobs.warehouse.recorded_files import Difference, differences, recorded_files
from spark_jobs.warehouse.runs import published_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import begin_draft, new_run, publish_draft, write_table
from tests.builders.tables_builder import row, scope_in, table_of


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    """Write decisions in three files."""
    scope = scope_in(tmp_path)
    parts = [(table_of("decisions", [row("decisions")] * n), None) for n in (1, 2, 3)]
    write_table(parts, "decisions", scope)
    return scope


def files_of(scope: RunScope) -> list[Path]:
    return sorted(scope.partition_dir("decisions").glob("*.parquet"))


def test_the_record_of_a_run_has_the_rows_and_bytes_of_each_file(scope: RunScope) -> None:
    said = json.loads((scope.runs / f"run-{published_run(scope.runs)}.json").read_text())
    files = said["files"]["decisions"]
    assert [files[path.name]["rows"] for path in files_of(scope)] == [1, 2, 3]
    assert [files[path.name]["bytes"] for path in files_of(scope)] == [
        path.stat().st_size for path in files_of(scope)
    ]


def test_the_record_names_the_files_of_the_newest_version_alone(scope: RunScope) -> None:
    write_table(table_of("decisions", [row("decisions")]), "decisions", scope)
    assert [*(scope.recorded("decisions") or ())] == ["part-0.parquet"]
    write_table(None, "decisions", scope)
    assert scope.recorded("decisions") is None
    assert read_table(scope, "decisions").num_rows == 0


DAMAGES: dict[str, Callable[[RunScope], object]] = {
    "is missing": lambda scope: files_of(scope)[1].unlink(),
    "was added": lambda scope: shutil.copy(
        files_of(scope)[0], scope.partition_dir("decisions") / "a.parquet"),
    "is not as it was written": lambda scope: shutil.copy(files_of(scope)[0], files_of(scope)[1]),
    "part-2.parquet (is missing)": lambda scope: shutil.rmtree(scope.partition_dir("decisions")),
}  # fmt: skip


@pytest.mark.parametrize("told", DAMAGES)
def test_readers_notice(scope: RunScope, told: str) -> None:
    DAMAGES[told](scope)
    for read in (
        lambda: read_table(scope, "decisions", ["amount"]),
        lambda: list(read_batches(scope, "decisions", ["amount"])),
    ):
        with pytest.raises(BadInputError, match=r"The table decisions .* is damaged") as caught:
            read()
        assert told in str(caught.value)


def test_the_checks_of_data_quality_notice(scope: RunScope) -> None:
    files_of(scope)[1].unlink()
    with pytest.raises(CheckBrokenError, match="is missing"):
        stored_table(scope, "decisions")


def test_a_run_that_lost_a_file_is_not_published(scope: RunScope) -> None:
    draft = begin_draft(scope, new_run())
    write_table(table_of("decisions", [row("decisions")]), "decisions", draft)
    files_of(draft)[0].unlink()
    before = published_run(scope.runs)
    with pytest.raises(BadInputError, match="is missing"):
        publish_draft(draft)
    assert published_run(scope.runs) == before


@pytest.mark.parametrize("at", [5, -20])
def test_each_byte_of_a_file_is_compared_where_all_is_read(scope: RunScope, at: int) -> None:
    folder = scope.partition_dir("decisions")
    recorded = recorded_files(folder)
    path = files_of(scope)[0]
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert [*differences(folder, recorded, reads_all=True)] == [(path.name, Difference.CHANGED)]


def test_a_folder_without_files_has_nothing_to_record(tmp_path: Path) -> None:
    assert recorded_files(tmp_path / "nothing") == {}
