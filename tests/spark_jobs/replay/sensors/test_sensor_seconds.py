from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.replay.sensors.replayed_mutations import seconds_of_decisions
from spark_jobs.warehouse.tables import DECISIONS

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


ROWS = [decision(sequence, amount) for sequence, amount in enumerate(AMOUNTS)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (3, 1, 5, 0, 2, 4)])
def test_the_amounts_of_a_second_are_added_as_the_sensor_recorded_them(
    order: tuple[int, ...],
) -> None:
    schema = pa.schema([field.with_nullable(True) for field in DECISIONS])
    rows = pa.Table.from_pylist([ROWS[place] for place in order], schema=schema)
    (found,) = seconds_of_decisions(rows).to_pylist()
    assert found["amount"] == sum_from_the_left(AMOUNTS)


def sum_from_the_left(amounts: tuple[float, ...]) -> float:
    """Return what adding one after the other gives; ``sum`` may know better."""
    total = 0.0
    for amount in amounts:
        total += amount
    return total
