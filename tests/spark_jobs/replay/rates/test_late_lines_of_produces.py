"""A line that is late may hide that a sample was still counted when its request was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.alignment.events import Events, Window
from spark_jobs.replay.alignment.explanation import EXPLAINED, UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates import fixed_times, other_times
from spark_jobs.replay.rates.judgement import judge_placed
from spark_jobs.replay.rates.stream_rows import OrderedRows, SensorRows
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows
from tests.spark_jobs.replay.sensors.amount_rows import amount

PROFILE, SAMPLES, WINDOW_MS = RateProfile.RATE_3_3, 3, 1_000
WINDOW = Window(SAMPLES, WINDOW_MS, PROFILE.keeps_overlapping_sample)
BOUND, AMOUNT = 1_000.0, 1_000.0
# The first sample leaves 3,000 ms after it began; the last line says 3,003.
AT_MS = [0, 400, 900, 1_300, 1_700, 2_100, 2_500, 2_900, 3_003]
BEGINS = [True, False, False, True, False, False, True, False, False]
LAST = len(AT_MS) - 1


def thrown_ms(last_ms: int) -> int:
    """Return the throttle of the last request, recorded at ``last_ms``."""
    rate = Rate(PROFILE, SAMPLES, WINDOW_MS)
    for at_ms in (*AT_MS[:-1], last_ms):
        rate.record(AMOUNT, at_ms)
    return throttle_time_ms(rate.measure(last_ms), BOUND, rate.window_size_ms(last_ms))


def aligned(
    rows: list[dict[str, Any]], recorded_ms: list[int]
) -> tuple[SensorRows, Placed, Events]:
    """Return rows as their sensor's, placed at these times: all but the last one explained."""
    n = len(rows)
    made = OrderedRows.of(stream_rows(rows), np.arange(n)).stretch(0, n)
    status = np.where(np.arange(n) == n - 1, UNEXPLAINED, EXPLAINED)
    begins = np.append(BEGINS, [False] * (n - len(BEGINS))).astype(bool)
    placed = Placed(np.arange(n), NOON_MS + np.array(recorded_ms), status, begins)
    return made, placed, fixed_times._events(made, 0, n)


def may_be_late(
    logged_ms: int, lag_ms: int, recorded_ms: int = AT_MS[-1], early_ms: int = 0
) -> bool:
    """Return True if the last request may be throttled so if its line is late by ``lag_ms``.

    It is placed at ``recorded_ms``, so much before its line.
    """
    rows = [
        amount(
            at_ms, AMOUNT, bound=BOUND, line_lag_max_ms=lag_ms,
            logged_throttle_time_ms=logged_ms if i == LAST else 0,
        )
        for i, at_ms in enumerate((*AT_MS[:-1], recorded_ms))
    ]  # fmt: skip
    made, placed, events = aligned(rows, [*AT_MS[:-1], recorded_ms])
    states = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS])
    from_ms = other_times.from_if_late_ms(made, 0, LAST, placed, events)
    until_ms = NOON_MS + recorded_ms + early_ms + PROVES_MS
    times = other_times.times_beside_samples(
        LAST, placed, events, (from_ms, until_ms), states, WINDOW
    )
    return is_thrown(made, placed, events, times)


def came_before_others(rows: list[dict[str, Any]], recorded_ms: list[int]) -> bool:
    """Return True if the last of the rows may have come before some ahead of it."""
    made, placed, events = aligned(rows, recorded_ms)
    states, last = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS]), len(rows) - 1
    from_ms = other_times.from_if_late_ms(made, 0, last, placed, events)
    return other_times.came_before_others(made, 0, last, placed, events, states, from_ms)


def is_thrown(made: SensorRows, placed: Placed, events: Events, times: Any) -> bool:
    """Return True if the last request was throttled as logged at one of the times."""
    states = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS])
    before = states.take(np.array([0]))
    thrown_ms = other_times.replayed(
        made, placed.order, placed.recorded_at_ms, before
    ).throttle_time_ms
    return other_times.is_thrown(made, 0, LAST, placed, events, states, thrown_ms, times)


@pytest.mark.parametrize(("lag_ms", "is_excused"), [(6, True), (3, False)])
def test_a_throttle_of_just_before_a_sample_left_may_be_of_a_late_line(
    lag_ms: int, is_excused: bool
) -> None:
    assert thrown_ms(2_998) > thrown_ms(3_003) + 100
    assert may_be_late(thrown_ms(2_998), lag_ms) == is_excused


@pytest.mark.parametrize(("status", "is_explained"), [(EXPLAINED, True), (UNEXPLAINED, False)])
def test_what_the_search_explains_accuses_nobody_where_one_replay_of_it_is_off(
    status: int, *, is_explained: bool
) -> None:
    logged_ms = np.where(np.arange(len(AT_MS)) == LAST, thrown_ms(AT_MS[-1]) + 5_000, 0)
    rows = [
        amount(at_ms, AMOUNT, bound=BOUND, logged_throttle_time_ms=logged)
        for at_ms, logged in zip(AT_MS, logged_ms.tolist(), strict=True)
    ]
    made, placed, events = aligned(rows, AT_MS)
    placed.status[LAST] = status
    states = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS])
    judged = judge_placed(made, 0, placed, events, states, WINDOW, len(AT_MS))
    assert judged.other.is_explained[LAST] == is_explained


@pytest.mark.parametrize(("from_ms", "is_asked"), [(1_990, True), (2_000, False)])
def test_a_window_was_a_sample_longer_just_before_whole_samples_had_passed(
    from_ms: int, is_asked: bool
) -> None:
    # Two samples after the oldest began the window is 2,000 ms, just before it was 2,999 ms.
    at_ms = NOON_MS + np.array([*AT_MS[:5], 2_003])
    status, begins = np.full(6, EXPLAINED), np.array(BEGINS[:6])
    _, _, events = aligned([amount(at, AMOUNT, bound=BOUND) for at in AT_MS], AT_MS)
    placed = Placed(np.arange(6), at_ms, status, begins)
    states = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS])
    between_ms = NOON_MS + from_ms, NOON_MS + 2_005
    times = other_times.times_beside_samples(5, placed, events, between_ms, states, WINDOW)
    assert (NOON_MS + 1_999 in [time.at_ms for time in times]) == is_asked


@pytest.mark.parametrize(("placed_ms", "is_excused"), [(2_998, True), (2_997, False)])
def test_a_throttle_of_just_after_a_sample_left_may_be_of_a_time_that_is_off(
    placed_ms: int, is_excused: bool
) -> None:
    assert may_be_late(thrown_ms(3_000), 0, placed_ms) == is_excused


@pytest.mark.parametrize(("lag_ms", "is_excused"), [(12, True), (6, False)])
def test_a_sample_has_left_sooner_where_the_line_of_what_began_it_is_late(
    lag_ms: int, *, is_excused: bool
) -> None:
    """It leaves 10 ms after the last request by the lines; it began 12 ms sooner, and had left."""
    rate = Rate(PROFILE, SAMPLES, WINDOW_MS)
    for at_ms in (-12, *AT_MS[1:-1], 2_990):
        rate.record(AMOUNT, at_ms)
    due_ms = throttle_time_ms(rate.measure(2_990), BOUND, rate.window_size_ms(2_990))
    assert due_ms < thrown_ms(2_990) - 100
    assert may_be_late(due_ms, lag_ms, 2_990) == is_excused


@pytest.mark.parametrize(("thrown_at_ms", "is_excused"), [(2_980, True), (2_990, False)])
def test_one_placed_before_its_line_may_have_been_recorded_when_that_says(
    thrown_at_ms: int, *, is_excused: bool
) -> None:
    assert may_be_late(thrown_ms(thrown_at_ms), 60, 2_950, early_ms=32) == is_excused


@pytest.mark.parametrize("is_told", [True, False])
def test_one_that_a_throttle_tells_to_be_later_is_not_of_a_late_line(*, is_told: bool) -> None:
    # Had it been recorded before the sample left, at 2,998 ms, the throttle at 3,004 ms had its
    # amount. One that is not replayed as logged says nothing of that.
    times_ms = [*AT_MS[:-2], 3_004, 3_006]
    rate = Rate(PROFILE, SAMPLES, WINDOW_MS)
    thrown = []
    for at_ms in times_ms:
        rate.record(AMOUNT, at_ms)
        thrown.append(throttle_time_ms(rate.measure(at_ms), BOUND, rate.window_size_ms(at_ms)))
    told_ms = [0] * (LAST - 1) + [thrown[-2] if is_told else thrown[-2] + 50]
    states = SensorStates.allocate([PROFILE], [SAMPLES], [WINDOW_MS])
    rows = [
        amount(at_ms, AMOUNT, bound=BOUND, line_lag_max_ms=11, logged_throttle_time_ms=logged_ms)
        for at_ms, logged_ms in zip(times_ms, [*told_ms, 0], strict=True)
    ]
    made, placed, events = aligned(rows, times_ms)
    recorded_ms = placed.recorded_at_ms.copy()
    recorded_ms[LAST] = NOON_MS + 2_998
    then = states.take(np.array([0]))
    early_ms = other_times.replayed(made, placed.order, recorded_ms, then).throttle_time_ms[LAST]
    made.logged_ms[LAST] = early_ms
    between_ms = NOON_MS + 2_995, NOON_MS + 3_006 + PROVES_MS
    times = other_times.times_beside_samples(LAST, placed, events, between_ms, states, WINDOW)
    found = is_thrown(made, placed, events, times)
    assert found != is_told


def test_any_other_throttle_is_not_excused() -> None:
    assert not may_be_late(thrown_ms(2_998) + 50, lag_ms=6)


@pytest.mark.parametrize(
    ("early_ms", "written_ms", "from_ms"),
    [(0, 0, 3_001), (30, 0, 2_971), (30, 2_990, 2_988), (30, 3_020, 3_001)],
)
def test_a_request_after_one_recorded_early_may_be_as_early_and_not_before_that_ones_line(
    early_ms: int, written_ms: int, from_ms: int
) -> None:
    rows = [
        amount(at_ms, AMOUNT, bound=BOUND, line_lag_max_ms=2, log_time_ms=written_ms)
        for at_ms in AT_MS
    ]
    for row in rows:
        row["connection"] = "same"
    rows[-2]["connection"] = "other"
    made, placed, events = aligned(rows, [*AT_MS[:-3], AT_MS[-3] - early_ms, *AT_MS[-2:]])
    assert other_times.from_if_late_ms(made, 0, LAST, placed, events) == NOON_MS + from_ms


@pytest.mark.parametrize(
    ("lag_ms", "latest_ms", "more_ms", "connection", "is_excused"),
    [
        (10, 2_994, 0, "other", True),
        (10, 2_900, 0, "other", False),
        (2, 2_994, 0, "other", False),
        (10, 2_994, -900, "other", False),
        # Requests of one connection are recorded in the order of their lines.
        (10, 2_994, 0, "same", False),
    ],
)
def test_one_whose_line_is_late_may_have_come_before_those_ahead_of_it(
    lag_ms: int, latest_ms: int, more_ms: int, connection: str, *, is_excused: bool
) -> None:
    rate, logged_ms = Rate(PROFILE, SAMPLES, WINDOW_MS), list[int]()
    for at_ms in (*AT_MS[:-2], 2_990, 2_992):
        rate.record(AMOUNT, at_ms)
        logged_ms.append(throttle_time_ms(rate.measure(at_ms), BOUND, rate.window_size_ms(at_ms)))
    # The one ahead of it was throttled for its amount, too.
    ahead = {"logged_throttle_time_ms": logged_ms[-1] + more_ms, "latest_ms": latest_ms}
    last = {"logged_throttle_time_ms": logged_ms[-2], "connection": connection}
    told = {LAST: last, LAST - 1: ahead | {"connection": "same"}}
    rows = [
        amount(at_ms, AMOUNT, bound=BOUND, line_lag_max_ms=lag_ms, **told.get(i, {}))
        for i, at_ms in enumerate((*AT_MS[:-1], 2_998))
    ]
    assert came_before_others(rows, [*AT_MS[:-1], 2_998]) == is_excused


@pytest.mark.parametrize(("earliest_ms", "is_excused"), [(2_983, True), (2_993, False)])
def test_one_whose_line_is_late_may_have_come_as_early_as_the_one_that_it_still_follows(
    earliest_ms: int, *, is_excused: bool
) -> None:
    """That one is placed at 2,993 ms; the late one was thrown as at 2,985 ms."""
    rate, logged_ms = Rate(PROFILE, SAMPLES, WINDOW_MS), list[int]()
    for at_ms in (*AT_MS[:-2], 2_984, 2_985, 2_994):
        rate.record(AMOUNT, at_ms)
        logged_ms.append(throttle_time_ms(rate.measure(at_ms), BOUND, rate.window_size_ms(at_ms)))
    told = {
        LAST - 1: {"earliest_ms": earliest_ms},
        LAST: {"logged_throttle_time_ms": logged_ms[-1], "connection": "other"},
        LAST + 1: {"logged_throttle_time_ms": logged_ms[-2], "connection": "late"},
    }
    recorded_ms = [*AT_MS[:-2], 2_993, 2_994, 2_998]
    rows = [
        amount(at_ms, AMOUNT, bound=BOUND, line_lag_max_ms=20, **told.get(i, {}))
        for i, at_ms in enumerate(recorded_ms)
    ]
    assert came_before_others(rows, recorded_ms) == is_excused


@pytest.mark.parametrize(("lag_ms", "is_excused"), [(20, True), (5, False)])
def test_one_whose_line_is_late_may_have_come_before_all_that_were_logged_meanwhile(
    lag_ms: int, *, is_excused: bool
) -> None:
    """It was thrown as at 2,985 ms, before six others within a millisecond; its line is of 2,996.

    All seven count 100 B, of which each is a throttle longer by 100 ms.
    """
    amounts = [*[AMOUNT] * (len(AT_MS) - 2), *[100.0] * 7]
    recorded_ms = [*AT_MS[:-2], *[2_985] * 7]
    rate, logged_ms = Rate(PROFILE, SAMPLES, WINDOW_MS), list[int]()
    for at_ms, counted in zip(recorded_ms, amounts, strict=True):
        rate.record(counted, at_ms)
        logged_ms.append(throttle_time_ms(rate.measure(at_ms), BOUND, rate.window_size_ms(at_ms)))
    first, others = logged_ms[-7], logged_ms[-6:]
    thrown_ms = [*logged_ms[:-7], *others, first]
    lines_ms = [*recorded_ms[:-1], 2_996]
    rows = [
        amount(
            at_ms, counted, bound=BOUND, line_lag_max_ms=lag_ms, connection=f"of {i}",
            logged_throttle_time_ms=logged,
        )
        for i, (at_ms, counted, logged) in enumerate(zip(lines_ms, amounts, thrown_ms, strict=True))
    ]  # fmt: skip
    assert came_before_others(rows, lines_ms) == is_excused
