"""What later throttles say of each request as the first one of a sample.

A throttle tells when the oldest sample began, a whole rate window after it did. Until then one
request is as good as the next, and there are more ways to choose one in each window than a search
can carry: 2,000 in eleven windows where two requests may each begin the next sample. But what a
choice leads to can be computed at once. While a sample is the oldest one, the total is all that was
recorded from its first request on, and the window's length is the time since then.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from spark_jobs.quota.states import Floats, Int64s
from spark_jobs.replay.alignment.events import (
    AMOUNT,
    BOUND,
    EARLIEST,
    EVIDENCE,
    EXACT,
    LATEST,
    LOGGED,
    EventArrays,
)

# So many of the requests that a start explains, or not, are looked at, at most twice as many.
_TOLD_MAX = 256
# So many throttles that do not fit make a start as unlikely as can be. One may be that of a request
# which was recorded in another order than its line stands.
_MISSES_MAX = 3


@njit(cache=True)
def unlikely_starts(
    events: EventArrays, samples: int, window_ms: int, keeps_overlapping: bool
) -> Floats:
    """Return the unlikeliness of each event as the first of a sample, [n], such as 0.67 of 1.

    It is 0 where no other event within half a window explains more of the throttles, and of the
    requests without one, that came while the sample was surely the oldest.
    """
    n = len(events.whole)
    total = np.zeros(n + 1)
    for j in range(n):
        total[j + 1] = total[j] + events.broken[j, AMOUNT]
    misses = np.zeros(n, np.int64)
    first = stop = last = 0
    for r in range(n):
        earliest_ms, latest_ms = events.whole[r, EARLIEST], events.whole[r, LATEST]
        # The sample before has left by then: it is purged by its start, or by its last event.
        from_ms = latest_ms + (samples if keeps_overlapping else samples - 1) * window_ms
        until_ms = earliest_ms + samples * window_ms
        if keeps_overlapping:
            last = max(last, r)
            while last + 1 < n and events.whole[last + 1, LATEST] < earliest_ms + window_ms:
                last += 1
            until_ms = events.whole[last, EARLIEST] + samples * window_ms
        first, stop = max(first, r), max(stop, r)
        while first < n and events.whole[first, EARLIEST] < from_ms:
            first += 1
        while stop < n and events.whole[stop, LATEST] < until_ms:
            stop += 1
        for j in range(first, stop, max((stop - first) // _TOLD_MAX, 1)):
            due_ms = (total[j + 1] - total[r]) * 1000.0 / events.broken[j, BOUND]
            if events.whole[j, EVIDENCE] != EXACT or np.isnan(due_ms):
                continue
            logged_ms = events.whole[j, LOGGED]
            elapsed_ms = due_ms - logged_ms
            is_too_late = elapsed_ms >= events.whole[j, LATEST] - earliest_ms + 1
            is_too_early = elapsed_ms <= events.whole[j, EARLIEST] - latest_ms - 1
            misses[r] += is_too_late or (is_too_early and logged_ms > 0)
    return _above_fewest_around(events, misses, window_ms)


@njit(cache=True)
def _above_fewest_around(events: EventArrays, misses: Int64s, window_ms: int) -> Floats:
    """Return the share of _MISSES_MAX that each event misses more than the best one around, [n].

    Such as 0.67 for 5 throttles that do not fit, where another within half a window has 3.
    """
    n = len(misses)
    above = np.zeros(n)
    first = stop = 0
    for r in range(n):
        while events.whole[r, LATEST] - events.whole[first, LATEST] > window_ms // 2:
            first += 1
        while stop < n and events.whole[stop, LATEST] - events.whole[r, LATEST] < window_ms // 2:
            stop += 1
        fewest = misses[r]
        for other in range(first, stop):
            fewest = min(fewest, misses[other])
        above[r] = min((misses[r] - fewest) / _MISSES_MAX, 1.0)
    return above
