"""Throttles in a row that the state which throttles before them prove contradicts.

What a sensor holds after a proven state is known but for the moments at which its samples began:
the throttles that tell of those come while a sample is the oldest one. Such as: a broker forgets a
client. All is replayed to the millisecond until then, and then 60 decisions of 0 follow where
900 ms are due, before throttles fit again. No neighbour proves any of them.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.quota.kernels import RateReplay
from spark_jobs.quota.states import Bools, Floats
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.window import PROVES_MS

RUN_MIN = 5
"""So many throttles in a row that nothing explains are no accident."""
SAMPLES_PROVED = 2
"""So many samples have become the oldest one while the throttles before were all replayed."""
REQUESTS_BESIDE = 4
"""A sample may have begun with one of so many requests before or after the one replayed."""


def contradicted(placed: Placed, events: Events, replayed: RateReplay, window: Window) -> Bools:
    """Return True for each request of a run that a proven state contradicts, in recording order.

    A run is RUN_MIN throttles or more, logged or due, that neither search nor replay explains, and
    that no other beginning of the oldest sample explains. It stands within a rate window of
    throttles that were all replayed, for SAMPLES_PROVED windows.
    """
    order, at_ms = placed.order, placed.recorded_at_ms
    logged_ms = events.logged_throttle_time_ms[order]
    off_ms = logged_ms - replayed.throttle_time_ms
    tells = (events.evidence[order] == EXACT) & ~np.isnan(events.bound[order])
    tells &= (logged_ms > 0) | (replayed.throttle_time_ms > 0)
    found = np.zeros(len(order), bool)
    told = np.flatnonzero(tells)
    if not len(told):
        return found
    is_right = np.abs(off_ms[told]) <= PROVES_MS
    is_missed = ~is_right & (placed.status[told] == UNEXPLAINED)
    told_ms, places = at_ms[told], np.arange(len(told))
    # The last throttle before each run, and the first of those in a row that prove the state there.
    last = np.maximum.accumulate(np.where(is_missed, -1, places))
    doubted = np.maximum.accumulate(np.where(is_right & (logged_ms[told] > 0), -1, places))
    first = np.minimum(doubted[last] + 1, len(told) - 1)
    is_known = (last >= 0) & (told_ms - told_ms[last] < window.expire_age_ms)
    is_known &= told_ms[last] - told_ms[first] >= SAMPLES_PROVED * window.window_ms
    # A line that was late makes its throttle look longer than due.
    late_ms = np.where(off_ms > 0, events.line_lag_max_ms[order], 0)
    is_far = np.abs(off_ms) - late_ms > _other_beginnings_ms(placed, events, replayed)
    is_beyond = is_missed & is_known & is_far[told]
    run = np.cumsum(~is_missed)
    found[told] = is_beyond & (np.bincount(run, is_beyond)[run] >= RUN_MIN)
    return found


def _other_beginnings_ms(placed: Placed, events: Events, replayed: RateReplay) -> Floats:
    """Return by how much each throttle (ms) is off if its oldest sample began elsewhere.

    That is with one of REQUESTS_BESIDE requests before or after: the window is longer or shorter by
    the time between them, and what they count is in it or not. Infinite where the request that
    began the oldest sample is not among those placed, or windows are missing.
    """
    order, at_ms = placed.order, placed.recorded_at_ms
    share_ms = np.nan_to_num(events.amount[order] * 1000.0 / events.bound[order])
    # Before each request, and after the last one: the time and what was counted, as one.
    passed_ms = np.append(at_ms, at_ms[-1:]) + np.append(0.0, np.cumsum(share_ms))
    began_ms = at_ms - replayed.window_size_ms
    began = np.searchsorted(at_ms, began_ms)
    is_there = (began >= REQUESTS_BESIDE) & (began < len(at_ms))
    is_there &= at_ms[np.minimum(began, len(at_ms) - 1)] - began_ms <= PROVES_MS
    sooner, later = (
        np.clip(began + beside, 0, len(at_ms)) for beside in (-REQUESTS_BESIDE, REQUESTS_BESIDE)
    )
    off_ms = np.maximum(passed_ms[later] - passed_ms[began], passed_ms[began] - passed_ms[sooner])
    return np.where(is_there, off_ms, np.inf)
