"""When samples began, inside of which times, whatever the times of their requests.

A sample begins with the first request that is a window later than the beginning of the one before.
Each request was recorded inside of what its line admits, so a sample began inside of a time too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.kernels import RateReplay
from spark_jobs.quota.states import Floats, Int64s
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.placement import Placed

KNOWN_BY = 3
"""So many throttles tell when the sample began that was the oldest one of each of them."""
STARTS_MAX = 32
"""So many requests are told apart of which one began a sample."""
FAR_MS = 1 << 60


class Beginnings(NamedTuple):
    """The interval in which each of some samples began (ms), one after the other."""

    from_ms: Int64s
    until_ms: Int64s


def known_beginnings(
    placed: Placed, events: Events, replayed: RateReplay, window: Window
) -> Beginnings:
    """Return the beginnings of samples that throttles prove, in order.

    KNOWN_BY throttles or more with one oldest sample are replayed to PROVES_MS, none is not, and it
    is so for the sample before or after, too. One sample alone may be right by chance: where
    requests come just as fast as the quota lets them, a wrong beginning changes no throttle.
    """
    logged_ms = events.logged_throttle_time_ms[placed.order]
    tells = (events.evidence[placed.order] == EXACT) & ~np.isnan(events.bound[placed.order])
    tells &= (logged_ms > 0) | (replayed.throttle_time_ms > 0)
    size_ms = replayed.window_size_ms[tells]
    began_ms, sample = np.unique(placed.recorded_at_ms[tells] - size_ms, return_inverse=True)
    is_right = (np.abs(logged_ms - replayed.throttle_time_ms) <= PROVES_MS)[tells]
    is_told = np.bincount(sample, is_right & (logged_ms[tells] > 0), len(began_ms)) >= KNOWN_BY
    is_told &= np.bincount(sample, ~is_right, len(began_ms)) == 0
    # While windows are missing, a window size does not tell a beginning.
    is_told &= np.isin(began_ms, placed.recorded_at_ms[placed.starts_sample])
    beside = np.append(False, is_told[:-1]) | np.append(is_told[1:], False)
    # Each throttle says how long before its request the sample began.
    from_ms, until_ms = intervals_ms(placed, events)
    least_ms, most_ms = np.full_like(began_ms, -FAR_MS), np.full_like(began_ms, FAR_MS)
    np.maximum.at(least_ms, sample, from_ms[tells] - size_ms - PROVES_MS)
    np.minimum.at(most_ms, sample, until_ms[tells] - size_ms + PROVES_MS)
    is_known = is_told & beside
    return Beginnings(least_ms[is_known], most_ms[is_known])


class Requests(NamedTuple):
    """Requests in recording order."""

    from_ms: Int64s
    until_ms: Int64s
    amount: Floats
    bound: Floats
    connection: Int64s
    counted: Floats  # by all before each, and by all


class Sorted(NamedTuple):
    """The same in the order of one end of their intervals."""

    at_ms: Int64s
    request: Int64s
    other_end_ms: Int64s  # the first other end of those from each on
    last_end_ms: Int64s  # the last other end of those up to each
    counted: Floats

    @classmethod
    def of(cls, at_ms: Int64s, other_end_ms: Int64s, amount: Floats) -> Sorted:
        """Return the requests by ``at_ms``, one end of each (ms), with the other end."""
        order = np.argsort(at_ms, kind="stable")
        other_ms = other_end_ms[order]
        first_ms = np.minimum.accumulate(other_ms[::-1])[::-1]
        last_ms = np.maximum.accumulate(other_ms)
        return cls(at_ms[order], order, first_ms, last_ms, summed(amount[order]))


def intervals_ms(placed: Placed, events: Events) -> tuple[Int64s, Int64s]:
    """Return the earliest and the latest times (ms) of records, in recording order."""
    order = placed.order
    from_ms = (events.earliest_ms - events.line_lag_max_ms)[order]
    return (
        np.minimum(from_ms, placed.recorded_at_ms),
        np.maximum(events.latest_ms[order], placed.recorded_at_ms),
    )


def summed(amount: Floats) -> Floats:
    """Return the sums of amounts (bytes) before each, and of all: 0, 3, 7 of 3 and 4."""
    return np.append(0.0, np.cumsum(amount))


@njit(cache=True)
def beginnings(
    earlier: Sorted,
    later: Sorted,
    first: tuple[int, int],
    known: Beginnings,
    window_ms: int,
    until_ms: int,
) -> Beginnings:
    """Return when each sample began, from the ``first`` one on until one begins after ``until_ms``.

    One that no request begins has a beginning in the far future.
    """
    n = len(earlier.at_ms)
    from_ms, to_ms = [first[0]], [first[1]]
    while from_ms[-1] <= until_ms:
        # The first request that may be late enough, and the first that surely is.
        may = np.searchsorted(later.at_ms, from_ms[-1] + window_ms)
        surely = np.searchsorted(earlier.at_ms, to_ms[-1] + window_ms)
        least_ms = most_ms = FAR_MS
        if may < n:
            least_ms = max(later.other_end_ms[may], from_ms[-1] + window_ms)
        if surely < n:
            most_ms = earlier.other_end_ms[surely]
        # Two samples begin a window apart: a known one that lies inside of less is this one.
        place = np.searchsorted(known.from_ms, least_ms)
        is_inside = place < len(known.from_ms) and known.until_ms[place] <= most_ms
        if is_inside and most_ms - least_ms < window_ms:
            least_ms, most_ms = known.from_ms[place], known.until_ms[place]
        from_ms.append(least_ms)
        to_ms.append(most_ms)
    return Beginnings(np.array(from_ms), np.array(to_ms))


@njit(cache=True)
def first_beginnings(
    since_ms: int, until_ms: int, requests: Requests, later: Sorted
) -> list[tuple[int, int]]:
    """Return in which intervals a sample may have begun that began between two moments (ms).

    One for each request that may have begun it, such as (1,200, 1,203) and (1,370, 1,374), for the
    samples that follow hang on which one it was. Of more than STARTS_MAX several share one.
    """
    place = np.searchsorted(later.at_ms, since_ms)
    starts = [(0, 0) for _ in range(0)]
    while place < len(later.at_ms) and later.other_end_ms[place] <= until_ms:
        m = later.request[place]
        place += 1
        if requests.from_ms[m] <= until_ms:
            starts.append((max(requests.from_ms[m], since_ms), min(requests.until_ms[m], until_ms)))
    share = -(-len(starts) // STARTS_MAX)
    if share <= 1:
        return starts
    joined = [(0, 0) for _ in range(0)]
    for begin in range(0, len(starts), share):
        least_ms, most_ms = starts[begin]
        for from_ms, to_ms in starts[begin : begin + share]:
            least_ms, most_ms = min(least_ms, from_ms), max(most_ms, to_ms)
        joined.append((least_ms, most_ms))
    return joined
