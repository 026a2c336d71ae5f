"""Large tables, which Spark looks at: what one look settles is not looked at again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations.validate.runner import validate_tables
from spark_jobs.errors import AuditFailedError
from spark_jobs.settings import ValidateSettings
from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.scope import RunScope
from tests.expectations.broken_warehouse import (
    BY_SPARK,
    drop_column,
    write_sound_day,
    written_report,
)

pytestmark = pytest.mark.spark

ALL_BY_SPARK = ValidateSettings(in_memory_rows_max=0)


def tables(
    scope: RunScope, stage: str, spark: SparkSession | None = None
) -> tuple[list[dict[str, Any]], set[str]]:
    """Return a stage's tables as they were written, without their engine, and the engines."""
    settings = ALL_BY_SPARK if spark else ValidateSettings()
    with contextlib.suppress(AuditFailedError):
        validate_tables(scope, stage, spark, settings)
    written = written_report(scope, stage)["tables"]
    return written, {table.pop("engine") for table in written}


@pytest.mark.parametrize("stage", BY_SPARK)
def test_spark_says_the_same_of_sound_tables(
    tmp_path: Path, stage: str, spark: SparkSession
) -> None:
    scope = write_sound_day(tmp_path)
    in_memory, _ = tables(scope, stage)
    spark.sparkContext.setJobGroup(stage, "validation")
    by_spark, engines = tables(scope, stage, spark)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(stage)
    # The session is other tests' too.
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert "spark" in engines
    assert by_spark == in_memory
    if stage == "ingested":
        # Few of its rules are for some rows only, which takes a look of its own.
        assert 0 < len(jobs) < sum(len(table["rules"]) for table in by_spark)


@pytest.mark.parametrize("stage", BY_SPARK)
def test_spark_cannot_evaluate_the_same_rules_where_a_column_is_missing(
    tmp_path: Path, stage: str, spark: SparkSession
) -> None:
    scope = write_sound_day(tmp_path)
    for table in STAGES[stage]:
        drop_column(scope, table)
    in_memory, by_spark = (unevaluated(tables(scope, stage, one)[0]) for one in (None, spark))
    assert by_spark == in_memory
    assert any(by_spark.values())


def unevaluated(written: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the rules of each table that could not be evaluated; all others must hold."""
    rules = {table["table"]: table["rules"] for table in written}
    assert all(rule["success"] for of in rules.values() for rule in of if not rule["error"])
    return {table: {rule["rule"] for rule in of if rule["error"]} for table, of in rules.items()}
