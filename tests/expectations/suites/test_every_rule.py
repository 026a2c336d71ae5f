from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import great_expectations as gx
import pytest
from pyspark.sql import SparkSession

from expectations.validate.runner import SUITES
from spark_jobs.warehouse.pipeline import STAGES
from tests.builders.tables_builder import scope_in
from tests.expectations import broken_warehouse
from tests.expectations.broken_warehouse import BY_SPARK, BrokenRows, rules_of, write_sound_day
from tests.expectations.suites.breaking_rows import IMPLIED, WHOLE_TABLE, Row, breaks_of

pytestmark = pytest.mark.spark

Rules = dict[tuple[str, str], dict[str, Any]]

ROWS = [(table, rule) for table in SUITES for rule in breaks_of(table)]
STAGE_OF = {table: stage for stage, tables in STAGES.items() for table in tables}


class Worlds:
    """What validation says of each broken warehouse, validated once per engine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.broken_rows = BrokenRows()
        self.dropped: dict[str, str] = {}
        self.run = cache(self._run)

    def _run(self, world: str, stage: str) -> Rules:
        folder = self._folder / f"{world}-{stage}"
        if world == "rows":
            scope = scope_in(folder)
            self.broken_rows.write(scope, stage)
            return rules_of(scope, stage)
        scope = write_sound_day(folder)
        if world == "empty":
            broken_warehouse.write_empty(scope)
        elif world == "miscounted":
            broken_warehouse.write_miscounted(scope)
        elif world == "column_missing":
            for table in STAGES[stage]:
                self.dropped[table] = broken_warehouse.drop_column(scope, table)
        return rules_of(scope, stage)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    return Worlds(tmp_path_factory.mktemp("worlds"))


def not_holding(rules: Rules) -> set[tuple[str, str]]:
    return {name for name, rule in rules.items() if rule["error"] or not rule["success"]}


def comparable(rows: list[Row], columns: list[str]) -> list[list[str]]:
    """Return rows in one order and notation; what is no number is text in a result."""
    return sorted([_notation(row[column]) for column in columns] for row in rows)


def _notation(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"{str(value)!r}"
    return repr(float(value)) if isinstance(value, (int, float)) else repr(value)


def suite_rules() -> Iterator[tuple[str, str]]:
    gx.get_context(mode="ephemeral")
    for table, suite in SUITES.items():
        yield from ((table, one.meta["rule"]) for one in suite().rules.expectations)


def test_every_rule_of_every_suite_has_rows_that_break_it() -> None:
    rules = list(suite_rules())
    assert len(rules) == len(set(rules)), "two rules of a suite have the same name"
    assert set(rules) == set(ROWS) | set(WHOLE_TABLE)


@pytest.mark.parametrize("stage", STAGES)
def test_sound_tables_break_no_rule(worlds: Worlds, stage: str) -> None:
    rules = worlds.run("sound", stage)
    assert not_holding(rules) == set()
    assert {rule["failed_rows"] for rule in rules.values()} == {0}


@pytest.mark.parametrize(("table", "rule"), ROWS, ids=lambda name: name)
def test_a_rule_names_the_rows_that_break_it_and_no_others(
    worlds: Worlds, table: str, rule: str
) -> None:
    found = worlds.run("rows", STAGE_OF[table])[table, rule]
    expect_own_rows(worlds.broken_rows, found, table, rule)


@pytest.mark.parametrize("stage", STAGES)
def test_in_the_tables_of_broken_rows_no_other_rule_is_broken(worlds: Worlds, stage: str) -> None:
    broken = {(table, rule) for table, rule in ROWS if STAGE_OF[table] == stage}
    assert not_holding(worlds.run("rows", stage)) == broken


@pytest.mark.parametrize("stage", BY_SPARK)
def test_spark_names_the_same_rows(tmp_path: Path, stage: str, spark: SparkSession) -> None:
    broken_rows = BrokenRows(only=BY_SPARK[stage])
    scope = scope_in(tmp_path)
    broken_rows.write(scope, stage)
    rules = rules_of(scope, stage, spark)
    assert not_holding(rules) == set(broken_rows.named)
    for table, rule in broken_rows.named:
        expect_own_rows(broken_rows, rules[table, rule], table, rule)


@pytest.mark.parametrize(
    ("table", "rule"), [n for n, w in WHOLE_TABLE.items() if w != "column_missing"]
)
def test_a_rule_on_a_whole_table_is_broken_alone(worlds: Worlds, table: str, rule: str) -> None:
    world = WHOLE_TABLE[table, rule]
    expected = {name for name, where in WHOLE_TABLE.items() if where == world}
    found = not_holding(worlds.run(world, STAGE_OF[table]))
    assert (table, rule) in found
    assert found == expected | IMPLIED.get(world, set())


@pytest.mark.parametrize("table", SUITES)
def test_a_missing_column_breaks_the_checks_that_need_it_and_no_others(
    worlds: Worlds, table: str
) -> None:
    rules = worlds.run("column_missing", STAGE_OF[table])
    column = worlds.dropped[table]
    broken = {n: r for n, r in rules.items() if n[0] == table and (r["error"] or not r["success"])}
    assert rules[table, "columns_of_the_contract"]["error"] == f"missing column {column}"
    assert all(rule["error"] for rule in broken.values()), "the data is called bad"
    unneeded = {name for name, rule in rules.items() if name[0] == table} - set(broken)
    assert not [name for name in unneeded if name[1] == f"{column}_is_there"]


def expect_own_rows(broken_rows: BrokenRows, found: dict[str, Any], table: str, rule: str) -> None:
    own = broken_rows.named[table, rule]
    assert found["error"] is None
    assert not found["success"]
    assert found["failed_rows"] == len(own)
    columns = [name for name in found["sample"][0] if not name.startswith("request_recorded_")]
    assert set(SUITES[table]().key) <= set(columns)
    assert comparable(found["sample"], columns) == comparable(own, columns)
