"""Tables are replaced a whole partition at a time, and nothing else is touched."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.warehouse import write
from spark_jobs.warehouse.read import open_table, read_frame, read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import QUARANTINE, TABLES
from spark_jobs.warehouse.write import write_table
from tests.builders.tables_builder import row

MONDAY, TUESDAY = dt.date(2026, 11, 9), dt.date(2026, 11, 10)


def scope(warehouse: Path, day: dt.date = MONDAY, cluster: str = "default") -> RunScope:
    return RunScope(warehouse, cluster, day)


def brokers(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([row("brokers", broker_id=i) for i in ids], TABLES["brokers"])


def test_a_small_table_replaces_its_own_partition_only(tmp_path: Path) -> None:
    write_table(brokers(1, 2), "brokers", scope(tmp_path))
    write_table(brokers(3), "brokers", scope(tmp_path, TUESDAY))
    write_table(brokers(4), "brokers", scope(tmp_path))
    assert read_table(scope(tmp_path), "brokers")["broker_id"].to_pylist() == [4]
    assert read_table(scope(tmp_path, TUESDAY), "brokers")["broker_id"].to_pylist() == [3]
    assert days_of(tmp_path, "default", "brokers") == [MONDAY, TUESDAY]
    assert sorted(p.name for p in scope(tmp_path).partition_dir("brokers").iterdir()) == [
        "part-0.parquet"
    ]


def test_rows_that_are_not_the_contracts_are_not_written(tmp_path: Path) -> None:
    write_table(brokers(1), "brokers", scope(tmp_path))
    with pytest.raises((pa.ArrowInvalid, ValueError)):
        write_table(pa.table({"broker_id": [2]}), "brokers", scope(tmp_path))
    assert read_table(scope(tmp_path), "brokers")["broker_id"].to_pylist() == [1]
    leftovers = [p.name for p in (tmp_path / "brokers" / "cluster=default").iterdir()]
    assert leftovers == ["date=2026-11-09"]


def test_a_table_nobody_wrote_has_no_rows(tmp_path: Path) -> None:
    assert read_table(scope(tmp_path), "decisions").schema.equals(TABLES["decisions"])
    assert open_table(scope(tmp_path), "decisions").count_rows() == 0


def quarantine(spark: SparkSession, lines: int) -> DataFrame:
    """Return rows of quarantine."""
    schema = pa.schema([f.with_nullable(True) for f in QUARANTINE])
    rows = [row("quarantine", source_line=n) for n in range(lines)]
    return spark.createDataFrame(
        pa.Table.from_pylist(rows, schema), schema=from_arrow_schema(schema)
    )


@pytest.mark.spark
def test_rows_keep_their_order_in_groups_that_a_reader_of_few_can_pass_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "ROWS_IN_GROUP", 100)
    ordered = quarantine(spark, 250).coalesce(1).sortWithinPartitions("source_line")
    write_table(ordered, "quarantine", scope(tmp_path))
    (file,) = scope(tmp_path).partition_dir("quarantine").glob("*.parquet")
    groups = [pq.ParquetFile(file).metadata.row_group(i).num_rows for i in range(3)]
    assert groups == [100, 100, 50]
    assert pq.read_table(file)["source_line"].to_pylist() == list(range(250))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["a b", "50%20", "ü"])
def test_tables_are_on_the_machine_s_own_file_system_whatever_hadoop_s_default_is(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        here = scope(tmp_path / name)
        write_table(quarantine(spark, 2), "quarantine", here)
        assert read_frame(spark, "quarantine", here).count() == 2
    finally:
        hadoop.set("fs.defaultFS", before)
    assert read_table(here, "quarantine").num_rows == 2


def counts(spark: SparkSession, warehouse: Path, cluster: str = "default") -> tuple[int, int]:
    monday, tuesday = (
        read_frame(spark, "quarantine", scope(warehouse, day, cluster)).count()
        for day in (MONDAY, TUESDAY)
    )
    return monday, tuesday


@pytest.mark.spark
def test_a_large_table_replaces_its_day_and_empties_it_where_there_are_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(lines: int, day: dt.date, cluster: str = "default") -> None:
        where = scope(tmp_path, day, cluster)
        write_table(quarantine(spark, lines) if lines else None, "quarantine", where)

    for cluster in ("default", "other"):
        write(2, MONDAY, cluster)
        write(3, TUESDAY, cluster)
    assert counts(spark, tmp_path) == (2, 3)
    write(1, MONDAY)
    assert counts(spark, tmp_path) == (1, 3)
    write(0, TUESDAY)
    assert counts(spark, tmp_path) == (1, 0)
    assert counts(spark, tmp_path, "other") == (2, 3)
