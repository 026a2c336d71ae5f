"""A sample that began a little earlier than its line says hides no lie among what hangs on it."""

from __future__ import annotations

import pytest

from tests.spark_jobs.replay.rates.stream_logs import Row, produce, throttled_log, wrong_rows

BOUND, SIZE, EVERY_MS = 10_000.0, 1_000.0, 97
SECONDS, BEGINS_MS = 40, 154 * 97
LIE_MS = BEGINS_MS + 108 * EVERY_MS
"""While the sample of BEGINS_MS is the oldest, which decides how long the window is."""


def log(early_ms: int, lies: dict[int, int]) -> list[Row]:
    """Return produces of many connections, of which one that begins a sample was recorded early.

    ``lies`` has throttles by time, both in ms. The line of the early one may be late by 10 ms.
    """
    times_ms = range(0, SECONDS * 1_000, EVERY_MS)
    true = [
        produce(at_ms - (early_ms if at_ms == BEGINS_MS else 0), SIZE, bound=BOUND)
        for at_ms in times_ms
    ]
    rows = []
    for at_ms, row in zip(times_ms, throttled_log(true), strict=True):
        lag = {"line_lag_max_ms": 10 if at_ms == BEGINS_MS else 0, "connection": f"c{at_ms}"}
        logged_ms = lies.get(at_ms, row["logged_throttle_time_ms"])
        rows.append(produce(at_ms, SIZE, bound=BOUND, logged_throttle_time_ms=logged_ms, **lag))
    return rows


def accused(rows: list[Row]) -> list[int]:
    return [row["source_line"] for row in wrong_rows(rows)]


@pytest.mark.parametrize("early_ms", [0, 3, 4, 5, 9])
def test_an_early_sample_accuses_nobody_and_hides_no_lie(early_ms: int) -> None:
    assert accused(log(early_ms, {})) == []
    lies = {LIE_MS: 0, LIE_MS + 2 * EVERY_MS: 1_900}
    assert accused(log(early_ms, lies)) == list(lies)
