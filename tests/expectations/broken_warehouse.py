"""Warehouses in which rules are broken on purpose, and what validation says of them."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from expectations.runner import validate_tables
from expectations.stages import STAGES
from spark_jobs.errors import AuditFailedError
from spark_jobs.settings import ValidateSettings
from spark_jobs.tables import TABLES
from spark_jobs.warehouse import RunScope
from tests.expectations.breaking_rows import IDENTITY, Row, breaks_of
from tests.tables_builder import row, scope_in, table_of, write_rows

SOUND_ROWS = 10
ROWS_OF_SMALL = 27
LARGE: dict[str, set[str]] = {
    "ingested": {"requests", "files"},
    "replayed": {"decisions", "rates", "quota_changes"},
}
"""Tables of :class:`BrokenRows` with more rows: together they have every expectation of our own."""

NO_REQUEST = 9003
"""The source_line of a decision that is about no request."""


class BrokenRows:
    """The tables in which every rule that looks at rows is broken, each by rows of its own."""

    def __init__(self) -> None:
        self.named: dict[tuple[str, str], list[Row]] = defaultdict(list)
        self.tables = {table: self._rows(table) for table in TABLES}
        self._count_lines()

    def _rows(self, table: str) -> list[Row]:
        rows = [row(table, **IDENTITY[table](i + 1)) for i in range(SOUND_ROWS)]
        for rule, broken in breaks_of(table).items():
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


def rules_of(
    scope: RunScope, stage: str, spark: SparkSession | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """Validate ``stage`` and return every rule as it was written.

    Where ``spark`` is given it checks the tables that are :data:`LARGE`.
    """
    settings = ValidateSettings(in_memory_rows_max=2_000_000 if spark is None else ROWS_OF_SMALL)
    with contextlib.suppress(AuditFailedError):
        validate_tables(scope, stage, spark, settings)
    written = json.loads((scope.output_dir("data_quality") / f"{stage}.json").read_text("utf-8"))
    by_spark = {table["table"] for table in written["tables"] if table["engine"] == "spark"}
    assert by_spark == (LARGE[stage] if spark else set())
    return {
        (table["table"], rule["rule"]): rule
        for table in written["tables"]
        for rule in table["rules"]
    }


def as_stored(table: str, rows: list[Row]) -> list[Row]:
    """Return ``rows`` as a Parquet file of ``table`` holds them, in its types."""
    stored: pa.Table = table_of(table, rows)
    return stored.to_pylist()
