"""Warehouses in which rules are broken on purpose, and what validation says of them."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from expectations.validate.runner import validate_tables
from spark_jobs.errors import AuditFailedError
from spark_jobs.settings import ValidateSettings
from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import TABLES
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.expectations.suites.breaking_rows import IDENTITY, Row, breaks_of

SOUND_ROWS = 10
ROWS_OF_SMALL = 5
"""Tables with more rows are checked by Spark where there is one."""

BY_SPARK = {
    "ingested": {
        "files": {
            "one_row_per_file",
            "source_file_is_not_blank",
            "lines_are_conserved",
            "few_lines_in_quarantine",
        },
    },
    "replayed": {
        "quota_changes": {"interval_not_empty", "intervals_do_not_overlap"},
        "decisions": {
            "known_verdict",
            "one_decision_per_line",
            "log_time_ms_is_in_the_day",
            "has_its_request",
            "recorded_in_logged_phases",
            "sensor_time_not_backwards",
            "amount_not_negative",
            "logged_refusals_are_mutations",
            "no_quota_has_no_bound",
            "judged_has_bound",
            "blame_has_replayed_admitted",
            "under_throttled_by_throttle",
            "source_line_is_there",
            "verdict_is_there",
        },
        "rates": {"second_is_whole", "rate_not_negative"},
    },
}
"""Rules that Spark evaluates in tests: every kind of expectation and condition at least once."""

NO_REQUEST = 9003
"""The source_line of a decision that is about no request."""


class BrokenRows:
    """The tables in which every rule that looks at rows is broken, each by rows of its own.

    Where rules are given only those are broken, and a table without any is small and sound.
    """

    def __init__(self, only: dict[str, set[str]] | None = None) -> None:
        self._only = only
        self.named: dict[tuple[str, str], list[Row]] = defaultdict(list)
        self.tables = {table: self._rows(table) for table in TABLES}
        if ("files", "few_lines_in_quarantine") in self.named:
            self._count_lines()

    def _rows(self, table: str) -> list[Row]:
        wanted = None if self._only is None else self._only.get(table, set())
        sound = ROWS_OF_SMALL if wanted == set() else SOUND_ROWS
        rows = [row(table, **IDENTITY[table](i + 1)) for i in range(sound)]
        for rule, broken in breaks_of(table).items():
            if wanted is not None and rule not in wanted:
                continue
            for overrides in broken.beside:
                rows.append(row(table, **IDENTITY[table](len(rows) + 1) | overrides))
            for overrides in broken.named:
                rows.append(row(table, **IDENTITY[table](len(rows) + 1) | overrides))
                self.named[table, rule].append(rows[-1])
        return rows

    def _count_lines(self) -> None:
        (counted,) = self.named["files", "few_lines_in_quarantine"]
        others = [file for file in self.tables["files"] if file is not counted]
        for count, table in (("requests", "requests"), ("quarantined", "quarantine")):
            counted[count] = len(self.tables[table]) - sum(file[count] or 0 for file in others)
        counted["lines_read"] = counted["requests"] + counted["quarantined"] + counted["other"]

    def write(self, scope: RunScope, stage: str) -> None:
        """Write the tables of ``stage``, and the requests that its decisions are about."""
        for table in STAGES[stage]:
            write_rows(scope, table, self.tables[table])
        if stage == "replayed":
            lines = {decision["source_line"] for decision in self.tables["decisions"]}
            known = sorted(lines - {None, NO_REQUEST})
            write_rows(scope, "requests", [row("requests", source_line=n) for n in known])


def write_sound_day(warehouse: Path) -> RunScope:
    """Write a day of ten sound rows in every table and return its scope."""
    scope = scope_in(warehouse)
    for table, identity in IDENTITY.items():
        rows = [row(table, **identity(i + 1)) for i in range(SOUND_ROWS)]
        write_rows(scope, table, [] if table == "quarantine" else rows)
    counts = {"lines_read": SOUND_ROWS, "requests": SOUND_ROWS, "other": 0}
    write_rows(scope, "files", [row("files", **counts)])
    return scope


def write_empty(scope: RunScope) -> None:
    """Leave the tables of stage ingested without rows."""
    for table in STAGES["ingested"]:
        write_rows(scope, table, [])


def write_miscounted(scope: RunScope) -> None:
    """Let files count requests and quarantined lines that are not there."""
    counts = {"lines_read": 100, "requests": 39, "quarantined": 60, "other": 1}
    write_rows(scope, "files", [row("files", **counts)])


def drop_column(scope: RunScope, table: str) -> str:
    """Write ``table`` without the last column of its contract and return that column's name."""
    folder = scope.partition_dir(table)
    stored = pq.read_table(folder / "part-0.parquet")
    name = TABLES[table].names[-1]
    pq.write_table(stored.drop_columns(name), folder / "part-0.parquet")
    return name


def written_report(scope: RunScope, stage: str) -> dict[str, Any]:
    """Return what the validation of ``stage`` wrote."""
    path = scope.output_dir("data_quality") / f"{stage}.json"
    return json.loads(path.read_text("utf-8"))


def rules_of(
    scope: RunScope, stage: str, spark: SparkSession | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """Validate ``stage`` and return every rule as it was written.

    Where ``spark`` is given it checks the tables of :data:`BY_SPARK`.
    """
    settings = ValidateSettings(in_memory_rows_max=2_000_000 if spark is None else ROWS_OF_SMALL)
    with contextlib.suppress(AuditFailedError):
        validate_tables(scope, stage, spark, settings)
    tables = written_report(scope, stage)["tables"]
    by_spark = {table["table"] for table in tables if table["engine"] == "spark"}
    assert by_spark == (set(BY_SPARK[stage]) if spark else set())
    return {(table["table"], rule["rule"]): rule for table in tables for rule in table["rules"]}
