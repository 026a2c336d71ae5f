"""The throttles around a request prove its sensor's state, unless they share what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.states import Bools
from spark_jobs.replay.alignment.events import EXACT, Events
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.window import proven

# One request is worth 80 ms of throttle, so two of them in the wrong order are off by that.
AMOUNT, BOUND, SHARE_MS = 32_000.0, 400_000.0, 80
WINDOW_MS, REACH_MS = 1_000, 22_000
GAP_MS, THROTTLE_MS = 20, 500
REQUESTS, MIDDLE = 21, 10


def proven_with(off_ms: dict[int, int], logged_ms: dict[int, int] | None = None) -> Bools:
    """Return what is proven where rows' logged throttles are so far off the replayed ones."""
    logged = np.full(REQUESTS, THROTTLE_MS)
    for row, throttle_ms in (logged_ms or {}).items():
        logged[row] = throttle_ms
    replayed = logged.copy()
    for row, gap_ms in off_ms.items():
        replayed[row] -= gap_ms
    at_ms = np.arange(REQUESTS) * GAP_MS
    events = Events(
        earliest_ms=at_ms,
        latest_ms=at_ms,
        likely_from_ms=at_ms,
        likely_until_ms=at_ms,
        amount=np.full(REQUESTS, AMOUNT),
        bound=np.full(REQUESTS, BOUND),
        logged_throttle_time_ms=logged,
        evidence=np.full(REQUESTS, EXACT, np.int8),
        line_lag_max_ms=np.zeros(REQUESTS, np.int64),
    )
    status = np.where(logged == replayed, EXPLAINED, UNEXPLAINED)
    placed = Placed(np.arange(REQUESTS), at_ms, status, np.zeros(REQUESTS, bool))
    return proven(placed, events, replayed, WINDOW_MS, REACH_MS)


def test_throttles_that_are_replayed_prove_the_state_of_the_one_between_that_is_not() -> None:
    assert proven_with({MIDDLE: 700})[MIDDLE]


def test_requests_without_replayed_throttles_around_them_prove_nothing() -> None:
    others = dict.fromkeys(range(REQUESTS), 700)
    assert not proven_with(others)[MIDDLE]


@pytest.mark.parametrize("gap_ms", [35, 300, 1_035])
def test_two_that_are_off_by_as_much_may_both_miss_a_sample(gap_ms: int) -> None:
    # A sample counted a window longer changes the size of the window, so whole windows tell none.
    is_proven = proven_with({MIDDLE: gap_ms, MIDDLE + 1: gap_ms % WINDOW_MS})
    assert not is_proven[MIDDLE]
    assert not is_proven[MIDDLE + 1]


def test_two_in_the_other_order_prove_nothing() -> None:
    is_proven = proven_with({MIDDLE: SHARE_MS, MIDDLE + 1: -SHARE_MS})
    assert not is_proven[MIDDLE]
    assert not is_proven[MIDDLE + 1]


def test_one_recorded_before_the_two_ahead_of_it_proves_nothing() -> None:
    is_proven = proven_with({MIDDLE: SHARE_MS, MIDDLE + 1: SHARE_MS, MIDDLE + 2: -2 * SHARE_MS})
    assert not is_proven[MIDDLE : MIDDLE + 3].any()


@pytest.mark.parametrize("lie", [MIDDLE - 1, MIDDLE + 1])
def test_a_neighbour_off_by_more_than_all_amounts_between_was_not_in_the_other_order(
    lie: int,
) -> None:
    is_proven = proven_with({MIDDLE: -SHARE_MS, lie: 1_400}, logged_ms={MIDDLE: 0})
    assert is_proven[MIDDLE]
    assert is_proven[lie]


def test_a_throttle_longer_by_the_next_requests_amount_proves_nothing() -> None:
    assert not proven_with({MIDDLE: SHARE_MS})[MIDDLE]
