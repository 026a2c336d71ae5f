"""A line of a fetch that came late explains the tries that hang on its sample, and no lie."""

from __future__ import annotations

import pytest

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.throttle_time import throttle_time_ms
from tests.spark_jobs.replay.rates.stream_logs import FETCHES, RULES, Row, decided, fetch, opened

BOUND, SIZE = 20_000.0, 10_000
FIRST_MS, LATE_MS = 20_000, 240
# Tries of before ten minutes are over, and those of after it, are judged apart.
APART_MS = 600_000 - 9_000
SECONDS = 40


def reading(late_ms: int, lag_max_ms: int, first_ms: int = FIRST_MS) -> list[Row]:
    """Return the fetches of a client that reads on, the first of which was logged so much late.

    Its line may be late by ``lag_max_ms``, and all others are in time.
    """
    rate, rows, at_ms = Rate(RULES.profile), [], first_ms
    while at_ms < first_ms + SECONDS * 1_000:
        recorded_ms = at_ms - (late_ms if not rows else 0)
        rate.record(SIZE, recorded_ms)
        window_ms = rate.window_size_ms(recorded_ms)
        throttle_ms = max(throttle_time_ms(rate.measure(recorded_ms), BOUND, window_ms), 0)
        if throttle_ms:
            rate.record(-SIZE, recorded_ms)
        lag = {"line_lag_max_ms": 1 if rows else lag_max_ms}
        rows.append(fetch(at_ms, SIZE, throttle_ms, bound=BOUND, **lag))
        at_ms += throttle_ms + 7
    return rows


def accused(rows: list[Row]) -> list[Row]:
    """Return the decisions that accuse the broker."""
    told = decided(opened(FETCHES), rows)
    return [row for row in told if row["verdict"] in WRONG_VERDICTS]


@pytest.mark.parametrize("first_ms", [FIRST_MS, APART_MS])
def test_a_first_fetch_that_was_logged_late_accuses_nobody(first_ms: int) -> None:
    assert not accused(reading(LATE_MS, LATE_MS + 20, first_ms))


def test_it_is_no_later_than_its_connection_lets_it_be() -> None:
    assert accused(reading(LATE_MS, LATE_MS - 100))


@pytest.mark.parametrize("more_ms", [400, 1_500])
def test_a_try_that_was_thrown_for_too_long_is_accused_beside_a_late_line(more_ms: int) -> None:
    rows = reading(0, LATE_MS)
    tries = [k for k, row in enumerate(rows) if row["logged_throttle_time_ms"]]
    lied = tries[len(tries) // 2]
    rows[lied] = rows[lied] | {
        "logged_throttle_time_ms": rows[lied]["logged_throttle_time_ms"] + more_ms
    }
    assert [row["source_line"] for row in accused(rows)] == [rows[lied]["source_line"]]
