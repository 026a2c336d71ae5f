"""A task that Spark starts twice may write for longer than the step runs; its rows count once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.made_requests import make_warehouse
from benchmarks.made_traffic import Traffic
from spark_jobs.replay import replay_quotas as step
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.read import read_table

pytestmark = pytest.mark.spark

TRAFFIC = Traffic(requests=400, brokers=2, clients=4, throttled_clients=1, span_ms=20_000)


def test_only_the_files_that_workers_report_are_the_day_s(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_a_second_attempt(*given: Any, written: Path, **rest: Any) -> Any:
        reports = on_workers(*given, written=written, **rest)
        for path in list(written.glob("*/*.parquet")):
            shutil.copy(path, path.with_name("part-again.parquet"))
        return reports

    scope = make_warehouse(tmp_path / "warehouse", TRAFFIC)
    resolve_quotas(scope)
    monkeypatch.setattr(step, "on_workers", with_a_second_attempt)
    step.replay_quotas(spark, scope)
    assert read_table(scope, "decisions").num_rows == TRAFFIC.requests
    for table in step.TABLES_OF_REPLAY:
        names = [path.name for path in scope.partition_dir(table).glob("*.parquet")]
        assert names
        assert "part-again.parquet" not in names, table
    assert not list(scope.warehouse.glob(".staged-*"))
