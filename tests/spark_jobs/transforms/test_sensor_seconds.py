from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.tables import DECISIONS
from spark_jobs.transforms.sensor_seconds import rates_per_second, seconds_of_decisions

pytestmark = pytest.mark.spark

# Added from the left 0.1 + 0.2 + 0.3 is another float than 0.3 + 0.2 + 0.1.
AMOUNTS = (0.1, 0.2, 0.3, 1e16, 1.0, -1e16)


def decision(sensor_seq: int, amount: float) -> dict[str, Any]:
    """Return a decision of one sensor in one second."""
    zeros = {f.name: 0 for f in DECISIONS if pa.types.is_integer(f.type)}
    return zeros | {
        "quota_type": "request_percentage",
        "quota_user": "erin",
        "quota_client_id": "",
        "sensor_seq": sensor_seq,
        "amount": amount,
        "is_unrecorded": False,
        "logged_admitted": True,
    }


SCHEMA = pa.schema([field.with_nullable(True) for field in DECISIONS])
ROWS = [decision(sequence, amount) for sequence, amount in enumerate(AMOUNTS)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (3, 1, 5, 0, 2, 4)])
def test_the_amounts_of_a_second_are_added_as_the_sensor_recorded_them(
    spark: SparkSession, order: tuple[int, ...]
) -> None:
    rows = pa.Table.from_pylist([ROWS[place] for place in order], schema=SCHEMA)
    decided = spark.createDataFrame(rows, schema=from_arrow_schema(SCHEMA)).coalesce(1)
    (found,) = rates_per_second(decided).toArrow().to_pylist()
    assert found["amount"] == sum_from_the_left(AMOUNTS)
    assert seconds_of_decisions(rows).to_pylist() == [found]


def test_the_seconds_of_a_sensor_are_in_one_part_and_in_order(spark: SparkSession) -> None:
    rows = [
        decision(0, 1.0) | {"quota_user": f"user-{user}", "recorded_at_ms": 1000 * second}
        for second in (3, 1, 2, 0) for user in range(20)
    ]  # fmt: skip
    decided = pa.Table.from_pylist(rows, schema=SCHEMA)
    frame = spark.createDataFrame(decided, schema=from_arrow_schema(SCHEMA)).repartition(4)
    parts = rates_per_second(frame).withColumn("part", spark_partition_id()).collect()
    assert len({row["part"] for row in parts}) == 2
    for user in range(20):
        own = [row for row in parts if row["quota_user"] == f"user-{user}"]
        assert len({row["part"] for row in own}) == 1
        assert [row["second_ms"] for row in own] == [0, 1000, 2000, 3000]


def sum_from_the_left(amounts: tuple[float, ...]) -> float:
    """Return what adding one after the other gives; ``sum`` may know better."""
    total = 0.0
    for amount in amounts:
        total += amount
    return total
