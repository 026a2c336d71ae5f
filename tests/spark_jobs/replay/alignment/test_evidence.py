"""What a logged throttle tells of a sensor: all, an upper limit, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import EXACT, NOTHING, UP_TO, Window
from spark_jobs.replay.alignment.explanation import (
    EXPLAINED,
    LATE_LINE,
    NEAR,
    NOT_ASKED,
    UNEXPLAINED,
)
from tests.builders.synthetic_broker import (
    EPOCH_MS,
    NO_QUOTA,
    PROFILES,
    Audited,
    Log,
    Traffic,
    audited,
    is_throttled,
    log_of,
    logged,
    replayed_truth,
    with_throttles,
)

WINDOW = Window(samples=5, window_ms=200, keeps_overlapping=True)
TIMES = (0, 120, 260, 430, 610, 700, 790)
AMOUNTS = (100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)
BOUND = 1_001.0
LAST = len(TIMES) - 1


@pytest.fixture
def small() -> Log:
    """Seven requests whose times are known to the millisecond; the last four are throttled."""
    log = log_of(TIMES, AMOUNTS, BOUND, WINDOW)
    assert is_throttled(log).tolist() == [False, False, False, False, True, True, True]
    return log


def heard(log: Log, evidence: int, rows: Sequence[int] = (LAST,)) -> Log:
    column = log.events.evidence.copy()
    column[list(rows)] = evidence
    return log._replace(events=log.events._replace(evidence=column))


def moved(log: Log, by_ms: int, row: int = LAST) -> Log:
    def change(throttle_time_ms: Int64s) -> None:
        throttle_time_ms[row] += by_ms

    return with_throttles(log, change)


def last_status(log: Log) -> int:
    result: Audited = audited(log, 16)
    assert (result.status[:LAST] == EXPLAINED).all()
    return int(result.status[LAST])


def test_exact_evidence_admits_no_other_throttle(small: Log) -> None:
    assert last_status(small) == EXPLAINED
    for by_ms in (-200, -20, 60, 120):
        assert last_status(moved(small, by_ms)) == UNEXPLAINED, by_ms


def test_a_throttle_that_no_window_gives_is_no_late_line(small: Log) -> None:
    """Due less this throttle is a window of 780 to 799 ms, and the least there is has 800."""
    due_ms = 990 + int(small.events.logged_throttle_time_ms[LAST])
    for window_size_ms in (780, 790, 797):
        lie = due_ms - window_size_ms - int(small.events.logged_throttle_time_ms[LAST])
        assert last_status(moved(small, lie)) == UNEXPLAINED, window_size_ms


def test_one_or_two_milliseconds_off_are_near(small: Log) -> None:
    for by_ms in (-2, -1, 1, 2):
        assert last_status(moved(small, by_ms)) in (NEAR, LATE_LINE), by_ms
    assert last_status(moved(small, -3)) == UNEXPLAINED


def test_where_another_quota_may_have_thrown_more_a_longer_throttle_is_explained(
    small: Log,
) -> None:
    thrown_ms = int(small.events.logged_throttle_time_ms[LAST])
    longest_ms = WINDOW.window_ms - thrown_ms if thrown_ms < WINDOW.window_ms else 0
    assert last_status(heard(small, UP_TO)) == EXPLAINED
    for by_ms in (-200, -20):
        assert last_status(heard(moved(small, by_ms), UP_TO)) == UNEXPLAINED, by_ms
    # The request quota throws at most one window: a longer throttle is this sensor's own.
    assert last_status(heard(moved(small, longest_ms + 300), UP_TO)) == UNEXPLAINED


def test_an_unthrottled_sensor_does_not_contradict_another_quotas_throttle(small: Log) -> None:
    row = 2
    for by_ms in (1, 90, WINDOW.window_ms):
        other = heard(moved(small, by_ms, row), UP_TO, [row])
        assert (audited(other, 16).status == EXPLAINED).all(), by_ms
        own = moved(small, by_ms, row)
        assert audited(own, 16).status[row] == UNEXPLAINED, by_ms
    beyond = heard(moved(small, WINDOW.window_ms + 1, row), UP_TO, [row])
    assert audited(beyond, 16).status[row] == UNEXPLAINED


def test_a_row_that_tells_nothing_is_not_asked_but_its_amount_counts(small: Log) -> None:
    for by_ms in (-400, 0, 5_000):
        row = 1
        silent = heard(moved(small, by_ms, row), NOTHING, [row])
        result = audited(silent, 16)
        assert result.status[row] == NOT_ASKED
        others = np.arange(len(TIMES)) != row
        assert (result.status[others] == EXPLAINED).all()
        assert np.array_equal(
            result.replayed_throttle_time_ms[others],
            small.events.logged_throttle_time_ms[others],
        )


def test_without_a_bound_no_throttle_is_asked_for(small: Log) -> None:
    bound = small.events.bound.copy()
    bound[LAST] = NO_QUOTA
    unbound = small._replace(events=small.events._replace(bound=bound))
    assert last_status(moved(unbound, 700)) == NOT_ASKED


@pytest.mark.parametrize("profile", PROFILES)
def test_under_a_request_quota_all_rows_stay_explained_and_lies_below_do_not(profile: str) -> None:
    log = logged(Traffic(requests=450, profile=profile, samples=6, window_ms=500, mean_gap_ms=40.0))
    rng = np.random.default_rng(11)
    thrown_by_requests = rng.integers(0, 400, len(log.turn)) * (rng.random(len(log.turn)) < 0.3)

    def raise_some(throttle_time_ms: Int64s) -> None:
        np.maximum(throttle_time_ms, thrown_by_requests, out=throttle_time_ms)

    rows = range(len(log.turn))
    raised = heard(with_throttles(log, raise_some), UP_TO, rows)
    result = audited(raised, 128)
    assert np.mean(result.status == EXPLAINED) >= 0.998
    too_exact = audited(heard(raised, EXACT, rows), 32)
    assert too_exact.found.cost > 20 * result.found.cost
    # Where the sensor alone would have thrown much more, nothing explains the lower throttle.
    truth = replayed_truth(log)
    clear = (truth.throttle_time_ms > 450) & (truth.purge_margin_ms > 100)
    row = int(np.flatnonzero(clear)[0])
    low = moved(raised, -300, row)
    assert audited(low, 128).status[row] == UNEXPLAINED


@pytest.mark.parametrize("late_ms", [1, 2, 8, 25, 45])
def test_a_line_written_late_is_named_and_its_request_put_before_its_phases(late_ms: int) -> None:
    earlier = [0] * len(TIMES)
    earlier[LAST] = -late_ms
    later = [0] * len(TIMES)
    later[LAST] = late_ms
    log = log_of(TIMES, AMOUNTS, BOUND, WINDOW, early_ms=earlier, late_ms=later)
    result = audited(log, 16)
    assert result.status[LAST] == LATE_LINE
    assert result.recorded_at_ms[LAST] == EPOCH_MS + TIMES[LAST]
    assert np.array_equal(result.replayed_throttle_time_ms, log.events.logged_throttle_time_ms)


def test_a_line_written_too_late_to_be_a_pause_stays_unexplained() -> None:
    earlier = [0] * len(TIMES)
    earlier[LAST] = -90
    later = [0] * len(TIMES)
    later[LAST] = 90
    log = log_of(TIMES, AMOUNTS, BOUND, WINDOW, early_ms=earlier, late_ms=later)
    assert last_status(log) == UNEXPLAINED


def test_late_lines_cost_their_own_explanation_only() -> None:
    rows = explained = 0
    for seed in range(4):
        log = logged(Traffic(seed=seed, requests=450, late_line_share=0.01, mean_gap_ms=50.0))
        result = audited(log, 128)
        said = log.events.logged_throttle_time_ms
        rows += len(said)
        explained += int((np.abs(result.replayed_throttle_time_ms - said) <= 1).sum())
    assert explained / rows >= 0.995
