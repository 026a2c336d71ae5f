"""The search: recording times and order that explain a sensor's logged throttles best.

A beam search over the order of the requests and over what each may have done to the samples. The
hypotheses are ranked by what they leave unexplained, and by how unlikely the samples' starts are
that they chose; the best is the one that explains most. Those that hold the same amounts are one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.states import Floats, Int64s
from spark_jobs.replay.alignment.beam import (
    AHEAD,
    BASE,
    BASE_FROM,
    BASE_UNTIL,
    COUNT,
    FLOOR,
    INDEX,
    NEXT_EVENT,
    NODE,
    OFFSET,
    Beam,
    allocate,
    borrowed_beam,
    copy_hypothesis,
    covers,
    fingerprint,
    start_from,
)
from spark_jobs.replay.alignment.borrowed import borrowed
from spark_jobs.replay.alignment.events import (
    CONNECTION,
    EARLIEST,
    LATEST,
    LIKELY_FROM,
    LINE_LAG_MAX,
    EventArrays,
    Events,
    Samples,
    Window,
    borrowed_events,
)
from spark_jobs.replay.alignment.explanation import (
    BEGINS,
    BEGINS_IF_LATE,
    BELONGS,
    BELONGS_IF_LATE,
    PARENT,
    STEP_COLUMNS,
    UNEXPLAINED_COST,
    begins,
    is_if_late,
)
from spark_jobs.replay.alignment.start_evidence import unlikely_starts
from spark_jobs.replay.alignment.step import record

# One hypothesis becomes at most this many: few orders are possible at a time.
FAN_OUT = 8
# This many requests may be recorded before one whose line was earlier (bits of an int64).
LOOK_AHEAD = 24
# A hypothesis that costs this much more than the best is not worth carrying.
HOPELESS_COST = 4 * UNEXPLAINED_COST
_OUT_OF_TURN_COST = 0.3
# One of so many places is for hypotheses whose current sample began with another request.
OTHER_STARTS_PART = 4
BEGUN_MAX = 1024


class Found(NamedTuple):
    """The best hypothesis: its last step, its cost, and the steps that led to it, among others."""

    leaf: int
    cost: float
    steps: Int64s  # [N, STEP_COLUMNS]


def search(
    events: Events,
    samples: Samples,
    window: Window,
    width: int,
    cost_max: float = np.inf,
    *,
    takes_late: bool = True,
) -> Found:
    """Return the best of ``width`` hypotheses after all ``events``; the first step is the root.

    Gives up where everything costs more than ``cost_max``: what is found is then not whole. Without
    ``takes_late`` no line at a sample's edge is taken to be late.
    """
    n = len(events.amount)
    beam = allocate(width, window.slots)
    children = allocate(width * FAN_OUT, window.slots)
    start_from(beam, samples, n)
    arrays = events.arrays()
    leaf, cost, steps = _search(
        beam,
        children,
        arrays,
        np.zeros((width * FAN_OUT, STEP_COLUMNS), np.int64),
        np.zeros((4 * n + 16, STEP_COLUMNS), np.int64),
        unlikely_starts(arrays, window.samples, window.window_ms, window.keeps_overlapping),
        window.samples,
        window.window_ms,
        window.keeps_overlapping,
        takes_late,
        cost_max,
    )
    return Found(leaf, cost, steps)


@njit(cache=True)
def _search(
    beam: Beam,
    children: Beam,
    events: EventArrays,
    taken: Int64s,
    history: Int64s,
    unlikely_start: Floats,
    samples: int,
    window_ms: int,
    keeps_overlapping: bool,
    takes_late: bool,
    cost_max: float,
) -> tuple[int, float, Int64s]:
    beam, children = borrowed_beam(beam), borrowed_beam(children)
    events, taken = borrowed_events(events), borrowed(taken)
    unlikely_start = borrowed(unlikely_start)
    n = len(events.whole)
    history[0, PARENT] = -1
    kept, nodes = 1, 1
    buckets = np.zeros(4 * len(beam.costs), np.int64)
    chain = np.zeros(len(beam.costs), np.int64)
    begun = np.zeros(BEGUN_MAX, np.int64)
    places = np.zeros(len(history), np.int64)
    for _ in range(n):
        if nodes + len(beam.costs) > len(history):
            nodes = _forget_dead_ends(beam, kept, history, nodes, places)
            while 2 * nodes + len(beam.costs) > len(history):
                history = np.concatenate((history, np.zeros_like(history)))
            places = np.zeros(len(history), np.int64)
        grown = _expand(
            beam, kept, events, unlikely_start, children, taken,
            samples, window_ms, keeps_overlapping, takes_late,
        )  # fmt: skip
        assert grown > 0
        kept = _select(
            beam, children, grown, taken, history, nodes, buckets, chain, begun, keeps_overlapping
        )
        nodes += kept
        if beam.costs[:kept].min() > cost_max:
            break
    best = beam.costs[:kept].argmin()
    return beam.heads[best, NODE], beam.costs[best], history


@njit(forceinline=True)
def _forget_dead_ends(beam: Beam, kept: int, history: Int64s, nodes: int, places: Int64s) -> int:
    """Leave only steps that led to one of the hypotheses; return how many those are.

    Most were taken by hypotheses that others outdid soon. ``places`` is room for as many numbers.
    """
    places[:nodes] = -1
    for h in range(kept):
        node = beam.heads[h, NODE]
        while node >= 0 and places[node] < 0:
            places[node] = 0
            node = history[node, PARENT]
    alive = 0
    for node in range(nodes):
        if places[node] < 0:
            continue
        for column in range(STEP_COLUMNS):
            history[alive, column] = history[node, column]
        # A step comes after the one before it, whose new place is known.
        if history[alive, PARENT] >= 0:
            history[alive, PARENT] = places[history[alive, PARENT]]
        places[node] = alive
        alive += 1
    for h in range(kept):
        beam.heads[h, NODE] = places[beam.heads[h, NODE]]
    return alive


@njit(forceinline=True)
def _expand(
    beam: Beam,
    kept: int,
    events: EventArrays,
    unlikely_start: Floats,
    children: Beam,
    taken: Int64s,
    samples: int,
    window_ms: int,
    keeps_overlapping: bool,
    takes_late: bool,
) -> int:
    """Write what each hypothesis becomes by its possible next events; return how many."""
    n = len(events.whole)
    grown = 0
    for h in range(kept):
        first = beam.heads[h, NEXT_EVENT]
        for j in range(first, min(n, first + LOOK_AHEAD)):
            turn_cost = _turn_cost(beam, h, events, first, j)
            if turn_cost < 0:
                continue
            before = grown
            grown = _grow(
                beam, h, events, first, j, unlikely_start, children, grown, taken,
                samples, window_ms, keeps_overlapping, takes_late,
            )  # fmt: skip
            children.costs[before:grown] += turn_cost
    return grown


@njit(forceinline=True)
def _grow(
    beam: Beam,
    h: int,
    events: EventArrays,
    first: int,
    j: int,
    unlikely_start: Floats,
    children: Beam,
    grown: int,
    taken: Int64s,
    samples: int,
    window_ms: int,
    keeps_overlapping: bool,
    takes_late: bool,
) -> int:
    """Write what a hypothesis becomes by event ``j`` after ``grown`` others; return how many."""
    last_turn_ms = events.whole[first, LATEST]
    for way in (BELONGS, BEGINS, BELONGS_IF_LATE, BEGINS_IF_LATE):
        late_ms = 0
        if is_if_late(way):
            late_ms = _late_ms(beam, h, events, j, way, window_ms) if takes_late else 0
            if late_ms == 0:
                continue
        for purges in range(samples + 1):
            if grown >= len(children.costs):
                return grown
            is_possible, may_purge_more = record(
                beam, h, events, j, last_turn_ms, way, late_ms, purges,
                samples, window_ms, keeps_overlapping, children, grown, taken,
            )  # fmt: skip
            if is_possible:
                if begins(way):
                    children.doubts[grown] += unlikely_start[j]
                taken[grown, PARENT] = beam.heads[h, NODE]
                _take_turn(children, grown, j - first)
                grown += 1
            if not may_purge_more:
                break
    return grown


@njit(forceinline=True)
def _late_ms(beam: Beam, h: int, events: EventArrays, j: int, way: int, window_ms: int) -> int:
    """Return the lateness (ms) of the line of event ``j``, such as 45, that opens a closed way.

    0 where the way is open to it by its line, or closed in any case.
    """
    lag_ms = int(events.whole[j, LINE_LAG_MAX])
    if lag_ms == 0 or beam.heads[h, COUNT] == 0:
        return 0
    s = beam.heads[h, INDEX]
    earliest_ms = events.whole[j, EARLIEST]
    if way == BEGINS_IF_LATE:
        may_begin_ms = beam.moments[h, s, BASE_FROM] + beam.moments[h, s, OFFSET] + window_ms
        return lag_ms if may_begin_ms < earliest_ms else 0
    ends_ms = beam.moments[h, s, BASE_UNTIL] + beam.moments[h, s, OFFSET] + window_ms
    return lag_ms if earliest_ms - lag_ms < ends_ms <= earliest_ms else 0


@njit(forceinline=True)
def _turn_cost(beam: Beam, h: int, events: EventArrays, first: int, j: int) -> float:
    """Return the cost of recording event ``j`` before ``first``; below 0 if it cannot be next.

    A broker reads the next request of a connection when it has answered the one before
    (``SocketServer.Processor``).
    """
    if j == first:
        return 0.0
    is_recorded = (beam.heads[h, AHEAD] >> (j - first)) & 1
    is_later = events.whole[j, EARLIEST] > events.whole[first, LATEST]
    if is_recorded or is_later or events.whole[j, LATEST] < beam.heads[h, FLOOR] - 1:
        return -1.0
    for before in range(first, j):
        is_own = events.whole[before, CONNECTION] == events.whole[j, CONNECTION]
        if is_own and not (beam.heads[h, AHEAD] >> (before - first)) & 1:
            return -1.0
    later_ms = events.whole[j, LIKELY_FROM] - events.whole[first, LIKELY_FROM]
    return _OUT_OF_TURN_COST + float(min(max(0.1 * later_ms, 0.0), 3.0))


@njit(forceinline=True)
def _take_turn(beam: Beam, h: int, distance: int) -> None:
    ahead = beam.heads[h, AHEAD] | (1 << distance)
    while ahead & 1:
        ahead >>= 1
        beam.heads[h, NEXT_EVENT] += 1
    beam.heads[h, AHEAD] = ahead


@njit(forceinline=True)
def _select(
    beam: Beam,
    children: Beam,
    grown: int,
    taken: Int64s,
    history: Int64s,
    nodes: int,
    buckets: np.ndarray,
    chain: np.ndarray,
    begun: np.ndarray,
    keeps_overlapping: bool,
) -> int:
    """Keep the cheapest children, each state once; return how many.

    The last places are for children whose current sample began elsewhere than those of all kept
    ones: where it began is told a whole rate window later, and which ones were before it no longer
    matters then.
    """
    kept = 0
    rank = children.costs[:grown] + children.doubts[:grown]
    order = np.argsort(rank, kind="mergesort")
    limit = rank[order[0]] + HOPELESS_COST
    cheapest = len(beam.costs) - len(beam.costs) // OTHER_STARTS_PART
    if grown > 1:
        buckets[:] = -1
        begun[:] = 0
    for c in order:
        if kept == len(beam.costs) or rank[c] > limit:
            break
        is_other = grown > cheapest and _begins_otherwise(children, c, begun, kept < cheapest)
        if kept >= cheapest and not is_other:
            continue
        if grown > 1:
            bucket = fingerprint(children, c) % len(buckets)
            if _is_covered(beam, children, c, buckets[bucket], chain, keeps_overlapping):
                continue
            chain[kept] = buckets[bucket]
            buckets[bucket] = kept
        copy_hypothesis(beam, kept, children, c)
        beam.heads[kept, NODE] = nodes + kept
        history[nodes + kept] = taken[c]
        kept += 1
    return kept


@njit(forceinline=True)
def _begins_otherwise(beam: Beam, c: int, begun: np.ndarray, is_kept: bool) -> bool:
    """Return True if the current sample begins where none of those noted in ``begun`` does.

    It is noted then, and where the hypothesis ``is_kept`` anyway.
    """
    s = beam.heads[c, INDEX]
    key = (beam.moments[c, s, BASE] * 64 + s) * 4096 + (beam.moments[c, s, OFFSET] & 4095) + 1
    place = (key * 2_654_435_761 >> 8) & (len(begun) - 1)
    for _ in range(8):
        if begun[place] == key or begun[place] == 0:
            break
        place = (place + 1) & (len(begun) - 1)
    is_other = begun[place] != key
    if is_other or is_kept:
        begun[place] = key
    return bool(is_other)


@njit(forceinline=True)
def _is_covered(
    beam: Beam, children: Beam, c: int, first: int, chain: np.ndarray, keeps_overlapping: bool
) -> bool:
    k = first
    while k >= 0:
        if covers(beam, k, children, c, keeps_overlapping):
            return True
        k = chain[k]
    return False
