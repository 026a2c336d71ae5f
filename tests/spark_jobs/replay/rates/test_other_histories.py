"""One request at another time may explain throttles that hang on its sample, and no lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.alignment.events import EXACT, UP_TO, Events, Window
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates.history import Stretch
from spark_jobs.replay.rates.other_histories import OtherHistory, explained_otherwise
from tests.builders.tables_builder import NOON_MS

SAMPLES, WINDOW_MS, BOUND, AMOUNT = 3, 1_000, 1_000.0, 130.0
PROFILES = (RateProfile.RATE_3_3, RateProfile.RATE_3_8)
LATE = 30
# One request each 100 ms, more than the quota allows; that of LATE came just before its sample.
AT_MS = np.arange(0, 8_000, 100)
AT_MS[LATE] = 2_990
# The next sample begins with the request after it, at 3,100, and the line of LATE says 3,101.
LINE_MS = np.where(np.arange(len(AT_MS)) == LATE, 3_101, AT_MS)


def thrown_ms(
    profile: RateProfile, at_ms: np.ndarray, amount: np.ndarray | float = AMOUNT
) -> np.ndarray:
    """Return the throttles of requests that are recorded at these times, in this order."""
    rate, thrown = Rate(profile, SAMPLES, WINDOW_MS), []
    for time, each in zip(at_ms.tolist(), np.broadcast_to(amount, at_ms.shape), strict=True):
        rate.record(float(each), time)
        window_ms = rate.window_size_ms(time)
        thrown.append(max(throttle_time_ms(rate.measure(time), BOUND, window_ms), 0))
    return np.array(thrown)


def other_history(
    profile: RateProfile,
    line_ms: np.ndarray,
    logged_ms: np.ndarray,
    lag_ms: int,
    earliest_ms: np.ndarray | None = None,
    *,
    accuses: bool = True,
    connections: int | None = None,
    amount: np.ndarray | float = AMOUNT,
    placed_ms: np.ndarray | None = None,
    precede: Sequence[int] = (),
) -> tuple[np.ndarray, np.ndarray, OtherHistory]:
    """Return the order of the requests, places whose throttles are not replayed, and what is found.

    Requests are placed where their lines are, which may be late by ``lag_ms``, or at ``placed_ms``.
    Each has its own connection, or they take turns on so many ``connections``. Those of ``precede``
    may have been recorded before their client's amounts went to the sensor.
    """
    placed_ms = line_ms if placed_ms is None else placed_ms
    order = np.argsort(placed_ms, kind="stable")
    amounts = np.broadcast_to(amount, line_ms.shape)
    replayed_ms = np.empty(len(order), np.int64)
    replayed_ms[order] = thrown_ms(profile, placed_ms[order], amounts[order])
    off = np.flatnonzero(np.abs(logged_ms - replayed_ms)[order] > 2)
    n = len(order)
    earliest_ms = line_ms if earliest_ms is None else earliest_ms
    events = Events(
        earliest_ms=NOON_MS + earliest_ms, latest_ms=NOON_MS + line_ms,
        likely_from_ms=NOON_MS + earliest_ms, likely_until_ms=NOON_MS + line_ms,
        amount=amounts, bound=np.full(n, BOUND), logged_throttle_time_ms=logged_ms,
        evidence=np.full(n, EXACT, np.int8), line_lag_max_ms=np.full(n, lag_ms),
        connection=np.arange(n) % (connections or n),
    )  # fmt: skip
    placed = Placed(
        order, NOON_MS + placed_ms[order], np.full(n, UNEXPLAINED), np.zeros(n, np.bool_)
    )
    window = Window(SAMPLES, WINDOW_MS, profile.keeps_overlapping_sample)
    states = SensorStates.allocate([profile], [SAMPLES], [WINDOW_MS])
    accused, doubted = (off, None) if accuses else (off[:0], off)
    stretch = Stretch.of(placed, events, window, np.isin(order, precede))
    return order, off, explained_otherwise(accused, stretch, states, window, doubted)


def explained(
    profile: RateProfile, line_ms: np.ndarray, logged_ms: np.ndarray, lag_ms: int
) -> tuple[set[int], set[int]]:
    """Return the requests whose throttles are not replayed, and those explained otherwise."""
    order, accused, found = other_history(profile, line_ms, logged_ms, lag_ms)
    return set(order[accused].tolist()), set(order[found.is_explained].tolist())


@pytest.mark.parametrize("profile", PROFILES)
def test_a_late_line_in_the_next_sample_explains_all_that_lacked_its_amount(
    profile: RateProfile,
) -> None:
    logged_ms = thrown_ms(profile, AT_MS)
    accused, found = explained(profile, LINE_MS, logged_ms, lag_ms=111)
    assert len(accused) >= 5
    assert accused <= found


def test_lies_in_a_row_leave_tries_for_one_that_is_accused_alone() -> None:
    # Of all those due less than the quota, one is due more if the amount of LATE still counts.
    profile, only = RateProfile.RATE_3_3, 55
    amount = np.where(np.arange(len(AT_MS)) <= only, 90.0, 10.0)
    amount[only] = 200.0
    logged_ms, lies = thrown_ms(profile, AT_MS, amount), [*range(3, 15)]
    logged_ms[lies] += 500
    order, off, found = other_history(profile, LINE_MS, logged_ms, 111, amount=amount)
    assert order[off].tolist() == [*lies, only]
    assert order[found.is_explained].tolist() == [only]


@pytest.mark.parametrize(("lag_ms", "is_found"), [(15, True), (2, False)])
@pytest.mark.parametrize("profile", PROFILES)
def test_one_beside_a_lie_may_have_come_after_it_however_many_lie(
    profile: RateProfile, lag_ms: int, *, is_found: bool
) -> None:
    at_ms, line_ms = np.arange(0, 8_000, 100), np.arange(0, 8_000, 100)
    lying, lies = 54, [*range(3, 15)]
    at_ms[lying + 1] = line_ms[lying + 1] = at_ms[lying] + 10
    line_ms[lying] += 14
    logged_ms = thrown_ms(profile, at_ms)
    logged_ms[[*lies, lying]] += 500
    order, off, found = other_history(profile, line_ms, logged_ms, lag_ms)
    assert order[off].tolist() == [*lies, lying + 1, lying]
    assert order[found.is_explained].tolist() == ([lying + 1] if is_found else [])


@pytest.mark.parametrize("profile", PROFILES)
def test_it_is_found_among_a_thousand_that_may_be_of_another_sample(profile: RateProfile) -> None:
    # Empty requests just after a sample began: without them in it, all is thrown as with them.
    empty_ms = 1_001 + np.arange(1_000) // 50
    at_ms, line_ms = np.append(AT_MS, empty_ms), np.append(LINE_MS, empty_ms)
    amount = np.append(np.full(len(AT_MS), AMOUNT), np.zeros(len(empty_ms)))
    logged_ms, recorded = np.empty(len(at_ms), np.int64), np.argsort(at_ms, kind="stable")
    logged_ms[recorded] = thrown_ms(profile, at_ms[recorded], amount[recorded])
    earliest_ms = np.append(LINE_MS, empty_ms - 20)
    _, off, found = other_history(profile, line_ms, logged_ms, 150, earliest_ms, amount=amount)
    assert len(off) > 0
    assert found.is_explained[off].all()


@pytest.mark.parametrize(("connections", "is_found"), [(1, False), (2, True)])
@pytest.mark.parametrize("profile", PROFILES)
def test_requests_of_one_connection_are_recorded_in_the_order_of_their_lines(
    profile: RateProfile, connections: int, *, is_found: bool
) -> None:
    # The line of LATE came after that of the request that began the next sample.
    logged_ms = thrown_ms(profile, AT_MS)
    _, off, other = other_history(profile, LINE_MS, logged_ms, 111, connections=connections)
    assert len(off) >= 5
    assert other.is_explained[off].all() == is_found


@pytest.mark.parametrize("accuses", [True, False])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_history_found_replays_every_throttle(profile: RateProfile, *, accuses: bool) -> None:
    logged_ms = thrown_ms(profile, AT_MS)
    order, off, other = other_history(profile, LINE_MS, logged_ms, lag_ms=111, accuses=accuses)
    assert len(off) >= 5
    due_ms = thrown_ms(profile, other.at_ms - NOON_MS)
    assert np.abs(due_ms - logged_ms[order[other.row]]).max() <= 2


@pytest.mark.parametrize("profile", PROFILES)
def test_two_late_lines_in_the_next_sample_explain_what_neither_does_alone(
    profile: RateProfile,
) -> None:
    at_ms, line_ms = AT_MS.copy(), LINE_MS.copy()
    at_ms[LATE - 1], line_ms[LATE - 1] = 2_980, 3_101
    accused, found = explained(profile, line_ms, thrown_ms(profile, at_ms), lag_ms=121)
    assert len(accused) >= 5
    assert accused <= found


@pytest.mark.parametrize("profile", PROFILES)
def test_an_accused_one_may_have_been_recorded_before_a_sample_left(profile: RateProfile) -> None:
    at_ms, line_ms = np.arange(0, 8_000, 97), np.arange(0, 8_000, 97)
    # By then the throttle of one sample more is due.
    logged_ms = thrown_ms(profile, at_ms)
    leaves = LATE + 1 + int(np.argmin(np.diff(logged_ms[LATE : LATE + 20])))
    at_ms[leaves] -= 90
    logged_ms = thrown_ms(profile, at_ms)
    order, accused, other = other_history(profile, line_ms, logged_ms, 0, at_ms)
    assert order[accused].tolist() == [leaves]
    assert other.is_explained[leaves]


def test_one_before_may_have_been_recorded_before_a_sample_left() -> None:
    # Whoever finds that the sample begun at 0 has left begins an empty one in its place, and the
    # window is as long as that one is old: the third did not, so the fourth does.
    line_ms = np.array([0, 2_100, 3_000, 4_500, 5_300, 5_400])
    at_ms, amount = line_ms.copy(), np.array([500.0, 500, 500, 1_500, 1_500, 1_500])
    at_ms[2] = 2_999
    logged_ms = thrown_ms(RateProfile.RATE_3_3, at_ms, amount)
    _, accused, other = other_history(
        RateProfile.RATE_3_3, line_ms, logged_ms, 0, line_ms - 2, amount=amount
    )
    assert accused.tolist() == [4, 5]
    assert other.is_explained.nonzero()[0].tolist() == [4, 5]
    assert (other.at_ms - NOON_MS).tolist() == at_ms.tolist()


@pytest.mark.parametrize("waited_ms", [2, 0])
def test_a_sample_s_last_one_may_have_let_it_leave_before_the_accused_one(waited_ms: int) -> None:
    # From 3.8 on a sample leaves a while after its last request, here 3,000 ms after 2,900.
    line_ms, at_ms, last, accused = np.arange(0, 8_000, 100), np.arange(0, 8_000, 100), 29, 59
    line_ms[last] += 2
    earliest_ms = line_ms.copy()
    earliest_ms[last] -= waited_ms
    logged_ms = thrown_ms(RateProfile.RATE_3_8, at_ms)
    order, off, other = other_history(RateProfile.RATE_3_8, line_ms, logged_ms, 0, earliest_ms)
    assert accused in order[off]
    assert bool(other.is_explained[accused]) == (waited_ms > 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_an_accused_one_whose_line_is_late_may_have_come_between_others(
    profile: RateProfile,
) -> None:
    at_ms = np.arange(0, 8_000, 97)
    leaves = LATE + 1 + int(np.argmin(np.diff(thrown_ms(profile, at_ms)[LATE : LATE + 20])))
    late, next_one = leaves + 1, leaves
    at_ms[late], at_ms[next_one] = at_ms[leaves - 1] + 1, at_ms[leaves - 1] + 2
    line_ms = at_ms.copy()
    line_ms[late] += 95  # a sample has left by then
    place = np.argsort(at_ms, kind="stable")
    logged_ms = np.empty(len(place), np.int64)
    logged_ms[place] = thrown_ms(profile, at_ms[place])
    order, off, other = other_history(profile, line_ms, logged_ms, 97)
    assert {late, next_one} <= set(order[off].tolist())
    assert other.is_explained[off].all()


@pytest.mark.parametrize("profile", PROFILES)
def test_no_line_is_later_than_its_connection_lets_it_be(profile: RateProfile) -> None:
    logged_ms = thrown_ms(profile, AT_MS)
    # Were it 50 ms, two others might have moved the samples alike.
    accused, found = explained(profile, LINE_MS, logged_ms, lag_ms=20)
    # But for the two that stand the other way round there, and are explained by that.
    assert len(accused - found) >= 5


@pytest.mark.parametrize("profile", PROFILES)
def test_two_in_the_other_order_are_explained_by_each_other_s_amounts(profile: RateProfile) -> None:
    at_ms = np.arange(0, 8_000, 100)
    at_ms[LATE] = 3_099
    logged_ms = thrown_ms(profile, at_ms)
    assert explained(profile, np.where(at_ms == 3_099, 3_101, at_ms), logged_ms, lag_ms=2) == (
        {LATE, LATE + 1},
        {LATE, LATE + 1},
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("connections", [None, 80, 3])
def test_two_that_stand_in_each_other_s_place_are_explained_with_others_between_them(
    profile: RateProfile, connections: int | None
) -> None:
    # Six requests of one burst: the first and the last of them came the other way round.
    first, last = LATE + 1, LATE + 6
    at_ms = np.arange(0, 8_000, 100)
    at_ms[first : last + 1] = at_ms[first]
    came = np.arange(len(at_ms))
    came[[first, last]] = last, first
    amount = np.full(len(at_ms), AMOUNT)
    amount[last] += 1
    logged_ms = np.empty(len(at_ms), np.int64)
    logged_ms[came] = thrown_ms(profile, at_ms, amount[came])
    order, off, found = other_history(
        profile, at_ms, logged_ms, lag_ms=0, amount=amount, connections=connections
    )
    assert set(order[off].tolist()) == {first, last}
    # Those of one connection are recorded in the order of their lines.
    is_told = connections != 3
    assert found.is_explained[[first, last]].all() == is_told
    assert (found.row == came).all() == is_told


@pytest.mark.parametrize(("precede", "is_found"), [([0], True), ([0, 1], True), ([], False)])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_first_ones_may_have_been_recorded_before_there_was_a_quota(
    profile: RateProfile, precede: list[int], *, is_found: bool
) -> None:
    # The second request began the samples, 90 ms later than the first one would have.
    at_ms = np.append(0, 90 + np.arange(0, 8_000, 100))
    logged_ms = np.append(0, thrown_ms(profile, at_ms[1:]))
    _, off, found = other_history(profile, at_ms, logged_ms, lag_ms=0, precede=precede)
    assert len(off) >= 5
    assert found.is_explained[off].all() == is_found


@pytest.mark.parametrize(("lag_ms", "is_found"), [(160, True), (20, False)])
@pytest.mark.parametrize("profile", PROFILES)
def test_one_that_waited_with_its_time_may_have_been_recorded_after_a_later_one(
    profile: RateProfile, lag_ms: int, *, is_found: bool
) -> None:
    at_ms, waited, passed = np.arange(0, 8_000, 200), 22, 23
    at_ms[passed] = at_ms[waited] + 60
    amount = np.full(len(at_ms), 2 * AMOUNT)
    amount[passed] = AMOUNT
    recorded = np.arange(len(at_ms))
    recorded[[waited, passed]] = passed, waited
    logged_ms = np.empty(len(at_ms), np.int64)
    logged_ms[recorded] = thrown_ms(profile, at_ms[recorded], amount[recorded])
    # Without the other one's amount its throttle tells of a time that is as much earlier.
    placed_ms, line_ms = at_ms.copy(), at_ms.copy()
    placed_ms[waited] -= int(AMOUNT)
    line_ms[waited] += 130
    placed_ms[passed] += 45
    line_ms[passed] += 45
    order, off, found = other_history(
        profile, line_ms, logged_ms, lag_ms, amount=amount, placed_ms=placed_ms
    )
    assert order[off].tolist() == [passed]
    assert found.is_explained[off].all() == is_found


@given(
    profile=st.sampled_from(PROFILES),
    row=st.integers(40, 70),
    off_ms=st.integers(-1_000, 1_000),
    # Samples begin 67 ms after the one before is over, and 30 ms after its last request.
    lag_ms=st.integers(0, 25),
)
def test_one_throttle_that_is_wrong_among_many_stays_so(
    profile: RateProfile, row: int, off_ms: int, lag_ms: int
) -> None:
    at_ms = np.arange(83) * 97
    logged_ms = thrown_ms(profile, at_ms)
    lied_ms = logged_ms.copy()
    lied_ms[row] = max(logged_ms[row] + off_ms, 0)
    # Its own line may be as late as this, and its throttle that of so much sooner, when a sample
    # more may have counted. The line that began its sample may be late, too: by 2 ms all throttles
    # of it may be off, and are as logged all the same.
    for late_ms in range(lag_ms + 1):
        sooner_ms = at_ms - np.where(np.arange(len(at_ms)) == row, late_ms, 0)
        off = lied_ms[row] - thrown_ms(profile, sooner_ms)[row]
        assume(not -2 - min(lag_ms, 2) <= off <= 2)
    accused, found = explained(profile, at_ms, lied_ms, lag_ms)
    assert accused == {row}
    assert not found


def test_a_throttle_of_more_than_a_window_is_no_request_quota_s() -> None:
    times_ms, logged_ms = NOON_MS + np.arange(4), np.array([0, WINDOW_MS, WINDOW_MS + 1, 9_000])
    amount = np.full(4, AMOUNT)
    events = Events(
        times_ms, times_ms, times_ms, times_ms, amount, amount, logged_ms,
        evidence=np.full(4, UP_TO, np.int8), line_lag_max_ms=np.zeros(4, np.int64),
        connection=np.arange(4),
    )  # fmt: skip
    placed = Placed(np.arange(4), times_ms, np.full(4, UNEXPLAINED), np.zeros(4, np.bool_))
    window = Window(SAMPLES, WINDOW_MS, keeps_overlapping=True)
    stretch = Stretch.of(placed, events, window, np.zeros(4, np.bool_))
    assert stretch.is_exact.tolist() == [False, False, True, True]
