"""What looks after a warehouse in a folder looks after one in a bucket."""

from __future__ import annotations

import pyarrow.fs as pafs
import pytest

from spark_jobs.upkeep.compact_warehouse import compact_days, scattered_days
from spark_jobs.upkeep.doctor import examine
from spark_jobs.upkeep.migrate_warehouse import migrate_days, older_days
from spark_jobs.upkeep.prune_warehouse import old_tables, prune_days
from spark_jobs.warehouse.read import older_tables, read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.write import continued_draft, publish_draft, put_files
from tests.object_storage.moto_server import ObjectStorage
from tests.spark_jobs.upkeep.made_days import DAYS, audited
from tests.spark_jobs.upkeep.older_warehouse import DAY, KEPT, VERSIONS
from tests.spark_jobs.upkeep.test_compact import part

TABLES = ("files", "requests", "quota_state", "findings")
KEPT_DAYS = {"requests": 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_warehouse_is_migrated(storage: ObjectStorage, bucket: str, version: str) -> None:
    pafs.copy_files(
        str(KEPT / version), f"{bucket}/{version}",
        source_filesystem=pafs.LocalFileSystem(), destination_filesystem=storage.client(),
    )  # fmt: skip
    day = RunScope(storage_path(f"s3://{bucket}/{version}"), "default", DAY)
    assert {one.kind for one in examine(day.warehouse).ailments} == {"older_version"}
    migrate_days(day.warehouse, older_days(day.warehouse))
    assert older_tables(day) == {}
    assert read_table(day, "quota_state").num_rows > 5
    assert examine(day.warehouse).ailments == ()


def test_large_tables_of_old_days_are_removed(bucket: str) -> None:
    warehouse = storage_path(f"s3://{bucket}/pruned")
    days = audited(warehouse, tables=TABLES)
    old = old_tables(warehouse, KEPT_DAYS)
    assert [one.day for one in old] == [day.day for day in days[:2]]
    prune_days(warehouse, old, KEPT_DAYS)
    assert not list((days[0].runs / "requests").glob("*/*.parquet"))
    assert read_table(days[0], "findings").num_rows == 1
    assert examine(warehouse).ailments == ()


def test_files_are_merged(bucket: str) -> None:
    (day,) = audited(storage_path(f"s3://{bucket}/merged"), DAYS[:1], TABLES)
    draft = continued_draft(day)
    parts = storage_path(f"s3://{bucket}/parts")
    put_files([part(parts, 1, log) for log in range(3)], "requests", draft)
    publish_draft(draft)
    before = read_table(day, "requests")
    compact_days(day.warehouse, scattered_days(day.warehouse))
    assert [p.name for p in day.partition_dir("requests").glob("*.parquet")] == ["broker-1.parquet"]
    rows = read_table(day, "requests")
    order = [("source_file", "ascending"), ("source_line", "ascending")]
    assert rows.sort_by(order).equals(before.sort_by(order))
