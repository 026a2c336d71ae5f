"""Where the best hypothesis of the search contradicts itself.

A hypothesis keeps an interval for when each sample began. Two throttles may each fix how long after
a sample's start they were thrown, and so how far apart they are; an interval for each forgets that.
So the search may take one request to belong to a sample, and the times that the throttles ask for
put it into the next one. Such claims go round in a circle that no times fulfil::

    t[1006] + 1000 <= t[1066]       a sample begins with 1066, the one before with 1006
    t[1602] - t[1006] == 10540      a throttle
    t[1662] - t[1066] == 10540      another
    t[1662] - t[1602] <= 999        1662 belongs to the sample that 1602 begins

Each request in a circle is tried in the other sample, and each sample as gone or as still there,
until what is replayed is what was explained. So is a request that was not throttled, but is
replayed so: where whole windows were over since its oldest sample began, that may have begun a
little later, or, by a late line, sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from numba import njit

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import Int64s, SensorStates
from spark_jobs.replay.alignment.events import EXACT, Events, Samples, Window, earlier
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import (
    Network,
    Placed,
    constraints,
    place,
)
from spark_jobs.replay.alignment.search import Found, search

_STEPS_MAX = 1 << 26
"""The trials of a window take so many steps of hypotheses together, some 20 seconds."""
_CIRCLES_MAX = 3
"""So many circles in a row may come out of each other before what is replayed gets any better."""
_ROUNDS_OF_ARCS_MAX = 64
_ARCS_MAX = 24


def agreeing(
    events: Events, samples: Samples, window: Window, found: Found, placed: Placed, width: int
) -> tuple[Events, Found, Placed]:
    """Return the events with a hypothesis that its own times explain, and those times.

    They are as given where no request in another sample gives a better replay. ``width`` is how
    many hypotheses each trial has: as many as it took to explain what is given.
    """
    wrong = _replayed_wrong(placed, events, samples, window)
    left = _STEPS_MAX // (width * max(len(events.amount), 1))
    best = last = wrong, events, found, placed
    circles = 0
    while left > 0 and circles <= _CIRCLES_MAX and best[0] > _unexplained(best[3]):
        trials_of = chain(
            _let_through(last[1], samples, window, last[3]),
            _trials(last[1], samples, window, last[2]),
        )
        tried = list(islice(trials_of, left))
        left -= len(tried)
        trials = [
            (_replayed_wrong(there, trial, samples, window), trial, other, there)
            for trial in tried
            for other in [search(trial, samples, window, width)]
            for there in [place(trial, samples, window, other)]
        ]
        if not trials:
            break
        last = min(trials, key=lambda each: (each[0], each[2].cost))
        circles += 1
        if last[0] < best[0]:
            best, circles = last, 0
        else:
            # What contradicts itself is replayed anyhow: the likeliest one leads on.
            last = min(trials, key=lambda each: each[2].cost)
    return best[1:]


def _unexplained(placed: Placed) -> int:
    return int((placed.status == UNEXPLAINED).sum())


def _replayed_wrong(placed: Placed, events: Events, samples: Samples, window: Window) -> int:
    """Return the number of throttles, such as 365, off by over PROVES_MS at these times."""
    rows = placed.order
    found_ms = _replayed(placed, events, samples, window).throttle_time_ms
    tells = (events.evidence[rows] == EXACT) & ~np.isnan(events.bound[rows])
    off_ms = events.logged_throttle_time_ms[rows] - found_ms
    return int((tells & (np.abs(off_ms) > PROVES_MS)).sum())


def _replayed(placed: Placed, events: Events, samples: Samples, window: Window) -> RateReplay:
    rows = placed.order
    profile = RateProfile.RATE_3_8 if window.keeps_overlapping else RateProfile.RATE_3_3
    states = SensorStates.allocate([profile], [window.samples], [window.window_ms])
    held = zip(samples.start_ms.tolist(), samples.last_event_ms.tolist(), samples.value.tolist(),
               strict=True)  # fmt: skip
    states.restore(0, samples.index, list(held)[: samples.count])
    return replay_rate(
        np.zeros(len(rows), np.int64),
        placed.recorded_at_ms,
        events.amount[rows],
        events.bound[rows],
        np.full(len(rows), RECORD),
        events.logged_throttle_time_ms[rows],
        np.full(len(rows), NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )


def _let_through(
    events: Events, samples: Samples, window: Window, placed: Placed
) -> Iterator[Events]:
    """Yield the events with another beginning of what a request that was let through counts.

    That has a throttle replayed: its oldest sample began so late that another whole window was not
    over (``Rate.windowSize``), or sooner, by a late line.
    """
    replay, at_ms = _replayed(placed, events, samples, window), placed.recorded_at_ms
    is_let_through = events.logged_throttle_time_ms[placed.order] == 0
    tells = (events.evidence[placed.order] == EXACT) & (placed.status != UNEXPLAINED)
    begun = np.flatnonzero(placed.starts_sample)
    full_ms = window.expire_age_ms - window.window_ms
    for k in np.flatnonzero(tells & is_let_through & (replay.throttle_time_ms > PROVES_MS)):
        elapsed_ms = at_ms[k] - at_ms[begun[begun <= k]]
        sizes_ms = np.where(
            elapsed_ms < full_ms, full_ms + elapsed_ms % window.window_ms, elapsed_ms
        )
        oldest = np.flatnonzero(sizes_ms == replay.window_size_ms[k])
        if not len(oldest):
            continue
        first, row = int(placed.order[begun[oldest[0]]]), int(placed.order[k])
        over_ms = int(elapsed_ms[oldest[0]]) // window.window_ms * window.window_ms
        until_ms = min(int(events.latest_ms[row]), int(events.latest_ms[first]) + over_ms - 1)
        is_over = 0 < over_ms < window.expire_age_ms
        if is_over and until_ms >= events.earliest_ms[row]:
            from_ms = until_ms - over_ms + 1
            yield _limited(events, events.earliest_ms, row, until_ms, first, from_ms)
        if events.line_lag_max_ms[first] > 0:
            yield earlier(events, first)


def _trials(events: Events, samples: Samples, window: Window, found: Found) -> Iterator[Events]:
    """Yield the events with a request of a circle surely in the other sample, the last one first.

    A circle closes with its last request; a chain of samples may lead there from afar. Another one
    is looked for among the throttles that the circles before say nothing of.
    """
    network, order = constraints(events, samples, window, found)
    # Lines that the hypothesis takes to be late have earlier times here.
    earliest_ms = events.earliest_ms.copy()
    earliest_ms[order] = network.low_ms[: len(order)]
    for _ in range(_CIRCLES_MAX):
        circle = _circle(network, network.low_ms.copy(), network.high_ms.copy())[::-1]
        if not len(circle):
            break
        yield from _other_samples(events, earliest_ms, window, network, order, circle)
        network = _without(network, circle, window)


def _other_samples(
    events: Events,
    earliest_ms: Int64s,
    window: Window,
    network: Network,
    order: Int64s,
    circle: Int64s,
) -> Iterator[Events]:
    """Yield the events with a request of ``circle`` in the other sample, as arc by arc forbids."""
    latest_ms = events.latest_ms
    for u, v, w in zip(*(column[circle].tolist() for column in network[2:]), strict=True):
        if max(u, v) >= len(order):
            continue
        for span_ms in (window.window_ms, window.expire_age_ms):
            if w == span_ms - 1:  # v belongs to the sample that u begins, or what u ended is there
                first, row = int(order[u]), int(order[v])
                until_ms = min(int(latest_ms[first]), int(latest_ms[row]) - span_ms)
                if until_ms >= earliest_ms[first]:
                    yield _limited(events, earliest_ms, first, until_ms, row, until_ms + span_ms)
            elif w == -span_ms:  # a sample begins with u after the one of v, or what v ended left
                first, row = int(order[v]), int(order[u])
                from_ms = max(int(earliest_ms[first]), int(earliest_ms[row]) - span_ms + 1)
                if from_ms <= latest_ms[first]:
                    until_ms = from_ms + span_ms - 1
                    yield _limited(events, earliest_ms, row, until_ms, first, from_ms)


def _without(network: Network, circle: Int64s, window: Window) -> Network:
    """Return the network without what throttles say of the samples' beginnings in ``circle``."""
    spans_ms = [1]
    for span_ms in (window.window_ms, window.expire_age_ms):
        spans_ms += [span_ms - 1, -span_ms]
    is_told = ~np.isin(network.w, spans_ms)
    begun = np.where(network.w > 0, network.u, network.v)
    is_left = ~(is_told & np.isin(begun, begun[circle[is_told[circle]]]))
    is_left[circle] = False
    return network._replace(u=network.u[is_left], v=network.v[is_left], w=network.w[is_left])


def _limited(
    events: Events, least_ms: Int64s, early: int, until_ms: int, late: int, from_ms: int
) -> Events:
    """Return the events with ``early`` recorded until a time, and ``late`` from another one on.

    Both as early as ``least_ms`` has it, no sooner.
    """
    earliest_ms, latest_ms = events.earliest_ms.copy(), events.latest_ms.copy()
    earliest_ms[early] = least_ms[early]
    latest_ms[early] = min(int(latest_ms[early]), until_ms)
    earliest_ms[late] = max(int(least_ms[late]), from_ms)
    return events._replace(earliest_ms=earliest_ms, latest_ms=latest_ms)


@njit(cache=True)
def _circle(network: Network, low_ms: Int64s, high_ms: Int64s) -> Int64s:
    """Return the arcs that no times fulfil together; none where all can be.

    ``low_ms`` and ``high_ms`` are moved.
    """
    nodes, arcs = len(low_ms), len(network.u)
    by_low, by_high = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    for _ in range(_ROUNDS_OF_ARCS_MAX):
        is_moved = False
        for a in range(arcs):
            u, v, w = network.u[a], network.v[a], network.w[a]
            if high_ms[u] + w < high_ms[v]:
                high_ms[v] = high_ms[u] + w
                by_high[v] = a
                is_moved = True
            if low_ms[v] - w > low_ms[u]:
                low_ms[u] = low_ms[v] - w
                by_low[u] = a
                is_moved = True
            for node in (u, v):
                if low_ms[node] > high_ms[node]:
                    return _led_to(network, by_low, by_high, node)
        if not is_moved:
            break
    return np.zeros(0, np.int64)


@njit(cache=True)
def _led_to(network: Network, by_low: Int64s, by_high: Int64s, node: int) -> Int64s:
    """Return the arcs that led to the bounds of a node, the nearest first."""
    found = np.zeros(2 * _ARCS_MAX, np.int64)
    n = 0
    at = node
    while by_high[at] >= 0 and n < _ARCS_MAX:
        found[n] = by_high[at]
        n += 1
        at = network.u[by_high[at]]
    at, most = node, n + _ARCS_MAX
    while by_low[at] >= 0 and n < most:
        found[n] = by_low[at]
        n += 1
        at = network.v[by_low[at]]
    return np.unique(found[:n])
