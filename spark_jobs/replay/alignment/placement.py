"""From the best hypothesis to one record time per request.

A hypothesis says how record times relate: who starts a sample, who purges one, how long after a
sample's start a throttle was thrown. All of that is of the form ``t[v] - t[u] <= w`` (a simple
temporal network), so bounds are propagated until nothing moves, and each request takes the time
nearest to its most likely one that the others leave it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.states import Bools, Int64s
from spark_jobs.replay.alignment.events import Events, Samples, Window
from spark_jobs.replay.alignment.explanation import (
    AT_LEAST,
    AT_MOST,
    BEGINS,
    BEGINS_IF_LATE,
    EQUAL,
    EVENT,
    LATE_LINE,
    OLDEST,
    PARENT,
    PURGED,
    RELATION,
    RELATION_MS,
    STATUS,
    WAY,
    begins,
    is_if_late,
)
from spark_jobs.replay.alignment.search import Found


class Placed(NamedTuple):
    """The requests in recording order: arrays of n."""

    order: Int64s  # the row of ``events``
    recorded_at_ms: Int64s
    status: Int64s  # of explanation.py
    starts_sample: Bools

    def is_cut(self) -> Bools:
        """Return True for each place by which no request waits for its turn.

        Such as the second of rows 1, 0, 2: the first two recorded are the first two events.
        """
        return np.asarray(np.maximum.accumulate(self.order) == np.arange(len(self.order)))


class Network(NamedTuple):
    """``t[v] - t[u] <= w``, arcs listed at both ends; unknowns are events, then known moments."""

    low_ms: Int64s
    high_ms: Int64s
    u: Int64s
    v: Int64s
    w: Int64s


def place(events: Events, samples: Samples, window: Window, found: Found) -> Placed:
    """Return the record times of the best hypothesis; ``samples`` as the search began with."""
    n = len(events.amount)
    likely_ms = (events.likely_from_ms + events.likely_until_ms) // 2
    network, order = constraints(events, samples, window, found)
    recorded = _solve(network, np.ascontiguousarray(likely_ms[order]))
    steps = found.steps[_path(found.steps, found.leaf, n)]
    starts_sample = np.isin(steps[:, WAY], (BEGINS, BEGINS_IF_LATE))
    return Placed(order, recorded[:n], steps[:, STATUS], starts_sample)


def constraints(
    events: Events, samples: Samples, window: Window, found: Found
) -> tuple[Network, Int64s]:
    """Return the bounds (ms) of times that a hypothesis asks for, and the rows in its order.

    Such as ``t[3] - t[0] <= 999``: the fourth request belongs to the sample of the first.
    """
    path = _path(found.steps, found.leaf, len(events.amount))
    network, arcs = _constraints(
        events, found.steps, path, samples.start_ms, samples.last_event_ms,
        samples.count, samples.index, window.samples, window.window_ms, window.keeps_overlapping,
    )  # fmt: skip
    network = network._replace(u=network.u[:arcs], v=network.v[:arcs], w=network.w[:arcs])
    return network, found.steps[path, EVENT]


@njit(cache=True)
def _path(steps: Int64s, leaf: int, n: int) -> Int64s:
    path = np.zeros(n, np.int64)
    node = leaf
    for k in range(n - 1, -1, -1):
        path[k] = node
        node = steps[node, PARENT]
    return path


@njit(cache=True)
def _constraints(
    events: Events,
    steps: Int64s,
    path: Int64s,
    start_ms: Int64s,
    last_event_ms: Int64s,
    count: int,
    index: int,
    samples: int,
    window_ms: int,
    keeps_overlapping: bool,
) -> tuple[Network, int]:
    """Return the network of a path: unknown k is the k-th recorded event, then starts, then lasts.

    The ring of samples is walked once more, with the unknown that each sample began or ended with.
    """
    n, slots = len(path), len(start_ms)
    room = n * (slots + 5)
    network = Network(
        np.concatenate((events.earliest_ms[steps[path, EVENT]], start_ms, last_event_ms)),
        np.concatenate((events.latest_ms[steps[path, EVENT]], start_ms, last_event_ms)),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )
    arcs = 0
    begun = np.arange(n, n + slots)
    ended = np.arange(n + slots, n + 2 * slots)
    for k in range(n):
        node = path[k]
        is_late = _is_late(steps, node)
        if is_late:
            network.low_ms[k] -= events.line_lag_max_ms[steps[node, EVENT]]
        if k > 0 and not is_late and not _is_late(steps, path[k - 1]):
            arcs = _at_most(network, arcs, k, k - 1, 1)
        if count == 0:
            count, index = 1, 0
            begun[0] = k
        elif begins(steps[node, WAY]):
            arcs = _at_most(network, arcs, k, begun[index], -window_ms)
            index = index + 1 if index + 1 < slots else 0
            count = max(count, index + 1)
            begun[index] = k
        else:
            arcs = _at_most(network, arcs, begun[index], k, window_ms - 1)
        ended[index] = k
        arcs = _ages(
            network, arcs, k, steps[node, PURGED], count, index, begun, ended,
            keeps_overlapping, samples * window_ms,
        )  # fmt: skip
        relation, relation_ms = steps[node, RELATION], steps[node, RELATION_MS]
        if relation in (EQUAL, AT_LEAST):
            arcs = _at_most(network, arcs, k, begun[steps[node, OLDEST]], -relation_ms)
        if relation in (EQUAL, AT_MOST):
            arcs = _at_most(network, arcs, begun[steps[node, OLDEST]], k, relation_ms)
    return network, arcs


@njit(cache=True)
def _is_late(steps: Int64s, node: int) -> bool:
    return bool(steps[node, STATUS] == LATE_LINE or is_if_late(steps[node, WAY]))


@njit(cache=True)
def _at_most(network: Network, arcs: int, u: int, v: int, w: int) -> int:
    """Add ``t[v] - t[u] <= w``; return how many arcs there are."""
    network.u[arcs] = u
    network.v[arcs] = v
    network.w[arcs] = w
    return arcs + 1


@njit(cache=True)
def _ages(
    network: Network,
    arcs: int,
    k: int,
    purged: int,
    count: int,
    index: int,
    begun: Int64s,
    ended: Int64s,
    keeps_overlapping: bool,
    expire_age_ms: int,
) -> int:
    """Add which samples were obsolete at event ``k``, where the bounds leave a doubt."""
    for s in range(count):
        if s == index:
            continue
        reference = ended[s] if keeps_overlapping else begun[s]
        if (purged >> s) & 1:
            if network.low_ms[k] - network.high_ms[reference] < expire_age_ms:
                arcs = _at_most(network, arcs, k, reference, -expire_age_ms)
            begun[s] = k
            ended[s] = k
        elif network.high_ms[k] - network.low_ms[reference] >= expire_age_ms:
            arcs = _at_most(network, arcs, reference, k, expire_age_ms - 1)
    return arcs


@njit(cache=True)
def _solve(network: Network, likely_ms: Int64s) -> Int64s:
    """Return one time per unknown that breaks as few arcs as the propagation meets."""
    low, high = network.low_ms, network.high_ms
    n, arcs = len(low), len(network.u)
    first = np.full(n, -1, np.int64)
    after = np.full(2 * arcs, -1, np.int64)
    for a in range(arcs - 1, -1, -1):
        after[2 * a] = first[network.u[a]]
        first[network.u[a]] = 2 * a
        after[2 * a + 1] = first[network.v[a]]
        first[network.v[a]] = 2 * a + 1
    broken = np.zeros(arcs, np.bool_)
    queue, queued = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    _propagate(network, np.arange(n), first, after, broken, queue, queued)
    one = np.zeros(1, np.int64)
    for k in range(len(likely_ms)):
        if low[k] == high[k]:
            continue
        at_ms = min(max(likely_ms[k], low[k]), high[k])
        low[k] = at_ms
        high[k] = at_ms
        one[0] = k
        _propagate(network, one, first, after, broken, queue, queued)
    return low


@njit(cache=True)
def _propagate(
    network: Network,
    moved: Int64s,
    first: Int64s,
    after: Int64s,
    broken: np.ndarray,
    queue: Int64s,
    queued: np.ndarray,
) -> None:
    """Tighten all bounds that the ``moved`` unknowns reach; drop arcs that cannot be kept."""
    low, high = network.low_ms, network.high_ms
    room = len(queue)
    head = tail = 0
    for k in moved:
        queue[tail] = k
        tail = (tail + 1) % room
        queued[k] = True
    while head != tail:
        k = queue[head]
        head = (head + 1) % room
        queued[k] = False
        entry = first[k]
        while entry >= 0:
            a = entry >> 1
            entry = after[entry]
            if broken[a]:
                continue
            u, v, w = network.u[a], network.v[a], network.w[a]
            if high[u] + w < low[v]:
                broken[a] = True
                continue
            if high[u] + w < high[v]:
                high[v] = high[u] + w
                if not queued[v]:
                    queue[tail] = v
                    tail = (tail + 1) % room
                    queued[v] = True
            if low[v] - w > low[u]:
                low[u] = low[v] - w
                if not queued[u]:
                    queue[tail] = u
                    tail = (tail + 1) % room
                    queued[u] = True
