"""Many files of a day become one for each broker; rows, their order and digests stay."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.read_logs import PartWriter
from spark_jobs.replay.broker_stream import request_chunks, row_groups
from spark_jobs.upkeep.compact_warehouse import compact_days, scattered_days
from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.upkeep.doctor import Examination, examine
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.tables import REQUESTS
from spark_jobs.warehouse.write import continued_draft, publish_draft, put_files
from tests.builders.tables_builder import NOON_MS, row
from tests.spark_jobs.upkeep.made_days import DAYS, audited

BROKERS, LOGS, ROWS = 3, 8, 20


def part(folder: Path, broker: int, log: int) -> Path:
    """Write what a worker writes of one log file."""
    rows = [
        row(
            "requests",
            broker_id=broker,
            recorded_estimate_us=(NOON_MS + 1000 * log + line) * 1000,
            source_file=f"broker={broker}/kafka-request.log.{log}",
            source_line=line,
        )
        for line in range(ROWS)
    ]
    writer = PartWriter(folder)
    writer.add("requests", None, pa.RecordBatch.from_pylist(rows, REQUESTS))
    (made,) = writer.close()
    return storage_path(made.path)


@pytest.fixture
def day(tmp_path: Path) -> RunScope:
    scope = audited(tmp_path / "warehouse")[0]
    made = continued_draft(scope)
    files = [part(tmp_path / "parts", b, log) for log in range(LOGS) for b in range(BROKERS)]
    ahead = [part(tmp_path / "parts", b, LOGS) for b in range(BROKERS)]
    put_files(files, "requests", made, beside={"_ahead": ahead})
    return publish_draft(made)


def in_order(scope: RunScope) -> list[tuple[str, int]]:
    """Return the lines as a replay reads them."""
    found = []
    for broker, groups in sorted(row_groups(scope.partition_dir("requests")).items()):
        for rows, order, _ in request_chunks(groups, broker):
            taken = rows.take(pa.array(order))
            files = taken["source_file"].cast(pa.string()).to_pylist()
            found += zip(files, taken["source_line"].to_pylist(), strict=True)
    return found


def test_each_broker_has_one_file_and_replays_read_the_same_lines_in_order(day: RunScope) -> None:
    before, lines = table_digest(read_table(day, "requests")), in_order(day)
    compact_days(day.warehouse, scattered_days(day.warehouse))
    folder = day.partition_dir("requests")
    names = [f"broker-{broker}.parquet" for broker in range(BROKERS)]
    assert sorted(p.name for p in folder.glob("*.parquet")) == names
    assert sorted(p.name for p in (folder / "_ahead").iterdir()) == names
    assert table_digest(read_table(day, "requests")) == before
    assert in_order(day) == lines
    assert len(lines) == BROKERS * LOGS * ROWS


def test_small_row_groups_become_large_ones_of_one_broker(day: RunScope) -> None:
    compact_days(day.warehouse, scattered_days(day.warehouse))
    for broker, groups in row_groups(day.partition_dir("requests")).items():
        assert [(g.rows, g.is_shared) for g in groups] == [(LOGS * ROWS, False)], broker


def test_what_was_merged_is_not_merged_again_and_nothing_is_left_over(day: RunScope) -> None:
    compact_days(day.warehouse, scattered_days(day.warehouse))
    assert scattered_days(day.warehouse) == []
    assert len(list((day.runs / "requests").iterdir())) == 1
    assert examine(day.warehouse) == Examination(3, ())


def test_a_table_that_lacks_a_file_is_not_merged(day: RunScope) -> None:
    scattered = scattered_days(day.warehouse)
    min(day.partition_dir("requests").glob("*.parquet")).unlink()
    with pytest.raises(BadInputError, match=r"requests .* is damaged: .* \(is missing\)"):
        compact_days(day.warehouse, scattered)
    assert len(list(day.partition_dir("requests").glob("*.parquet"))) == BROKERS * LOGS - 1


def test_without_apply_files_are_counted_and_stay(day: RunScope) -> None:
    ran = CliRunner().invoke(app, ["compact", str(day.warehouse)])
    assert ran.exit_code == 0
    assert f"default {DAYS[0]}: requests {BROKERS * LOGS} → {BROKERS} files" in ran.output
    assert len(list(day.partition_dir("requests").glob("*.parquet"))) == BROKERS * LOGS


def test_only_days_before_the_one_named_are_merged(day: RunScope) -> None:
    assert scattered_days(day.warehouse, DAYS[0]) == []
    (found,) = scattered_days(day.warehouse, DAYS[0] + dt.timedelta(days=1))
    assert found.day == DAYS[0]


def test_files_say_with_which_version_they_are_written(day: RunScope) -> None:
    compact_days(day.warehouse, scattered_days(day.warehouse))
    for path in day.partition_dir("requests").rglob("*.parquet"):
        assert pq.read_metadata(path).metadata[b"quota-audit.schema"] == b"1"
