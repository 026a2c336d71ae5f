"""What is likely of request times decides most of what the log leaves open, and accuses nobody."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.replay.rates import request_intervals
from spark_jobs.replay.verdicts.request_verdicts import SharedRows, fix_shared
from spark_jobs.replay.verdicts.verdicts import Verdicts
from tests.spark_jobs.replay.rates.request_logs import (
    REQUESTS,
    WINDOW_MS,
    Row,
    bounds_ms,
    intervals,
    request,
    rows_logged,
)

TOLERANCE_MS = 5
READ_US = 300.0
WRONG = {"under_throttled", "over_throttled"}
LIKELY = ("agree", "likely_request_time")
OPEN = ("indeterminate", "request_quota_interval")


def likely_columns(send_us: float) -> dict[str, Any]:
    """Return what a line with this send says of the network threads' time."""
    short_us = min(send_us, READ_US)
    return {
        "unlogged_amount_max": (send_us + READ_US) * PERCENT_PER_US,
        "unlogged_likely": short_us * PERCENT_PER_US,
        "short_send_us": round(short_us),
    }


def short_us(chance: random.Random) -> float:
    return min(chance.lognormvariate(4.0, 0.6), READ_US)


def logged(seed: int, bound: float, slow_requests: int = 0) -> list[Row]:
    """Return what a sound broker logs of a busy client; its first requests are slow to read."""
    chance, rate = random.Random(seed), Rate(RateProfile.RATE_3_8)
    rows, at_ms, network = [], 0, 0.0
    for i in range(1_500):
        at_ms += chance.randint(5, 40)
        handler_us = int(chance.expovariate(1 / 700))
        rate.record(network + (handler_us + 0.5) * PERCENT_PER_US, at_ms)
        measured, throttle_ms = rate.measure(at_ms), 0
        if not is_acceptable(measured, bound):
            size_ms = rate.window_size_ms(at_ms)
            throttle_ms = throttle_time_ms(measured, bound, size_ms, WINDOW_MS)
        # A send is a write, and now and then some waiting.
        write_us, waited_us = short_us(chance), chance.choice([*[0.0] * 8, 40.0, 2_000.0])
        read_us = READ_US if i < slow_requests else short_us(chance)
        network = (write_us + read_us) * PERCENT_PER_US
        columns = likely_columns(write_us + waited_us)
        columns |= {"logged_throttle_time_ms": throttle_ms, "bound": bound, "source_line": i}
        rows.append(request(at_ms, handler_us, connection="a", **columns))
        at_ms += throttle_ms
    return rows


def judged(rows: list[Row]) -> list[tuple[str, str | None]]:
    """Return the verdicts of requests without another quota."""
    found = intervals(rows)
    n = len(found)

    def column(name: str) -> np.ndarray:
        return np.array([row[name] for row in found], np.int64)

    shared = SharedRows(
        is_request_quota=np.ones(n, bool),
        is_unrecorded=np.zeros(n, bool),
        logged_ms=column("logged_throttle_time_ms"),
        replayed_ms=np.zeros(n, np.int64),
        throttle_min_ms=column("throttle_time_min_ms"),
        throttle_max_ms=column("throttle_time_max_ms"),
        is_interval_known=np.ones(n, bool),
        throttle_likely_min_ms=column("throttle_time_likely_min_ms"),
        throttle_likely_max_ms=column("throttle_time_likely_max_ms"),
        other_ms=np.full(n, -1),
        window_ms=np.full(n, WINDOW_MS),
    )
    before = Verdicts(np.full(n, OPEN[0], object), np.full(n, OPEN[1], object))
    verdicts = fix_shared(shared, before, before, TOLERANCE_MS)
    return list(zip(verdicts.verdict.tolist(), verdicts.reason.tolist(), strict=True))


@pytest.fixture(autouse=True)
def _without_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)


# The first bound is never reached, at the second throttles tell what the sums were.
@pytest.mark.parametrize(("bound", "sure_most", "floor"), [(4.3, 0.3, 0.95), (3.5, 0.25, 0.8)])
def test_what_is_likely_decides_most_of_what_the_log_leaves_open(
    bound: float, sure_most: float, floor: float
) -> None:
    counts = Counter(verdict for seed in range(3) for verdict in judged(logged(seed, bound)))
    total = sum(counts.values())
    assert not any(verdict in WRONG for verdict, _ in counts)
    assert counts["agree", None] <= sure_most * total, counts
    assert counts["agree", None] + counts[LIKELY] >= floor * total, counts


@pytest.mark.parametrize("slow_requests", [1, 100, 400])
def test_a_broker_that_is_slow_at_first_is_not_accused(slow_requests: int) -> None:
    # Each of these reads takes as long as any, four times what is likely.
    rows = logged(7, 3.5, slow_requests)
    assert not any(verdict in WRONG for verdict, _ in judged(rows))


GUESSES = st.tuples(st.integers(0, 400), st.integers(0, 1_000))


@given(REQUESTS, st.lists(GUESSES, min_size=25, max_size=25), st.integers(0, 999))
@settings(max_examples=30)
def test_what_is_sure_does_not_depend_on_what_is_likely(
    sent: list[tuple[Any, ...]], guesses: list[tuple[int, int]], throttle_ms: int
) -> None:
    # A throttle that was logged tells how late its line may be: it is the same with every guess.
    rows = [
        row | {"logged_throttle_time_ms": throttle_ms if i % 2 else 0}
        for i, row in enumerate(rows_logged(sent, 5.0))
    ]
    guessed = [
        row | {"unlogged_likely": likely_us * PERCENT_PER_US, "short_send_us": short}
        for row, (short, likely_us) in zip(rows, guesses, strict=False)
    ]
    found = intervals(guessed)
    assert bounds_ms(found) == bounds_ms(intervals(rows))
    for row in found:
        least, most = row["throttle_time_likely_min_ms"], row["throttle_time_likely_max_ms"]
        assert row["throttle_time_min_ms"] <= least <= most <= row["throttle_time_max_ms"]


@given(st.integers(0, 10**6), st.integers(1, 1_499), st.integers(1, 999))
@settings(max_examples=10)
def test_a_fault_that_was_found_without_what_is_likely_is_found_with_it(
    seed: int, place: int, lie_ms: int
) -> None:
    rows = logged(seed, 3.5)
    rows[place] |= {"logged_throttle_time_ms": lie_ms}
    surely = judged([row | {"unlogged_likely": float("nan"), "short_send_us": 0} for row in rows])
    found = judged(rows)
    for before, after in zip(surely, found, strict=True):
        assert after == before or (before in (OPEN, LIKELY) and after in (OPEN, LIKELY))
