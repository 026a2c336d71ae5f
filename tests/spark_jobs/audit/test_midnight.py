"""A log that crosses midnight is decided as if the day had never ended."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.archive_days import archive_days
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from tests.builders.shifted_capture import from_the_middle_to_midnight, shifted

# Where a decision is found again in the other audit, and what must be the same there.
PLACE = ("broker_id", "connection", "correlation_id", "quota_type", "resource")
SAME = (
    "quota_user", "quota_client_id", "sensor_epoch", "sensor_seq", "amount", "bound", "rate",
    "window_size_ms", "tokens", "replayed_throttle_time_ms", "replayed_admitted",
    "is_proven", "before_its_line_ms", "verdict",
)  # fmt: skip
# What is settled is looked at every 22 s, and tries of fetches every ten minutes, since the epoch.
SAME_LOOKS = dt.timedelta(minutes=110)


Decisions = dict[tuple[Any, ...], tuple[Any, ...]]


def decisions(
    spark: SparkSession, archive: Path, warehouse: Path, *, one_by_one: bool = False
) -> tuple[list[dt.date], Decisions]:
    """Return the days of an archive and what is decided; each of them may be audited by itself."""
    options = IngestOptions.of(broker_version="3.7.2")
    found_archive = find_archive(archive, "default")
    asked = archive_days(found_archive, "UTC", None) if one_by_one else [None]
    days: list[dt.date] = []
    found: Decisions = {}
    for one_day in asked:
        report = ingest_requests(spark, found_archive, warehouse, one_day, options)
        for day in report.days:
            scope = RunScope(warehouse, "default", day)
            resolve_quotas(scope)
            replay_quotas(spark, scope)
            days.append(day)
            for row in read_table(scope, "decisions").to_pylist():
                row["before_its_line_ms"] = row["log_time_ms"] - row["recorded_at_ms"]
                found[tuple(row[c] for c in PLACE)] = tuple(row[c] for c in SAME)
    return days, found


@pytest.mark.spark
@pytest.mark.parametrize("one_by_one", [False, True], ids=["together", "one day after the other"])
def test_midnight_in_the_middle_of_a_log_changes_no_decision(
    spark: SparkSession, tmp_path: Path, one_by_one: bool
) -> None:
    to_midnight = from_the_middle_to_midnight()
    earlier = shifted(tmp_path / "a", to_midnight - 2 * SAME_LOOKS)
    days, whole = decisions(spark, earlier, tmp_path / "whole")
    assert len(days) == 1
    later = shifted(tmp_path / "b", to_midnight)
    days, cut = decisions(spark, later, tmp_path / "cut", one_by_one=one_by_one)
    assert len(days) == 2
    assert len(whole) > 500
    assert whole.keys() == cut.keys()
    different = {place: (whole[place], cut[place]) for place in whole if whole[place] != cut[place]}
    assert not different, list(different.items())[:3]
    assert {place[3] for place, a in whole.items() if a[SAME.index("bound")] is not None} == {
        *QUOTA_TYPES
    }
