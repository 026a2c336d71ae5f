"""When a sample began is told later, by the throttles that count from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.replay.alignment.events import Events, Window
from spark_jobs.replay.alignment.explanation import BEGINS, EVENT, EXPLAINED, PARENT, WAY
from spark_jobs.replay.alignment.search import LOOK_AHEAD
from tests.builders.synthetic_broker import (
    EPOCH_MS,
    Audited,
    Log,
    audited,
    is_throttled,
    log_of,
    replayed_plainly,
)

ELEVEN_SECONDS = Window(samples=11, window_ms=1000, keeps_overlapping=True)


def in_lines_order(log: Log, rows: Sequence[int]) -> Log:
    """Return the log with its lines in another order."""
    order = list(rows)
    columns = (log.recorded_at_ms[order], log.turn[order])
    return Log(Events(*(column[order] for column in log.events)), log.window, *columns)


def starts_sample(result: Audited) -> dict[int, bool]:
    """Return for each row whether the search let it begin a sample."""
    steps, node = result.found.steps, result.found.leaf
    starts = {}
    while steps[node, PARENT] >= 0:
        starts[int(steps[node, EVENT])] = bool(steps[node, WAY] == BEGINS)
        node = steps[node, PARENT]
    return starts


def assert_replays_exactly(log: Log, result: Audited) -> None:
    assert (result.status == EXPLAINED).all()
    assert np.array_equal(result.replayed_throttle_time_ms, log.events.logged_throttle_time_ms)


@pytest.mark.parametrize("off_ms", [-9, -4, 2, 6])
def test_a_start_is_put_right_by_evidence_that_comes_twelve_seconds_later(off_ms: int) -> None:
    """The fourth request begins the second sample; its handler was slow, so who knows when."""
    times = list(range(0, 14_001, 400))
    early, late = [0] * len(times), [0] * len(times)
    early[3], late[3] = 10 - off_ms, 10 + off_ms
    log = log_of(times, [421.0] * len(times), 1_001.0, ELEVEN_SECONDS, early_ms=early, late_ms=late)
    likely_ms = (log.events.likely_from_ms[3] + log.events.likely_until_ms[3]) // 2
    assert likely_ms == log.recorded_at_ms[3] + off_ms
    # Until the first sample is purged nothing hangs on it, then every throttle does.
    plain_ms = replayed_plainly(log).throttle_time_ms
    wrong = np.flatnonzero(plain_ms != log.events.logged_throttle_time_ms)
    assert times[wrong[0]] > 11_800
    result = audited(log, 16)
    assert result.recorded_at_ms[3] == EPOCH_MS + 1_200
    assert_replays_exactly(log, result)


@pytest.mark.parametrize("early_ms", [0, 1, 2, 3])
@pytest.mark.parametrize("after_ms", [999, 1000])
def test_after_a_silence_the_throttle_tells_whether_a_window_has_passed(
    after_ms: int, early_ms: int
) -> None:
    """The first request makes all samples obsolete, so they begin with it, and so does its own."""
    filled, first = list(range(0, 12_000, 500)), 32_000
    times = [*filled, first, first + 296, first + after_ms, first + 18_000]
    amounts = [100.0] * len(filled) + [38_481.0, 114_129.0, 16_442.0, 16_442.0]
    early = [early_ms] * len(times)
    log = log_of(times, amounts, 3_355.0, ELEVEN_SECONDS, early_ms=early, late_ms=[0] * len(times))
    result = audited(log, 32)
    at_ms = result.recorded_at_ms[len(filled) :]
    assert at_ms[2] - at_ms[0] == after_ms
    assert_replays_exactly(log, result)


@pytest.mark.parametrize("profile_keeps_overlapping", [False, True])
@pytest.mark.parametrize("truth_ms", [197, 199, 200, 202])
def test_which_of_two_unthrottled_requests_began_the_sample_is_found(
    truth_ms: int, profile_keeps_overlapping: bool
) -> None:
    """A sample of 200 ms ends inside the interval of the second request."""
    window = Window(3, 200, profile_keeps_overlapping)
    times = [0, truth_ms, 230, 290, 840, 850]
    amounts = [10.0, 10.0, 10.0, 10.0, 900.0, 10.0]
    if not profile_keeps_overlapping:
        times[-2:] = [650, 660]
    early, late = [0] * 6, [0] * 6
    early[1], late[1] = truth_ms - 194, 205 - truth_ms
    log = log_of(times, amounts, 1_001.0, window, early_ms=early, late_ms=late)
    assert is_throttled(log).tolist() == [False] * 4 + [True] * 2
    result = audited(log, 16)
    assert_replays_exactly(log, result)
    begins_late = truth_ms >= 200
    if not profile_keeps_overlapping:
        assert starts_sample(result)[1] == begins_late
        assert starts_sample(result)[2] != begins_late
        if begins_late:
            assert result.recorded_at_ms[1] == EPOCH_MS + truth_ms


@pytest.mark.parametrize("lines", [(1, 0), (0, 2, 1), (2, 1, 0), (3, 0, 2, 1)])
def test_neighbours_of_one_millisecond_are_put_in_the_order_of_their_throttles(
    lines: tuple[int, ...],
) -> None:
    """All are recorded at once: only the sum at each one's turn tells them apart."""
    window = Window(5, 200, True)
    before = [0, 170, 390, 600]
    times = [*before, *([781] * len(lines)), 900]
    amounts = [200.0] * len(before) + [410.0, 90.0, 230.0, 370.0][: len(lines)] + [200.0]
    true_log = log_of(times, amounts, 1_001.0, window)
    rows = [0, 1, 2, 3, *(4 + line for line in lines), len(times) - 1]
    log = in_lines_order(true_log, rows)
    plain_ms = replayed_plainly(log).throttle_time_ms
    assert not np.array_equal(plain_ms, log.events.logged_throttle_time_ms)
    result = audited(log, 32)
    assert_replays_exactly(log, result)
    assert result.turn.tolist() == log.turn.tolist()


def test_a_slow_handlers_line_comes_after_those_recorded_since() -> None:
    """Recorded first, of three; its interval holds all of theirs, its likely time the last."""
    window = Window(5, 200, True)
    times = [0, 170, 390, 600, 781, 790, 800, 950]
    amounts = [200.0, 200.0, 200.0, 200.0, 330.0, 150.0, 80.0, 100.0]
    late = [0] * len(times)
    late[4] = 30
    true_log = log_of(times, amounts, 1_001.0, window, late_ms=late)
    log = in_lines_order(true_log, [0, 1, 2, 3, 5, 6, 4, 7])
    result = audited(log, 32)
    assert_replays_exactly(log, result)
    assert result.turn.tolist() == log.turn.tolist()
    assert result.recorded_at_ms[6] == EPOCH_MS + 781


def test_more_requests_in_one_millisecond_than_the_search_looks_ahead_are_all_recorded() -> None:
    n = 3 * LOOK_AHEAD
    log = log_of([500] * n, [10.0] * n, 100_001.0, ELEVEN_SECONDS)
    result = audited(log, 16)
    assert sorted(result.placed.order.tolist()) == list(range(n))
    assert (result.status == EXPLAINED).all()


def test_an_empty_log_has_no_steps() -> None:
    log = log_of([], [], 1_001.0, ELEVEN_SECONDS)
    result = audited(log, 16)
    assert len(result.placed.order) == 0
    assert result.found.cost == 0.0
