"""What was let through is replayed so, where its oldest sample may have begun at another time."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.replay.alignment.events import Samples, Window
from spark_jobs.replay.alignment.window import align_window
from tests.builders.synthetic_broker import Log, log_of, replayed


def replayed_ms(log: Log) -> np.ndarray:
    """Return the throttles at the times that explain those of the log best, in its order."""
    found = align_window(log.events, Samples.empty(log.window.slots), log.window, is_last=True)
    at = np.empty(len(found.placed.order), np.int64)
    placed = found.placed
    at[placed.order] = replayed(log, placed.order, placed.recorded_at_ms).throttle_time_ms
    return np.maximum(at, 0)


@pytest.mark.parametrize("keeps_overlapping", [False, True])
def test_it_came_just_before_another_whole_window_was_over(*, keeps_overlapping: bool) -> None:
    """A millisecond later 9 windows were over, and what was counted was too much for 10 s."""
    window, bound = Window(11, 1_000, keeps_overlapping), 13_000.0
    times_ms = np.arange(0, 16_000, 225)
    let_through = int(np.flatnonzero(times_ms == 9_000)[0])
    times_ms[let_through] -= 1
    amounts = np.full(len(times_ms), 10.004 * bound / (let_through + 1))
    near_ms = np.ones(len(times_ms), np.int64)
    first_ms = np.where(times_ms == 0, 60, near_ms)
    log = log_of(
        times_ms.tolist(), amounts.tolist(), bound, window,
        early_ms=first_ms.tolist(), late_ms=(near_ms * (times_ms > 0)).tolist(),
    )  # fmt: skip
    assert log.events.logged_throttle_time_ms[let_through] == 0
    assert replayed_ms(log).tolist() == log.events.logged_throttle_time_ms.tolist()


def test_what_its_oldest_sample_began_with_was_logged_late() -> None:
    """By its line that sample has not left yet, and the request counts it."""
    window, bound, late_ms = Window(6, 2_000, keeps_overlapping=False), 8_700.0, 3
    times_ms = np.arange(0, 15_000, 60)
    let_through = int(np.flatnonzero(times_ms == 12_000)[0])
    amounts = np.full(len(times_ms), 12.0 * bound / (let_through + 1))
    log = log_of(times_ms.tolist(), amounts.tolist(), bound, window, early_ms=1, late_ms=1)
    columns = {
        name: getattr(log.events, name) + np.where(times_ms == 0, late_ms, 0)
        for name in ("earliest_ms", "latest_ms", "likely_from_ms", "likely_until_ms")
    }
    log = log._replace(events=log.events._replace(**columns))
    assert log.events.logged_throttle_time_ms[let_through] == 0
    assert (replayed_ms(log) > 0).tolist() == (log.events.logged_throttle_time_ms > 0).tolist()
