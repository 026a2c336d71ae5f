"""Files of workers read back as what was written, by Arrow and by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs.replay.rates.stream_tables import coded
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.worker_files import SEARCHED_BY, TableFiles, layout
from tests.builders.tables_builder import row

WRITTEN = ("requests", "decisions", "rates", "quota_state", "agreement")


def rows_of(table: str) -> pa.Table:
    return pa.Table.from_pylist([row(table), row(table)], schema=TABLES[table])


def encoded(table: pa.Table) -> pa.Table:
    columns = [
        c.dictionary_encode() if pa.types.is_string(c.type) else c for c in table.itercolumns()
    ]
    return pa.Table.from_arrays(columns, names=table.column_names).cast(coded(table.schema))


@pytest.mark.parametrize("table", WRITTEN)
def test_text_comes_back_as_text_though_it_was_a_dictionary(table: str, tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    files.add(table, encoded(rows_of(table)))
    (path,) = files.close()
    assert pq.read_table(path).cast(TABLES[table]).equals(rows_of(table))
    assert not any(pa.types.is_dictionary(f.type) for f in pq.read_schema(path))


@pytest.mark.spark
def test_spark_reads_what_workers_wrote(spark: SparkSession, tmp_path: Path) -> None:
    for table in WRITTEN:
        files = TableFiles(tmp_path)
        files.add(table, encoded(rows_of(table)))
        (path,) = files.close()
        found = spark.read.parquet(path).toArrow()
        assert found.cast(TABLES[table]).to_pylist() == rows_of(table).to_pylist()


def test_only_what_is_searched_by_has_statistics(tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    files.add("decisions", encoded(rows_of("decisions")))
    (path,) = files.close()
    group = pq.read_metadata(path).row_group(0)
    told = {
        group.column(i).path_in_schema
        for i in range(group.num_columns)
        if group.column(i).statistics is not None
    }
    assert told == set(SEARCHED_BY) & set(TABLES["decisions"].names)


def test_times_are_differences_and_text_and_bounds_are_dictionaries() -> None:
    chosen = layout(TABLES["decisions"], SEARCHED_BY)
    assert {"bound", "quota_user", "verdict"} <= set(chosen["use_dictionary"])
    assert {"recorded_at_ms", "source_line", "correlation_id"} <= set(chosen["column_encoding"])
    assert not set(chosen["use_dictionary"]) & set(chosen["column_encoding"])
    nested = layout(TABLES["requests"], ())
    assert "topics.list.element.records_bytes" in nested["column_encoding"]
    assert "topics.list.element.topic" in nested["use_dictionary"]


def test_no_rows_leave_no_file_and_a_failed_task_leaves_none(tmp_path: Path) -> None:
    files = TableFiles(tmp_path)
    files.add("decisions", TABLES["decisions"].empty_table())
    assert files.close() == []
    files = TableFiles(tmp_path)
    files.add("decisions", rows_of("decisions"))
    files.discard()
    assert not list(tmp_path.rglob("*.parquet"))
