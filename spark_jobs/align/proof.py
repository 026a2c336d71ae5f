"""Whether a sensor's state is proven around a request: by the throttles before and after it."""

from __future__ import annotations

import numpy as np

from spark_jobs.align.events import EXACT, Bools, Events, Int64s
from spark_jobs.align.placement import Placed

NEIGHBOURS = 4
# A throttle that is replayed to the millisecond or two proves the state.
PROVES_MS = 2


def proven(
    placed: Placed, events: Events, replayed_ms: Int64s, window_ms: int, reach_ms: int
) -> Bools:
    """Return whether the nearest throttles on both sides of each request are mostly replayed.

    ``replayed_ms`` and the result are in recording order. Up to NEIGHBOURS throttles on each side
    count, those within ``reach_ms``; the request itself does not. Where a neighbour is off by as
    much as the request itself, a sample began at another time: nothing is proven.
    """
    logged_ms = events.logged_throttle_time_ms[placed.order]
    is_own = events.evidence[placed.order] == EXACT
    tells = is_own & ((logged_ms > 0) | (replayed_ms > 0)) & ~np.isnan(events.bound[placed.order])
    off_ms = logged_ms - replayed_ms
    at = np.flatnonzero(tells)
    good = np.abs(off_ms[at]) <= PROVES_MS
    times = placed.recorded_at_ms[at]
    rows = np.arange(len(tells))
    on_sides = []
    for place, step in ((np.searchsorted(at, rows) - 1, -1), (np.searchsorted(at, rows + 1), 1)):
        near = place[:, None] + step * np.arange(NEIGHBOURS)[None, :]
        is_there = (near >= 0) & (near < len(at))
        near = np.clip(near, 0, max(len(at) - 1, 0))
        if len(at):
            distance_ms = np.abs(times[near] - placed.recorded_at_ms[:, None])
            is_there &= distance_ms <= reach_ms
            shared_ms = (off_ms[at][near] - off_ms[:, None]) % window_ms
            is_alike = (np.minimum(shared_ms, window_ms - shared_ms) <= PROVES_MS) & ~good[near]
            # Nothing is thrown below nothing: throttles of 0 do not tell how far off they are.
            is_alike &= (logged_ms[at][near] > 0) & (logged_ms[:, None] > 0)
            on_sides.append((is_there, is_there & good[near], is_there & is_alike))
    if not on_sides:
        return np.zeros(len(tells), bool)
    is_wrong = np.abs(off_ms) > PROVES_MS
    enough = sum(side_good.sum(1) for _, side_good, _ in on_sides) >= 2
    mostly = np.ones(len(tells), bool)
    alike = np.zeros(len(tells), bool)
    for is_there, side_good, side_alike in on_sides:
        mostly &= 2 * side_good.sum(1) >= is_there.sum(1)
        alike |= side_alike.any(1)
    return np.asarray(enough & mostly & ~(alike & is_wrong))
