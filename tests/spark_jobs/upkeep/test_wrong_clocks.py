"""A day of the future, as earlier versions audited one, changes nothing of the real days."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.upkeep.ailment import Ailment
from spark_jobs.upkeep.doctor import Examination, examine
from spark_jobs.upkeep.prune_warehouse import old_tables, prune_days
from spark_jobs.warehouse.days import later_day, newest_day
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of, recommended_day
from spark_jobs.warehouse.write import write_table
from tests.builders.tables_builder import row, table_of
from tests.spark_jobs.upkeep.made_days import ALL, DAYS, audited

NOW = dt.datetime(2026, 11, 12, 3, tzinfo=dt.UTC)
FUTURE = (dt.date(2030, 1, 1), dt.date(9999, 12, 31))
KEPT = {"requests": 1, "decisions": 28, "rates": 1}


@pytest.fixture(autouse=True)
def one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX")


def made(warehouse: Path, *more: dt.date) -> list[RunScope]:
    """Audit DAYS, each with a million requests, and ``more`` with few."""
    days = [*audited(warehouse), *audited(warehouse, more)]
    for scope in days[: len(DAYS)]:
        files = table_of("files", [row("files", requests=1_000_000)])
        write_table(files, "files", scope)
    return days


def contents(scope: RunScope) -> dict[str, list[dict]]:
    return {table: read_table(scope, table).to_pylist() for table in ALL}


@pytest.mark.parametrize("future", [FUTURE[:1], FUTURE[1:], FUTURE], ids=str)
def test_prune_counts_from_the_newest_day_that_can_be(
    tmp_path: Path, future: tuple[dt.date, ...]
) -> None:
    days = made(tmp_path, *future)
    kept = {"requests": 2, "decisions": 28, "rates": 2}
    old = old_tables(tmp_path, kept, NOW)
    assert [(one.day, set(one.bytes_of)) for one in old] == [(DAYS[0], {"requests", "rates"})]
    before = [contents(scope) for scope in days[1:]]
    prune_days(tmp_path, old, kept)
    assert [contents(scope) for scope in days[1:]] == before


def test_where_all_days_are_later_nothing_is_pruned(tmp_path: Path) -> None:
    made(tmp_path, *FUTURE)
    assert old_tables(tmp_path, KEPT, NOW - dt.timedelta(days=4000)) == []


def test_the_command_does_not_break_at_the_end_of_the_calendar(tmp_path: Path) -> None:
    days = made(tmp_path, FUTURE[1])
    before = [contents(scope) for scope in days]
    ran = CliRunner().invoke(app, ["prune", str(tmp_path), "--apply"])
    assert (ran.exit_code, ran.exception) == (0, None), ran.output
    assert [contents(scope) for scope in days] == before


def test_the_newest_day_is_none_of_the_future() -> None:
    assert newest_day([*DAYS, *FUTURE], DAYS[-1]) == DAYS[-1]
    assert newest_day([*DAYS, *FUTURE], DAYS[0]) == DAYS[0]
    # Then the clock is what is wrong.
    assert newest_day(DAYS, DAYS[0] - dt.timedelta(days=1)) == DAYS[-1]


@pytest.mark.parametrize("future", FUTURE, ids=str)
def test_proposals_are_by_default_of_the_newest_day_that_can_be(
    tmp_path: Path, future: dt.date
) -> None:
    made(tmp_path, future)
    latest = NOW.date() + dt.timedelta(days=1)
    assert recommended_day(tmp_path, "default", None, latest).day == DAYS[-1]
    assert recommended_day(tmp_path, "default", future, latest).day == future


def test_a_day_of_the_future_is_told_and_put_away_as_told(tmp_path: Path) -> None:
    warehouse = tmp_path / "ware house"
    days = made(warehouse, *FUTURE)
    before = [contents(scope) for scope in days[:3]]
    # What apply did by the proposals of that day was done: rollback needs it.
    applied = warehouse / f"applied_changes/cluster=default/date={FUTURE[0]}/x.parquet"
    applied.parent.mkdir(parents=True)
    applied.touch()
    found = examine(warehouse, now=NOW).ailments
    assert [(one.kind, one.where) for one in found] == [
        *(("future_day", f"default {day}") for day in FUTURE),
        # The timeline of all days, of which other tools saw what the day of the future knew.
        ("wrong_link", "quota_changes/cluster=default"),
    ]
    follow(found)
    assert examine(warehouse, now=NOW) == Examination(3, ())
    assert days_of(warehouse, "default") == [*DAYS]
    assert [contents(scope) for scope in days[:3]] == before
    assert (warehouse / "quota_changes/cluster=default").is_dir()
    assert applied.is_file()
    # Nothing is lost: it comes back.
    packed = tmp_path / f"ware house-default-{FUTURE[0]}.tar"
    subprocess.run(["tar", "-C", warehouse, "-xf", packed], check=True)
    assert contents(days[3])["files"]


def test_a_stray_day_of_the_past_is_told(tmp_path: Path) -> None:
    made(tmp_path, dt.date(2019, 5, 6))
    (found,) = examine(tmp_path, now=NOW).ailments
    assert (found.kind, found.where) == ("stray_day", "default 2019-05-06")


def test_where_most_days_are_later_the_clock_is_what_is_told(tmp_path: Path) -> None:
    made(tmp_path)
    (found,) = examine(tmp_path, now=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)).ailments
    assert found.kind == "clock_behind"
    assert found.found.startswith("3 of 3 days, with most of the requests, are after this machine")
    assert found.remedy.startswith("set this machine's clock; if it is right, a broker's was wrong")


def test_many_days_of_few_requests_do_not_say_that_the_clock_is_wrong(tmp_path: Path) -> None:
    more = [FUTURE[0] + dt.timedelta(days=10 * n) for n in range(5)]
    made(tmp_path, *more)
    found = examine(tmp_path, now=NOW).ailments
    assert [one.where for one in found if one.kind == "future_day"] == [
        f"default {day}" for day in more
    ]


def test_a_folder_of_before_1970_is_passed_by(tmp_path: Path) -> None:
    days = made(tmp_path)
    for kind in ("runs", "files"):
        (tmp_path / kind / "cluster=default" / "date=0001-01-01").mkdir()
    assert examine(tmp_path, now=NOW).ailments == ()
    assert days_of(tmp_path, "default") == [scope.day for scope in days]


def damaged(scope: RunScope) -> None:
    (path,) = scope.partition_dir("decisions").glob("*.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


BREAKS = {
    "a future day": lambda days: audited(days[0].warehouse, FUTURE),
    "a pointer that is gone": lambda days: (days[1].runs / "current/published.json").unlink(),
    "a link to a pointer that is gone": lambda days: (days[1].runs / "published.json").unlink(),
    "a link that is gone": lambda days: (days[1].runs / "current").unlink(),
    "a damaged file": lambda days: damaged(days[1]),
    "a missing file": lambda days: next(days[1].partition_dir("rates").glob("*")).unlink(),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_whatever_is_broken_upkeep_removes_nothing_real(tmp_path: Path, name: str) -> None:
    days = made(tmp_path / "ware house")
    warehouse = days[0].warehouse
    BREAKS[name](days)
    before = contents_of(warehouse)
    prune_days(warehouse, old_tables(warehouse, {"requests": 30}, NOW), {"requests": 30})
    CliRunner().invoke(app, ["compact", str(warehouse), "--apply"])
    CliRunner().invoke(app, ["migrate", str(warehouse), "--apply"])
    for _ in range(2):  # what was put right may let more be seen
        follow(examine(warehouse, now=NOW).ailments)
    after = contents_of(warehouse)
    real = {path for path in before if not _is_future(path)} - {"quota_changes/cluster=default"}
    assert {path: after.get(path) for path in real} == {path: before[path] for path in real}
    assert (warehouse / "quota_changes/cluster=default").is_dir()


def follow(ailments: Sequence[Ailment]) -> None:
    """Do what doctor says, word by word."""
    for one in ailments:
        if "ARCHIVE" not in one.remedy:  # an audit writes the day anew
            command = one.remedy.removeprefix("while no audit runs: ")
            subprocess.run(["bash", "-c", command], check=True)


def _is_future(path: str) -> bool:
    return any(f"date={day}" in path for day in FUTURE)


def contents_of(warehouse: Path) -> dict[str, bytes]:
    """Return what every file of a warehouse holds, and where every link leads."""
    found = {}
    for path in warehouse.rglob("*"):
        name = path.relative_to(warehouse).as_posix()
        if path.is_symlink():
            found[name] = os.fsencode(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def test_the_calendar_ends() -> None:
    assert later_day(FUTURE[1], 30) == dt.date.max
    assert later_day(DAYS[0], 1) == DAYS[1]
    assert RunScope(Path("w"), "default", FUTURE[1]).day_after is None
