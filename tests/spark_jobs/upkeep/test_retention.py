"""Large tables of old days are removed; what later days and messages need never is."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.publish.read_facts import news_of
from spark_jobs.settings import RetentionSettings
from spark_jobs.upkeep.prune_warehouse import PRUNABLE, kept_days, old_days, old_tables, prune_days
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import APPENDED
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.write import continued_draft
from tests.spark_jobs.upkeep.made_days import DAYS, FIRST, audit, audited

KEPT = {"requests": 1}


def test_the_defaults_can_be_kept_and_the_command_line_wins() -> None:
    defaults = RetentionSettings().days
    assert kept_days(defaults, ()) == defaults
    assert kept_days(defaults, ["requests=7"]) == defaults | {"requests": 7}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("findings=9", "is not removed by age"),
        ("requests=0", "at least 1"),
        ("decisions=27", "at least 28"),
        ("requests", "is no retention"),
        ("requests=-1", "is no retention"),
    ],
)
def test_what_must_not_be_removed_is_refused(asked: str, why: str) -> None:
    with pytest.raises(BadInputError, match=why):
        kept_days({}, [asked])


@given(
    st.sets(st.integers(0, 60), min_size=1).map(lambda ns: {FIRST + dt.timedelta(n) for n in ns}),
    st.fixed_dictionaries({table: st.integers(1, 40) for table in PRUNABLE}),
)
def test_the_newest_day_stays_and_requests_until_the_next_day_is_audited(
    audited_days: set[dt.date], kept: dict[str, int]
) -> None:
    newest = max(audited_days)
    for day, tables in old_days(audited_days, kept, newest):
        assert day < newest
        assert all((newest - day).days >= kept[table] for table in tables)
        assert "requests" not in tables or day + dt.timedelta(1) in audited_days


def test_without_apply_days_and_bytes_are_told_and_nothing_is_removed(tmp_path: Path) -> None:
    days = audited(tmp_path)
    ran = CliRunner().invoke(app, ["prune", str(tmp_path), "--keep", "requests=2"])
    assert ran.exit_code == 0
    assert f"default {DAYS[0]}: requests " in ran.output
    assert "1 day, " in ran.output
    assert "Nothing is changed yet: add --apply." in ran.output
    assert read_table(days[0], "requests").num_rows == 1


def test_a_pruned_table_is_gone_from_the_disk_and_all_others_stay(tmp_path: Path) -> None:
    days = audited(tmp_path)
    ran = CliRunner().invoke(app, ["prune", str(tmp_path), "--keep", "requests=1", "--apply"])
    assert ran.exit_code == 0, ran.output
    for day in days[:2]:
        assert not list((day.runs / "requests").glob("*/*.parquet"))
        assert not day.plain_dir("requests").exists()
        for table in TABLES:
            if table not in ("requests", *APPENDED):
                assert read_table(day, table).num_rows == 1, table
    assert read_table(days[2], "requests").num_rows == 1
    assert old_tables(tmp_path, KEPT) == []


def test_who_asks_for_what_was_pruned_is_told_so(tmp_path: Path) -> None:
    day = audited(tmp_path)[0]
    prune_days(tmp_path, old_tables(tmp_path, KEPT), KEPT)
    with pytest.raises(
        BadInputError,
        match=r"requests of default 2026-11-09 was removed by 'quota-audit prune', which kept 1 d",
    ):
        read_table(day, "requests")


def test_news_and_what_days_hand_on_are_those_of_before(tmp_path: Path) -> None:
    days = audited(tmp_path)
    before = [news_of(day).changes for day in days]
    prune_days(tmp_path, old_tables(tmp_path, KEPT), KEPT)
    assert [news_of(day).changes for day in days] == before
    assert [day.carried() for day in days][1:] == [
        {"before": str(one), "after": str(other)} for one, other in pairwise(DAYS)
    ]


def test_a_pruned_day_can_be_audited_again(tmp_path: Path) -> None:
    day = audited(tmp_path)[0]
    prune_days(tmp_path, old_tables(tmp_path, KEPT), KEPT)
    audit(day, None)
    assert read_table(day, "requests").num_rows == 1
    assert day.pruned() == {}


def test_a_day_that_is_being_audited_is_not_pruned(tmp_path: Path) -> None:
    day = audited(tmp_path)[0]
    continued_draft(day)
    with pytest.raises(BadInputError, match="is being audited by single steps on the command line"):
        prune_days(tmp_path, old_tables(tmp_path, KEPT), KEPT)
    assert read_table(day, "requests").num_rows == 1
