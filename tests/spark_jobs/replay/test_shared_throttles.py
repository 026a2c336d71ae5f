"""The decisions on one request meet, wherever the replay of their sensors took place."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.replay.sensors.sensor_states import REPLAYED, STATE
from spark_jobs.replay.shared_throttles import with_shared_throttles
from tests.spark_jobs.replay.sensors.shared_rows import (
    OPEN,
    RULES,
    decided,
    on_request,
    table_of_replayed,
)

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def by_line(rows: list[Row]) -> dict[tuple[str, int], Row]:
    return {(row["quota_type"], row["source_line"]): row for row in rows}


def produced(request: int, logged: int, replayed: int, **columns: Any) -> Row:
    of_request = {"correlation_id": request, "source_line": request}
    return decided(
        logged_throttle_time_ms=logged, replayed_throttle_time_ms=replayed, **of_request | columns
    )


def timed(request: int, logged: int, least: int, most: int, **columns: Any) -> Row:
    of_request = {"correlation_id": request, "source_line": request}
    return on_request(least, most, logged_throttle_time_ms=logged, **of_request | columns)


def test_the_decisions_on_one_request_meet_and_all_others_pass_unchanged(
    spark: SparkSession,
) -> None:
    no_request_quota = {"has_request_bound": False}
    others = [
        produced(10, 500, 300, before=("over_throttled", None), **no_request_quota),
        produced(11, 500, 300, before=("over_throttled", None), has_request_bound=None),
        produced(12, 500, 300, before=("agree", None), quota_type="controller_mutation_rate"),
        dict.fromkeys(REPLAYED.names)
        | {"row_kind": STATE, "quota_type": "request_percentage", "source_line": 13},
    ]
    rows = [
        # The request quota explains the log, to the millisecond.
        produced(1, 500, 300), timed(1, 500, 499, 501),
        # It asked for nothing.
        produced(2, 500, 300), timed(2, 500, 0, 0),
        # The same ids on another connection, broker or at another time are other requests.
        produced(3, 500, 300), timed(3, 500, 0, 0, connection="other"),
        produced(4, 500, 300), timed(4, 500, 0, 0, broker_id=2),
        produced(5, 500, 300), timed(5, 500, 0, 0, log_time_ms=1),
        # Without another quota the request quota answers for the log alone.
        produced(6, 500, 0, bound=None, before=("no_quota", None)), timed(6, 500, 0, 0),
        # One that comes or goes may have asked for it.
        produced(
            7, 500, 0, bound=None, before=("no_quota", None),
            alone=("indeterminate", "quota_change_in_flight"),
        ),
        timed(7, 500, 0, 0),
        *others,
    ]  # fmt: skip
    replayed = spark.createDataFrame(table_of_replayed(rows), schema=from_arrow_schema(REPLAYED))
    fixed = with_shared_throttles(replayed.repartition(3), RULES, tolerance_ms=5)
    assert fixed.columns == REPLAYED.names
    found = fixed.toArrow().cast(REPLAYED).to_pylist()
    told = {key: (row["verdict"], row["reason"]) for key, row in by_line(found).items()}
    wrong, right = ("over_throttled", None), ("agree", None)
    assert [told["producer_byte_rate", n] for n in range(1, 8)] == [
        right, wrong, OPEN, OPEN, OPEN, ("no_quota", None), ("no_quota", None),
    ]  # fmt: skip
    assert [told["request_percentage", n] for n in range(1, 8)] == [
        right, right, wrong, wrong, wrong, wrong, right,
    ]  # fmt: skip
    expected = by_line(table_of_replayed(others).to_pylist())
    assert {key: by_line(found)[key] for key in expected} == expected
    assert len(found) == len(rows)
