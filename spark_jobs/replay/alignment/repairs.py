"""What the search misses: a line that was written late, or a sample that begins a request beside.

A request at a sample's edge moves what follows for up to two rate windows, though its own throttle
says nothing of it. A line may be later than the request's phases say, which no hypothesis of the
search allows for; and of many edges that are open by a millisecond the search carries few ways on.
So where a throttle stays unexplained, each request that may have moved it is tried at other times,
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from spark_jobs.replay.alignment.events import Events, Samples, Window, earlier
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed, place
from spark_jobs.replay.alignment.search import Found, search

# It has to explain as much as this to be believed: half a wrong throttle.
_GAIN_MIN = 4.0
_REPAIRS_MAX = 8
_NEAR_ROWS = 8
# So many samples, the last ones since those that throttles tell of, may have begun otherwise.
_STARTS_MAX = 64
# The trials of a window search so many rows together, times their width: some seconds.
_ROWS_SEARCHED_MAX = 40_000_000
# So much of what follows tells if a repair is one.
_AFTER_WINDOWS = 2


def repaired(
    events: Events,
    samples: Samples,
    window: Window,
    found: Found,
    best: Placed,
    width: int,
    failures_max: int,
) -> tuple[Events, Found, Placed]:
    """Return the events, the hypothesis and the requests as it places them, repaired or as given.

    The events have a few requests, such as one, at other times than the log says, where that leaves
    less unexplained.
    """
    repairs = failures = after = 0
    left = _ROWS_SEARCHED_MAX // width
    while repairs < _REPAIRS_MAX and failures < failures_max and left > 0:
        unexplained = np.flatnonzero(best.status[after:] == UNEXPLAINED)
        if not len(unexplained):
            break
        k = after + int(unexplained[0])
        trial, searched = _best_trial(events, samples, window, best, k, width, left)
        left -= searched
        other = None if trial is None else search(trial, samples, window, width)
        if trial is None or other is None or other.cost > found.cost - _GAIN_MIN:
            failures += 1
            after = int(
                np.searchsorted(best.recorded_at_ms, best.recorded_at_ms[k] + window.window_ms)
            )
            after = max(after, k + 1)
            continue
        repairs += 1
        events, found = trial, other
        best = place(events, samples, window, found)
    return events, found, best


def _best_trial(
    events: Events,
    samples: Samples,
    window: Window,
    placed: Placed,
    k: int,
    width: int,
    rows_max: int,
) -> tuple[Events | None, int]:
    """Return the events with the change that explains most from row ``k`` on; None: none does.

    And how many rows were searched for it, ``rows_max`` or a trial more.
    """
    until_ms = placed.recorded_at_ms[k] + _AFTER_WINDOWS * window.window_ms
    stop = int(np.searchsorted(placed.recorded_at_ms, until_ms))
    stop = max(int(placed.order[:stop].max()) + 1, k + 1)
    best = None
    best_cost = search(_first(events, stop), samples, window, width).cost - _GAIN_MIN
    trials = list(islice(_trials(events, window, placed, k), max(rows_max // stop, 1)))
    for trial in trials:
        cost = search(_first(trial, stop), samples, window, width, best_cost).cost
        if cost < best_cost:
            best, best_cost = trial, cost
    return best, len(trials) * stop


def _first(events: Events, stop: int) -> Events:
    return Events._make(column[:stop] for column in events)


def _trials(events: Events, window: Window, placed: Placed, k: int) -> Iterator[Events]:
    """Yield the events with one request at another time: late lines first, then samples' edges."""
    at_ms, lag_ms = placed.recorded_at_ms, events.line_lag_max_ms[placed.order]
    late = set()
    for row in _late(placed, events, window, k):
        if lag_ms[row] > 0 and at_ms[row] - lag_ms[row] <= at_ms[k]:
            late.add(row)
            yield earlier(events, int(placed.order[row]))
    starts = np.flatnonzero(placed.starts_sample[:k])
    for row in _at_far_edges(placed, window, k):
        j = int(placed.order[row])
        earliest_ms, latest_ms = int(events.earliest_ms[j]), int(events.latest_ms[j])
        if lag_ms[row] > 0 and row not in late:
            yield earlier(events, j)
        before = int(np.searchsorted(starts, row)) - 1
        if before >= 0:
            # It surely begins a sample, or surely does not, whenever the one before began.
            begun = placed.order[starts[before]]
            begins_ms = int(events.latest_ms[begun]) + window.window_ms
            belongs_ms = int(events.earliest_ms[begun]) + window.window_ms - 1
            if earliest_ms < begins_ms <= latest_ms:
                yield _within(events, j, begins_ms, latest_ms)
            if earliest_ms <= belongs_ms < latest_ms:
                yield _within(events, j, earliest_ms, belongs_ms)
        if earliest_ms < latest_ms:
            yield _within(events, j, earliest_ms, earliest_ms)
            yield _within(events, j, latest_ms, latest_ms)


def _late(placed: Placed, events: Events, window: Window, k: int) -> Iterator[int]:
    """Yield the rows whose lines may be late: those around, those that place samples, edges."""
    at_ms = placed.recorded_at_ms
    told = np.flatnonzero(events.logged_throttle_time_ms[placed.order[:k]] > 0)
    # A throttle tells of no sample that began after its oldest one: those hang on each other.
    told_ms = at_ms[told[-1]] if len(told) else at_ms[0]
    first = np.searchsorted(at_ms, told_ms - window.expire_age_ms - 3 * window.window_ms)
    starts = first + np.flatnonzero(placed.starts_sample[first : k + 1])[-_STARTS_MAX:]
    edges = np.union1d(starts, np.maximum(starts - 1, 0))
    following = range(k, min(k + _NEAR_ROWS, len(at_ms)))
    yield from dict.fromkeys(
        (*following, *told[-_NEAR_ROWS:][::-1].tolist(), *edges[::-1].tolist())
    )


def _at_far_edges(placed: Placed, window: Window, k: int) -> list[int]:
    """Return the rows around the edges of the samples that leave at row ``k``, or just did."""
    at_ms = placed.recorded_at_ms
    far_ms = at_ms[k] - window.expire_age_ms
    first, last = np.searchsorted(
        at_ms, (far_ms - 2 * window.window_ms, far_ms + 2 * window.window_ms)
    )
    starts = first + np.flatnonzero(placed.starts_sample[first:last])
    near = np.unique(np.maximum(starts[:, np.newaxis] + np.arange(-2, 3), 0))
    return sorted(
        (row for row in near.tolist() if row < k), key=lambda row: abs(at_ms[row] - far_ms)
    )


def _within(events: Events, row: int, earliest_ms: int, latest_ms: int) -> Events:
    """Return the events with one in a part of its interval."""
    earliest, latest = events.earliest_ms.copy(), events.latest_ms.copy()
    earliest[row], latest[row] = earliest_ms, latest_ms
    return events._replace(earliest_ms=earliest, latest_ms=latest)
