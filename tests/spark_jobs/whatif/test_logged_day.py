"""What a replay reads of a day: as ingested, and as the audit found it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import DECISIONS, REQUESTS
from spark_jobs.warehouse.write import write_table
from spark_jobs.whatif.logged_day import logged_requests
from tests.builders.tables_builder import NOON_MS, row

pytestmark = pytest.mark.spark
DAY = dt.date(2026, 1, 2)


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    scope = RunScope(tmp_path, "default", DAY)
    nothing = [{"topic": "orders", "records_bytes": 0}]
    rows = [
        row("requests", api_name="FETCH", response_bytes=16, source_line=line, **others)
        for line, others in (
            (1, {"throttle_time_ms": 90, "topics": nothing}),
            (2, {"throttle_time_ms": 0, "topics": nothing}),
            (3, {"throttle_time_ms": 90}),
        )
    ]
    write_table(pa.Table.from_pylist(rows, schema=REQUESTS), "requests", scope)
    return scope


def test_a_day_that_was_not_audited_is_as_it_was_ingested(
    spark: SparkSession, scope: RunScope
) -> None:
    found = logged_requests(spark, scope).orderBy("source_line").collect()
    assert [r["response_bytes"] for r in found] == [None, 16, 16]
    assert {r["recorded_estimate_us"] for r in found} == {row("requests")["recorded_estimate_us"]}


def test_an_audited_fetch_has_the_size_that_it_tried_to_read_and_the_time_it_was_recorded(
    spark: SparkSession, scope: RunScope
) -> None:
    fetched = {
        "api_name": "FETCH",
        "quota_type": "consumer_byte_rate",
        "recorded_at_ms": NOON_MS + 1,
    }
    decisions = [
        row("decisions", source_line=1, amount=70_000.4, is_unrecorded=True, **fetched),
        row("decisions", source_line=2, amount=99.0, is_unrecorded=False, **fetched),
        row("decisions", source_line=3, quota_type="request_percentage", amount=5.0),
    ]
    write_table(pa.Table.from_pylist(decisions, schema=DECISIONS), "decisions", scope)
    found = logged_requests(spark, scope).orderBy("source_line").collect()
    assert [r["response_bytes"] for r in found] == [70_000, 16, 16]
    ingested_us = row("requests")["recorded_estimate_us"]
    audited_us = (NOON_MS + 1) * 1000
    assert [r["recorded_estimate_us"] for r in found] == [audited_us, audited_us, ingested_us]


def test_a_day_without_requests_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no requests of the cluster 'default' on 2026-01-02"):
        logged_requests(spark, RunScope(tmp_path, "default", DAY))
