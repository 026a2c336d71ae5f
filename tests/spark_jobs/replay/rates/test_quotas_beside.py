"""Near a change of a quota a throttle is wrong where neither of both values gives it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from spark_jobs.quota.kernels import RateReplay
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.quotas_beside import is_neither
from spark_jobs.replay.rates.stream_rows import SensorRows

WINDOW = Window(samples=11, window_ms=1_000, keeps_overlapping=False)
RATE, SIZE_MS = 1_100.0, 10_500
OWN_MS = 1_050  # of a quota of 1,000/s


def neither(**columns: Any) -> bool:
    """Return whether the second of three requests 100 ms apart is of neither quota.

    It was replayed to OWN_MS. ``columns`` are its own.
    """
    given = {"earliest_ms": 100, "latest_ms": 102, "logged_ms": 0, "bound_beside": 800.0} | columns
    margin_ms, size_ms = given.pop("margin_ms", 400), given.pop("size_ms", SIZE_MS)
    others_ms = given.pop("others_ms", (0, 200))
    at_ms = np.array([others_ms[0], 101, others_ms[1]])
    made = {f.name: np.zeros(3, np.int64) for f in fields(SensorRows)}
    made |= {"bound_beside": np.full(3, np.nan), "amount": np.full(3, 500.0)}
    for name, value in given.items():
        made[name][1] = value
    full = np.full(3, 1, np.int64)
    replay = RateReplay(
        full * 1.0, full * RATE, full * size_ms, full * OWN_MS, full * 1.0, full * margin_ms
    )
    return bool(is_neither(SensorRows(**made), np.arange(3), at_ms, replay, WINDOW)[1])


@pytest.mark.parametrize(
    ("columns", "is_wrong"),
    [
        ({}, True),  # 800/s asks for 3,938 ms
        ({"logged_ms": 3_938}, False),
        ({"logged_ms": 3_938 - 5}, True),
        # As many ms earlier or later as its line admits it was throttled for as many more or less.
        ({"logged_ms": 3_938 - 5, "latest_ms": 108}, False),
        ({"logged_ms": 3_938 + 9, "line_lag_max_ms": 9}, False),
        ({"logged_ms": OWN_MS}, False),
        ({"bound_beside": 2_000.0}, False),  # which asks for none
        ({"bound_beside": 2_000.0, "logged_ms": 500}, True),
        ({"bound_beside": np.nan}, False),
        # A sample may have left, or the window may have been a sample longer.
        ({"margin_ms": 4}, False),
        ({"size_ms": 10_002}, False),
        # Another request of its time, of 500 bytes, may have been counted before it.
        ({"others_ms": (99, 200)}, True),
        ({"others_ms": (99, 200), "logged_ms": 3_938 - 600}, False),
    ],
)
def test_a_throttle_that_neither_quota_gives_is_of_neither(
    columns: dict[str, Any], is_wrong: bool
) -> None:
    assert neither(**columns) is is_wrong
