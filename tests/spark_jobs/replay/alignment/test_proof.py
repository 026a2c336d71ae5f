"""The throttles around a request prove its sensor's state, unless they share what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.kernels import RateReplay
from spark_jobs.quota.states import Bools
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.proof import proven

# One request is worth 80 ms of throttle, so two of them in the wrong order are off by that.
AMOUNT, BOUND, SHARE_MS = 32_000.0, 400_000.0, 80
WINDOW_MS, REACH_MS = 1_000, 22_000
WINDOW = Window(samples=11, window_ms=WINDOW_MS, keeps_overlapping=True)
GAP_MS, THROTTLE_MS = 20, 500
REQUESTS, MIDDLE = 31, 10


def proven_with(
    off_ms: dict[int, int],
    logged_ms: dict[int, int] | None = None,
    began_ms: int = 0,
    ends_ms: int = 0,
    apart_ms: int = GAP_MS,
    ahead_ms: int = 0,
    early_ms: dict[int, int] | None = None,
    window_size_ms: int = 10 * WINDOW_MS,
    connections: int = REQUESTS,
    other_quota: slice | None = None,
    lies: tuple[int, ...] = (),
) -> Bools:
    """Return what is proven where rows' logged throttles are so far off the replayed ones.

    Those before the MIDDLE are placed ``ahead_ms`` later. The MIDDLE may have been recorded from
    ``began_ms`` before to ``ends_ms`` after. A row in ``early_ms`` is recorded that long before
    its line allows for it. The requests take turns on so many ``connections``. Rows of
    ``other_quota`` have twice the quota. Those of ``lies`` are known to be wrong.
    """
    logged = np.full(REQUESTS, THROTTLE_MS)
    for row, throttle_ms in (logged_ms or {}).items():
        logged[row] = throttle_ms
    replayed = logged.copy()
    for row, gap_ms in off_ms.items():
        replayed[row] -= gap_ms
    at_ms = np.arange(REQUESTS) * apart_ms
    latest_ms = at_ms + np.where(np.arange(REQUESTS) == MIDDLE, ends_ms, 0)
    earliest_ms = at_ms - np.where(np.arange(REQUESTS) == MIDDLE, began_ms, 0)
    for row, gap_ms in (early_ms or {}).items():
        earliest_ms[row] += gap_ms
    bound = np.full(REQUESTS, BOUND)
    if other_quota is not None:
        bound[other_quota] *= 2
    events = Events(
        earliest_ms=earliest_ms,
        latest_ms=latest_ms,
        likely_from_ms=at_ms,
        likely_until_ms=at_ms,
        amount=np.full(REQUESTS, AMOUNT),
        bound=bound,
        logged_throttle_time_ms=logged,
        evidence=np.full(REQUESTS, EXACT, np.int8),
        line_lag_max_ms=np.zeros(REQUESTS, np.int64),
        connection=np.arange(REQUESTS) % connections,
    )
    status = np.where(logged == replayed, EXPLAINED, UNEXPLAINED)
    at_ms[:MIDDLE] += ahead_ms
    placed = Placed(np.arange(REQUESTS), at_ms, status, np.zeros(REQUESTS, bool))
    none = np.zeros(REQUESTS)
    sizes_ms = np.full(REQUESTS, window_size_ms)
    replay = RateReplay(none, none, sizes_ms, replayed, none, none.astype(np.int64))
    is_lie = np.isin(np.arange(REQUESTS), lies)
    return proven(placed, events, replay, WINDOW, REACH_MS, is_lie=is_lie)


def test_throttles_that_are_replayed_prove_the_state_of_the_one_between_that_is_not() -> None:
    assert proven_with({MIDDLE: 700})[MIDDLE]


def test_throttles_of_lines_that_are_taken_to_be_late_prove_nothing() -> None:
    early = dict.fromkeys(set(range(REQUESTS)) - {MIDDLE}, 5)
    assert not proven_with({MIDDLE: 700}, early_ms=early)[MIDDLE]
    assert proven_with({MIDDLE: 700}, early_ms={MIDDLE - 1: 5})[MIDDLE]


def test_requests_without_replayed_throttles_around_them_prove_nothing() -> None:
    others = dict.fromkeys(range(REQUESTS), 700)
    assert not proven_with(others)[MIDDLE]


@pytest.mark.parametrize(("lies", "is_proven"), [((), False), ((1, 2), True)])
def test_lies_around_a_throttle_do_not_count(lies: tuple[int, ...], *, is_proven: bool) -> None:
    after = tuple(MIDDLE + step for step in lies)
    wrong = {MIDDLE + 1: -130, MIDDLE + 2: -230, MIDDLE + 4: -330, MIDDLE: 700}
    assert proven_with(wrong, lies=after)[MIDDLE] == is_proven


@pytest.mark.parametrize("gap_ms", [35, 300, 1_035])
def test_two_that_are_off_by_as_much_may_both_miss_a_sample(gap_ms: int) -> None:
    # A sample counted a window longer changes the size of the window, so whole windows tell none.
    is_proven = proven_with({MIDDLE: gap_ms, MIDDLE + 1: gap_ms % WINDOW_MS})
    assert not is_proven[MIDDLE]
    assert not is_proven[MIDDLE + 1]


def test_two_that_differ_by_a_whole_window_are_both_wrong_where_no_window_is_missing() -> None:
    rows = [REQUESTS - 6, REQUESTS - 5]
    off_ms = {rows[0]: 300, rows[1]: 300 + WINDOW_MS}
    # Two requests a window fill it within 11 s.
    assert proven_with(off_ms, apart_ms=480)[rows].all()
    for apart_ms in (400, 600):
        assert not proven_with(off_ms, apart_ms=apart_ms)[rows].any()
    assert not proven_with(dict.fromkeys(rows, 300), apart_ms=480)[rows].any()


@pytest.mark.parametrize("off_ms", [{MIDDLE: SHARE_MS}, {MIDDLE: SHARE_MS, MIDDLE + 1: -SHARE_MS}])
def test_requests_of_one_connection_were_recorded_in_their_order(off_ms: dict[int, int]) -> None:
    assert not proven_with(off_ms)[list(off_ms)].any()
    assert proven_with(off_ms, connections=1)[list(off_ms)].all()


def test_a_thread_counts_meanwhile_only_what_other_connections_sent() -> None:
    off_ms, within = {MIDDLE: -2 * SHARE_MS}, {"began_ms": 3 * GAP_MS, "ends_ms": 3 * GAP_MS}
    assert not proven_with(off_ms, **within)[MIDDLE]
    assert proven_with(off_ms, connections=1, **within)[MIDDLE]


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


@pytest.mark.parametrize(
    ("apart_ms", "off_ms", "is_right"),
    [
        (1, 400 - SHARE_MS // 2, False),
        (1, 6 * SHARE_MS, False),
        (1, 6 * SHARE_MS + 10, True),  # more than all that stands between the two
        (20, 400 - SHARE_MS // 2, True),  # not at about its time
    ],
)
def test_one_that_another_had_the_place_of_in_a_burst_proves_nothing(
    apart_ms: int, off_ms: int, is_right: bool
) -> None:
    """The other one is six places before it; its own throttle of 0 says not how little was due."""
    off = {MIDDLE: -off_ms, MIDDLE - 6: 470}
    found = proven_with(off, logged_ms={MIDDLE: 0}, began_ms=6, apart_ms=apart_ms)
    assert found[MIDDLE] == is_right


def test_a_throttle_longer_by_the_next_requests_amount_proves_nothing() -> None:
    assert not proven_with({MIDDLE: SHARE_MS})[MIDDLE]


def test_a_thread_that_was_stopped_with_its_time_counts_what_others_record_meanwhile() -> None:
    counted_ms = 50 + 2 * SHARE_MS
    assert not proven_with({MIDDLE: counted_ms}, began_ms=50, ends_ms=2 * GAP_MS)[MIDDLE]
    assert proven_with({MIDDLE: counted_ms}, began_ms=50)[MIDDLE]
    assert proven_with({MIDDLE: counted_ms}, began_ms=20, ends_ms=2 * GAP_MS)[MIDDLE]
    assert proven_with({MIDDLE: 150}, began_ms=50)[MIDDLE]


def test_its_time_may_be_of_before_a_whole_window_that_is_added_while_windows_are_missing() -> None:
    assert not proven_with({MIDDLE: 50 - WINDOW_MS}, began_ms=50)[MIDDLE]
    assert proven_with({MIDDLE: 60 - WINDOW_MS}, began_ms=50)[MIDDLE]
    assert proven_with({MIDDLE: 50 - WINDOW_MS}, began_ms=50, apart_ms=1_200)[MIDDLE]


@pytest.mark.parametrize(("over_ms", "is_proven"), [(51, False), (60, True)])
def test_its_time_is_not_of_before_a_whole_window_that_was_over_for_longer(
    over_ms: int, *, is_proven: bool
) -> None:
    size_ms = 10 * WINDOW_MS + over_ms
    found = proven_with({MIDDLE: 50 - WINDOW_MS}, began_ms=50, window_size_ms=size_ms)
    assert found[MIDDLE] == is_proven


def test_what_comes_next_to_throttles_that_miss_by_as_much_proves_nothing() -> None:
    apart = {MIDDLE - 2: 25, MIDDLE - 1: 26}
    assert not proven_with({**apart, MIDDLE: 700})[MIDDLE]
    assert proven_with({MIDDLE - 2: 25, MIDDLE - 1: 300, MIDDLE: 700})[MIDDLE]
    assert proven_with({**apart, MIDDLE: 700}, apart_ms=1_100)[MIDDLE]


def test_a_throttle_replayed_between_says_that_the_state_is_right_again() -> None:
    assert proven_with({MIDDLE - 3: 25, MIDDLE - 2: 26, MIDDLE: 700})[MIDDLE]
    assert proven_with({MIDDLE - 6: 300, MIDDLE: 301})[MIDDLE]


def test_two_that_were_not_throttled_do_not_miss_by_as_much_as_each_other() -> None:
    both = (MIDDLE, MIDDLE + 1)
    assert proven_with(dict.fromkeys(both, -700), logged_ms=dict.fromkeys(both, 0))[MIDDLE]


@pytest.mark.parametrize(("doubted", "is_proven"), [(2, True), (3, False)])
def test_one_among_many_in_doubt_proves_nothing(doubted: int, is_proven: bool) -> None:
    # Each may have counted the request after it: nothing of it is proven.
    rows = dict(list({MIDDLE - 4: -10, MIDDLE - 2: 0, MIDDLE + 2: 10}.items())[:doubted])
    longer = {row: SHARE_MS + more_ms for row, more_ms in rows.items()}
    found = proven_with({**longer, MIDDLE: 700}, apart_ms=60)
    assert not any(found[row] for row in longer)
    assert found[MIDDLE] == is_proven


@pytest.mark.parametrize(("ahead_ms", "is_proven"), [(GAP_MS + 2, True), (GAP_MS + 3, False)])
def test_one_placed_after_what_has_later_times_proves_nothing(
    ahead_ms: int, is_proven: bool
) -> None:
    assert proven_with({MIDDLE: 700}, ahead_ms=ahead_ms)[MIDDLE] == is_proven


@pytest.mark.parametrize(
    ("quiet", "other_quota", "apart_ms", "is_proven"),
    [
        # The first throttle of the new quota, and the second.
        (range(MIDDLE + 1, REQUESTS), slice(MIDDLE, None), GAP_MS, False),
        (range(MIDDLE + 1, REQUESTS), slice(MIDDLE - 1, None), GAP_MS, True),
        # The last throttle of the quota of before, and the last but one.
        (range(MIDDLE), slice(MIDDLE + 1, None), GAP_MS, False),
        (range(MIDDLE), slice(MIDDLE + 2, None), GAP_MS, True),
        # A second later a broker has followed.
        (range(MIDDLE - 5, MIDDLE), slice(MIDDLE - 5, None), 150, False),
        (range(MIDDLE - 5, MIDDLE), slice(MIDDLE - 5, None), 201, True),
    ],
)
def test_a_change_may_have_come_sooner_or_later_until_a_throttle_tells_of_it(
    quiet: range, other_quota: slice, apart_ms: int, *, is_proven: bool
) -> None:
    logged_ms = dict.fromkeys(quiet, 0)
    found = proven_with({MIDDLE: 200}, logged_ms, apart_ms=apart_ms, other_quota=other_quota)
    assert found[MIDDLE] == is_proven


def test_any_of_those_recorded_meanwhile_may_be_counted() -> None:
    # Not the next one, but the two after it.
    counted_ms = 20 + 2 * SHARE_MS
    within = {"began_ms": 20, "ends_ms": 3 * GAP_MS}
    assert not proven_with({MIDDLE: counted_ms}, **within)[MIDDLE]


@pytest.mark.parametrize(
    ("off_ms", "early_ms", "is_proven"),
    [(-50, 30, False), (-48, 30, False), (-54, 30, True), (-50, 0, True), (-65, 15, True)],
)
def test_one_that_is_off_as_one_beside_it_would_be_were_its_line_not_late_proves_nothing(
    off_ms: int, early_ms: int, *, is_proven: bool
) -> None:
    # At its line's time, 30 ms later, the one after counts one more: 80 ms more are due.
    found = proven_with({MIDDLE: off_ms}, early_ms={MIDDLE + 1: early_ms})
    assert found[MIDDLE] == is_proven
