"""Publishing is ended before each change of a file in turn: readers see one run, and lose none."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.publish.publish_report import publish_run
from spark_jobs.upkeep.doctor import examine
from spark_jobs.warehouse.pipeline import WRITTEN_BY
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import partition_columns
from spark_jobs.warehouse.write import (
    begin_draft,
    draft_to_publish,
    new_run,
    put_validated,
    write_table,
)
from tests.builders.tables_builder import row, scope_in, table_of

Seen = Mapping[str, bytes]
_CHANGES = frozenset({"os.rename", "os.remove", "os.symlink", "os.mkdir", "shutil.rmtree"})


class Ended(BaseException):
    """The process is no more: nothing it does from now on has an effect."""


class _Ending:
    """Lets changes of files below a folder happen until none is left, then none at all."""

    def __init__(self) -> None:
        self.below: str | None = None
        self.left = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.below is None or not (event in _CHANGES or _is_write(event, arguments)):
            return
        # A link's target comes before its path.
        if not any(str(path).startswith(self.below) for path in arguments[:2]):
            return
        self.left -= 1
        if self.left < 0:
            raise Ended


def _is_write(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wxa"


_ENDING = _Ending()
sys.addaudithook(_ENDING)


@contextmanager
def ended_after(changes: int, below: Path) -> Iterator[None]:
    """End what is done in this block before one change more than ``changes``."""
    _ENDING.below, _ENDING.left = str(below), changes
    try:
        yield
    finally:
        _ENDING.below = None


def drafted(warehouse: Path, source_file: str) -> RunScope:
    """Write a whole run that differs from others in each table and file."""
    draft = begin_draft(scope_in(warehouse), new_run())
    for table in WRITTEN_BY:
        rows = [row(table)]
        if table == "files":
            rows = [row(table, source_file=source_file)]
        if table == "findings":
            rows = [row(table, explanation=f"of {source_file}")]
        if table == "recommendations":
            rows = [row(table, quota_client_id=source_file)]
        write_table(table_of(table, rows), table, draft)
    put_validated("judged", draft)
    return draft


def seen(scope: RunScope) -> Seen:
    """Return the files of the day, by table and name, as this program reads them."""
    scope = scope.pinned()
    folders = {table: scope.partition_dir(table) for table in (*WRITTEN_BY, "reports")}
    return _files(folders)


def seen_by_others(scope: RunScope) -> Seen:
    """Return the files of the day as other tools find them."""
    tables = (t for t in (*WRITTEN_BY, "reports") if "date" in partition_columns(t))
    return _files({table: scope.plain_dir(table) for table in tables})


def _files(folders: Mapping[str, Path]) -> Seen:
    return {
        f"{table}/{path.name}": path.read_bytes()
        for table, folder in folders.items()
        for path in (folder.iterdir() if folder.is_dir() else ())
    }


def by_date(found: Seen) -> Seen:
    return {n: data for n, data in found.items() if "date" in partition_columns(n.split("/")[0])}


@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "later run"])
def test_publishing_that_is_ended_anywhere_shows_the_run_before_or_the_whole_new_one(
    tmp_path: Path, is_first: bool
) -> None:
    template = tmp_path / "template"
    if not is_first:
        publish_run(drafted(template, "before.log"))
    before = seen(scope_in(template))
    drafted(template, "after.log")
    whole = tmp_path / "whole"
    shutil.copytree(template, whole, symlinks=True)
    publish_run(draft_to_publish(scope_in(whole), take_over=True))
    after = seen(scope_in(whole))
    assert bool(before) != is_first
    assert not {name for name, data in before.items() if after.get(name) == data} & {
        "files/part-0.parquet", "reports/report.html", "reports/apply.sh", "reports/findings.jsonl",
    }  # fmt: skip
    changes, sides = 0, []
    while sides[-1:] != ["whole"]:
        world = tmp_path / "world"
        shutil.copytree(template, world, symlinks=True)
        scope = scope_in(world)
        try:
            with ended_after(changes, world):
                publish_run(draft_to_publish(scope, take_over=True))
            sides.append("whole")
        except Ended:
            found = seen(scope)
            assert found in (before, after), f"after {changes} changes of files"
            assert seen_by_others(scope) == by_date(found), f"after {changes} changes of files"
            sides.append("after" if found == after else "before")
        publish_run(draft_to_publish(scope, take_over=True))
        assert seen(scope) == after, f"published again after {changes} changes"
        assert seen_by_others(scope) == by_date(after)
        assert metrics_of(scope) == after["reports/metrics.prom"]
        odd = {one.kind for one in examine(world).ailments} - {"left_over", "little_space"}
        assert not odd, f"published again after {changes} changes"
        shutil.rmtree(world)
        changes += 1
    # All at once: no way back, and none in between.
    order = ["before", "after", "whole"]
    assert sides == sorted(sides, key=order.index)
    assert min(sides.count("before"), sides.count("after")) > 5


def metrics_of(scope: RunScope) -> bytes:
    return (scope.warehouse / "metrics" / f"{scope.cluster}.prom").read_bytes()
