"""Whatever is broken in a warehouse is found, and nothing is found in a sound one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.upkeep.ailment import Ailment
from spark_jobs.upkeep.doctor import examine
from spark_jobs.warehouse.parquet import PROGRAM_KEY, SCHEMA_KEY
from spark_jobs.warehouse.runs import CURRENT, PUBLISHED, RunOwner, published_run
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.write import begin_draft, drafted_for, new_run
from tests.builders.tables_builder import forget_files
from tests.spark_jobs.upkeep.made_days import DAYS, audit, audited
from tests.spark_jobs.upkeep.older_warehouse import VERSIONS, older_day

Break = Callable[[RunScope], object]


def only_file(day: RunScope, table: str) -> Path:
    (file,) = day.partition_dir(table).glob("*.parquet")
    return file


def run_file(day: RunScope) -> Path:
    return day.runs / f"run-{published_run(day.runs)}.json"


def says_version(day: RunScope, version: int) -> None:
    said = json.loads(run_file(day).read_text())
    said["made_by"]["quota_state"]["schema"] = version
    run_file(day).write_text(json.dumps(said))


def write_file(day: RunScope, table: str, keys: dict[str, str], dropped: str | None) -> None:
    rows = pq.read_table(only_file(day, table), partitioning=None)
    rows = rows if dropped is None else rows.drop_columns(dropped)
    pq.write_table(rows.replace_schema_metadata(keys), only_file(day, table))


def unlink_plain(day: RunScope) -> None:
    day.plain_dir("findings").unlink()


def link_elsewhere(day: RunScope) -> None:
    unlink_plain(day)
    day.plain_dir("findings").symlink_to(day.partition_dir("files"))


def audit_the_day_before(day: RunScope) -> None:
    before = day.day_before
    audit(before, None)
    said = json.loads(run_file(before).read_text())
    said["carried"]["after"] = "other states"
    run_file(before).write_text(json.dumps(said))


def orphan(day: RunScope) -> None:
    shutil.copytree(day.partition_dir("findings"), day.runs / "findings" / "ab")


def pipe_for_a_pointer(day: RunScope) -> None:
    (day.runs / PUBLISHED).unlink()
    os.mkfifo(day.runs / PUBLISHED)


def loop_for_a_pointer(day: RunScope) -> None:
    (day.runs / PUBLISHED).unlink()
    (day.runs / PUBLISHED).symlink_to(PUBLISHED)


def pipe_for_a_file(day: RunScope) -> None:
    path = only_file(day, "decisions")
    path.unlink()
    os.mkfifo(path)


WRITER = b"parquet-cpp-arrow"  # a text of the footer


def flip(path: Path, at: int | bytes) -> None:
    content = bytearray(path.read_bytes())
    content[content.rindex(at) if isinstance(at, bytes) else at] ^= 1
    path.write_bytes(content)


BREAKS: dict[str, tuple[str, Break]] = {
    "a file of a pointer that is no JSON": (
        "broken_pointer", lambda day: (day.runs / PUBLISHED).write_text("{")),
    "a pointer without a run": (
        "broken_pointer", lambda day: (day.runs / PUBLISHED).write_text("[]")),
    "a link to the pointer that is gone": (
        "missing_pointer", lambda day: (day.runs / CURRENT).unlink()),
    "a folder to be shown that was not": (
        "left_over", lambda day: shutil.copytree(day.runs / CURRENT, day.runs / "shown-ab")),
    "a pointer that is gone": ("missing_pointer", lambda day: (day.runs / PUBLISHED).unlink()),
    "an empty pointer": ("broken_pointer", lambda day: (day.runs / PUBLISHED).write_text("")),
    "a pipe in place of a pointer": ("broken_pointer", pipe_for_a_pointer),
    "endless brackets in place of a pointer": (
        "broken_pointer", lambda day: (day.runs / PUBLISHED).write_text("[" * 100_000)),
    "a link to itself in place of a pointer": ("broken_pointer", loop_for_a_pointer),
    "a pipe in place of a table's file": ("unreadable", pipe_for_a_file),
    "a run's file without tables": (
        "broken_pointer", lambda day: run_file(day).write_text('{"tables": 5}')),
    "a run's file that is no JSON": ("broken_pointer", lambda day: run_file(day).write_text("")),
    "a published run without a file": ("missing_run", lambda day: run_file(day).unlink()),
    "a version that is gone": (
        "missing_version", lambda day: shutil.rmtree(day.partition_dir("demand"))),
    "a file that is gone": ("missing_file", lambda day: only_file(day, "decisions").unlink()),
    "a file that was added": (
        "unknown_file",
        lambda day: shutil.copy(only_file(day, "rates"), day.partition_dir("rates") / "b.parquet")),
    "a flipped bit of a page": ("changed_file", lambda day: flip(only_file(day, "decisions"), 40)),
    "a flipped bit of a footer": (
        "changed_file", lambda day: flip(only_file(day, "decisions"), WRITER)),
    "a cut file": (
        "unreadable", lambda day: only_file(day, "decisions").write_bytes(b"PAR1 and no more")),
    "an older version": ("older_version", lambda day: says_version(day, 1)),
    "a newer version": ("newer_version", lambda day: says_version(day, 99)),
    "a column that is missing": (
        "wrong_columns", lambda day: write_file(day, "rates", {}, "tokens")),
    "a file of another version": (
        "wrong_columns",
        lambda day: write_file(day, "rates", {SCHEMA_KEY: "7", PROGRAM_KEY: "1.0.0"}, None)),
    "an audit that is not published": (
        "unfinished", lambda day: begin_draft(day, new_run())),
    "a migration that ended": (
        "unfinished", lambda day: drafted_for(day, RunOwner("quota-audit migrate"))),
    "a version of no run": ("orphan", orphan),
    "a link that is missing": ("wrong_link", unlink_plain),
    "a link to another version": ("wrong_link", link_elsewhere),
    "a folder that a step left": (
        "left_over", lambda day: (day.warehouse / ".staged-1" / "x").mkdir(parents=True)),
    "a draft of a pointer": (
        "left_over", lambda day: (day.runs / ".published.json.17").write_text("{")),
    "a day before that was audited again": ("broken_chain", audit_the_day_before),
}  # fmt: skip


def test_nothing_is_found_in_a_sound_warehouse(tmp_path: Path) -> None:
    audited(tmp_path)
    assert examine(tmp_path).ailments == ()
    ran = CliRunner().invoke(app, ["doctor", str(tmp_path)])
    assert (ran.exit_code, ran.output) == (0, "3 audited days: nothing looks wrong\n")


@pytest.mark.parametrize("name", [PUBLISHED, CURRENT])
def test_a_pointer_that_is_gone_is_put_back_as_told_and_nothing_is_to_be_removed(
    tmp_path: Path, name: str
) -> None:
    day = audited(tmp_path)[1]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (day.runs / name).unlink()
    (found,) = examine(tmp_path).ailments
    assert "rm " not in found.remedy
    subprocess.run(["bash", "-c", found.remedy], check=True)
    assert examine(tmp_path).ailments == ()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after.keys() == before.keys()


def test_a_folder_of_no_day_is_passed_by(tmp_path: Path) -> None:
    days = [day.day for day in audited(tmp_path)]
    for kind in ("runs", "files"):
        for name in ("date=junk", "date=20261109", "date="):
            (tmp_path / kind / "cluster=default" / name).mkdir()
    assert examine(tmp_path).ailments == ()
    assert days_of(tmp_path, "default") == days


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found_with_what_to_do(tmp_path: Path, name: str) -> None:
    kind, break_it = BREAKS[name]
    day = audited(tmp_path)[1]
    break_it(day)
    found = examine(tmp_path).ailments
    assert {one.kind for one in found} == {kind}, found
    assert all(one.remedy and one.means and one.found for one in found)
    ran = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json"])
    assert ran.exit_code == 1
    assert [one["kind"] for one in json.loads(ran.output)["found"]] == [one.kind for one in found]


def test_a_quick_look_reads_no_pages_but_footers(tmp_path: Path) -> None:
    day = audited(tmp_path)[1]
    flip(only_file(day, "decisions"), 40)
    assert examine(tmp_path, is_quick=True).ailments == ()
    assert CliRunner().invoke(app, ["doctor", str(tmp_path), "--quick"]).exit_code == 0
    flip(only_file(day, "rates"), WRITER)
    (found,) = examine(tmp_path, is_quick=True).ailments
    assert (found.kind, Path(found.where).name) == ("changed_file", "part-0.parquet")


def test_of_what_an_earlier_version_wrote_no_damage_is_claimed(tmp_path: Path) -> None:
    day = audited(tmp_path)[1]
    forget_files(day)
    flip(only_file(day, "decisions"), 40)
    found = examine(tmp_path)
    assert (found.ailments, found.unrecorded_days) == ((), 1)
    assert "1 of them an earlier version wrote: whether their files" in found.summary()


def test_a_day_that_nobody_audited_is_found_between_others(tmp_path: Path) -> None:
    audited(tmp_path, (DAYS[0], DAYS[2]))
    (found,) = examine(tmp_path).ailments
    assert (found.kind, found.where) == ("missing_days", "default 2026-11-10")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_warehouse_is_told_to_be_migrated(tmp_path: Path, version: str) -> None:
    day = older_day(version, tmp_path)
    found = [one for one in examine(day.warehouse).ailments if one.kind == "older_version"]
    assert len(found) == 5
    assert {one.remedy for one in found} == {f"quota-audit migrate {day.warehouse} --apply"}


def test_a_disk_without_room_for_another_day_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 9_999, 1))
    (found,) = examine(tmp_path).ailments
    assert (found.kind, found.remedy) == ("little_space", f"quota-audit prune {tmp_path}")


def test_a_folder_that_this_user_may_not_write_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "runs")
    (found,) = examine(tmp_path).ailments
    assert (found.kind, found.where) == ("not_permitted", "runs")


def test_a_folder_without_tables_is_no_warehouse(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no tables"):
        examine(tmp_path)


def test_it_is_told_in_three_lines() -> None:
    one = Ailment("orphan", "runs/x", "No run names it", "It is old", "rm -r x")
    assert one.text() == "orphan: runs/x\n  No run names it. It is old.\n  → rm -r x"
