"""A log that crosses midnight is decided as if the day had never ended."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.jobs.archive import find_archive
from spark_jobs.jobs.ingest_options import IngestOptions
from spark_jobs.jobs.ingest_requests import ingest_requests
from spark_jobs.jobs.replay_quotas import replay_quotas
from spark_jobs.jobs.resolve_quotas import resolve_quotas
from spark_jobs.warehouse import RunScope, read_table
from tests.spark_jobs.jobs.shifted_capture import from_the_middle_to_midnight, shifted

# Where a decision is found again in the other audit, and what must be the same there.
PLACE = ("broker_id", "connection", "correlation_id", "quota_type", "resource")
SAME = (
    "quota_user", "quota_client_id", "sensor_epoch", "sensor_seq", "amount", "bound", "rate",
    "window_size_ms", "tokens", "replayed_throttle_time_ms", "replayed_admitted", "verdict",
)  # fmt: skip


def decisions(
    spark: SparkSession, archive: Path, warehouse: Path
) -> tuple[list[dt.date], dict[tuple[Any, ...], tuple[Any, ...]]]:
    options = IngestOptions.of(broker_version="3.7.2")
    report = ingest_requests(spark, find_archive(archive, "default"), warehouse, None, options)
    found = {}
    for day in report.days:
        scope = RunScope(warehouse, "default", day)
        resolve_quotas(scope)
        replay_quotas(spark, scope)
        for row in read_table(scope, "decisions").to_pylist():
            found[tuple(row[c] for c in PLACE)] = tuple(row[c] for c in SAME)
    return list(report.days), found


@pytest.mark.spark
def test_midnight_in_the_middle_of_a_log_changes_no_replay_and_turns_no_verdict(
    spark: SparkSession, tmp_path: Path
) -> None:
    to_midnight = from_the_middle_to_midnight()
    days, whole = decisions(spark, shifted(tmp_path / "a", -to_midnight), tmp_path / "whole")
    assert len(days) == 1
    days, cut = decisions(spark, shifted(tmp_path / "b", to_midnight), tmp_path / "cut")
    assert len(days) == 2
    assert len(whole) > 500
    assert whole.keys() == cut.keys()
    different = {place: (whole[place], cut[place]) for place in whole if whole[place] != cut[place]}
    # What a fetch tried to read is told by later ones, the request quota's interval by earlier
    # requests; neither is carried over, and without it nobody is cleared or accused.
    assert all(a[:-1] == b[:-1] and b[-1] == "indeterminate" for a, b in different.values())
    assert len(different) < 0.01 * len(whole), list(different.items())[:3]
