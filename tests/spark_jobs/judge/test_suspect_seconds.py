"""What sensors with a wrong decision did, second by second."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.judge.judge_decisions import seconds_of_suspects
from spark_jobs.warehouse.tables import DECISIONS
from tests.builders.tables_builder import NOON_MS, row

pytestmark = pytest.mark.spark
TOLERANCE_MS = 5


def decision(at_ms: int, logged_ms: int, replayed_ms: int, verdict: str, **columns: Any) -> Any:
    return row(
        "decisions",
        recorded_at_ms=NOON_MS + at_ms,
        logged_throttle_time_ms=logged_ms,
        replayed_throttle_time_ms=replayed_ms,
        verdict=verdict,
        **columns,
    )


def test_what_agrees_and_what_is_open_is_counted_beside_the_wrong_ones(spark: SparkSession) -> None:
    timing = {"reason": "sample_timing"}
    rows = [
        decision(0, 0, 40, "under_throttled"),
        decision(1, 50, 50, "agree"),
        decision(2, 0, 0, "agree"),  # says nothing
        decision(3, 10, 40, "indeterminate", **timing),
        decision(4, 36, 40, "indeterminate", **timing),  # within the tolerance
        decision(5, 70, 40, "indeterminate", reason="state_unknown"),
        decision(6, 0, 40, "indeterminate", reason="lines_missing"),
        decision(1_000, 0, 40, "indeterminate", reason="quota_change_in_flight"),
        decision(7, 0, 40, "indeterminate", client_id="sound", quota_client_id="sound", **timing),
    ]
    decisions = spark.createDataFrame(pa.Table.from_pylist(rows, schema=DECISIONS))
    found = seconds_of_suspects(decisions, TOLERANCE_MS).orderBy("second_ms").collect()
    names = ("under_throttled", "agreeing", "open_under_throttled", "open_over_throttled")
    assert [tuple(second[name] for name in names) for second in found] == [
        (1, 1, 1, 1),
        (0, 0, 1, 0),
    ]
