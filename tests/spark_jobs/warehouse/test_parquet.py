"""Every file of a table says which version of the schema it has, and which program wrote it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs.errors import BadInputError
from spark_jobs.upkeep.migrate_warehouse import MIGRATIONS
from spark_jobs.version import VERSION
from spark_jobs.warehouse.parquet import MadeBy, check_file, made_by_now, made_by_of_file, stamped
from spark_jobs.warehouse.read import made_by, program_of, read_batches, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS, TABLES
from spark_jobs.warehouse.write import write_table
from tests.builders.tables_builder import forget_files, row, scope_in, table_of


def footers(scope: RunScope, table: str) -> list[pq.FileMetaData]:
    return [pq.read_metadata(path) for path in scope.partition_dir(table).glob("*.parquet")]


def test_every_table_has_a_version_and_every_older_one_a_migration() -> None:
    assert SCHEMA_VERSIONS.keys() == TABLES.keys()
    older = {(table, n) for table, now in SCHEMA_VERSIONS.items() for n in range(1, now)}
    assert MIGRATIONS.keys() == older


def test_a_file_written_by_arrow_and_its_run_say_it(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_table(pa.Table.from_pylist([row("files")], TABLES["files"]), "files", scope)
    assert [made_by_of_file(one) for one in footers(scope, "files")] == [made_by_now("files")]
    assert scope.made() == {"files": MadeBy(2, VERSION)}


def damaged(path: Path, at: float, bit: int, *, in_footer: bool = False) -> None:
    """Flip one bit of a file's pages or footer, ``at`` a share of their bytes."""
    content = bytearray(path.read_bytes())
    pages_end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    begin, end = (pages_end, len(content)) if in_footer else (4, pages_end)
    content[begin + int(at * (end - begin))] ^= 1 << bit
    path.write_bytes(content)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_every_flipped_bit_of_a_footer_is_told(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int
) -> None:
    scope = scope_in(tmp_path_factory.mktemp("warehouse"))
    write_table(table_of("decisions", [row("decisions")]), "decisions", scope)
    (path,) = scope.partition_dir("decisions").glob("*.parquet")
    damaged(path, at, bit, in_footer=True)
    with pytest.raises(BadInputError, match=r"part-0\.parquet \(is not as it was written\)"):
        read_table(scope, "decisions")


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_page_is_read_as_another_value(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int
) -> None:
    scope = scope_in(tmp_path_factory.mktemp("warehouse"))
    drawn = Random(7)
    rows = [row("decisions", amount=drawn.random(), source_line=i) for i in range(500)]
    write_table(table_of("decisions", rows), "decisions", scope)
    whole = read_table(scope, "decisions")
    (path,) = scope.partition_dir("decisions").glob("*.parquet")
    damaged(path, at, bit)
    for read in (
        lambda: read_table(scope, "decisions"),
        lambda: pa.Table.from_batches(read_batches(scope, "decisions", whole.column_names)),
    ):
        found = whole
        with suppress(BadInputError):  # a flag that nobody reads may be flipped
            found = read()
        assert found.to_pylist() == whole.to_pylist()


def test_a_file_whose_pages_have_no_checksum_is_read_as_it_is(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    rows = table_of("decisions", [row("decisions")])
    write_table(rows, "decisions", scope)
    (path,) = scope.partition_dir("decisions").glob("*.parquet")
    pq.write_table(stamped(rows, "decisions"), path)
    forget_files(scope)
    assert read_table(scope, "decisions").num_rows == 1


@pytest.mark.spark
def test_a_file_written_by_spark_says_it(spark: SparkSession, tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    rows = spark.createDataFrame(table_of("decisions", [row("decisions")]))
    write_table(rows, "decisions", scope)
    assert {made_by_of_file(one) for one in footers(scope, "decisions")} == {
        MadeBy(SCHEMA_VERSIONS["decisions"], VERSION)
    }
    assert program_of(scope) == VERSION


def test_a_file_that_says_nothing_is_of_version_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert made_by_of_file(pq.read_metadata(tmp_path / "a.parquet")) == MadeBy(1, None)


def test_a_newer_table_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    keys = {"quota-audit.schema": "9", "quota-audit.version": "8.1.0"}
    folder = scope.partition_dir("findings")
    folder.mkdir(parents=True)
    rows = table_of("findings", [row("findings")]).replace_schema_metadata(keys)
    pq.write_table(rows, folder / "part-0.parquet")
    assert made_by(scope, "findings") == MadeBy(9, "8.1.0")
    with pytest.raises(BadInputError, match=r"version 9 .* quota-audit 8\.1\.0; .* upgrade this"):
        read_table(scope, "findings")
    with pytest.raises(BadInputError, match="version 9"):
        check_file(footers(scope, "findings")[0], "findings", folder)


def test_metadata_of_before_stays_beside_ours() -> None:
    rows = pa.table({"a": [1]}).replace_schema_metadata({"x": "y"})
    assert stamped(rows, "files").schema.metadata[b"x"] == b"y"
