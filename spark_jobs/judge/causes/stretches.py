"""Stretches of one sensor's decisions in which many throttles are not the configured bound's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.quota.states import Bools

LOSSES_MAX = 512
"""So many rows before a stretch are tried as those at which its sensor began anew."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows [first, end) of a history, inside the rows [group_first, group_end) of one bound."""

    first: int
    end: int
    group_first: int
    group_end: int

    @property
    def rows(self) -> slice:
        """Return the rows of the stretch."""
        return slice(self.first, self.end)

    def since(self, first: int) -> Stretch:
        """Return the stretch without its rows before ``first``."""
        return replace(self, first=max(self.first, first))


def find_stretches(
    history: SensorDecisions, tolerance_ms: int, min_decisions: int
) -> list[Stretch]:
    """Return the maximal stretches in which more decisions disagree than agree, in order.

    Each lies within one configured bound and one epoch of the sensor, begins and ends with a
    disagreeing decision and holds at least ``min_decisions`` of them. Decisions without a throttle
    on either side say nothing and are passed over. Maximal as by Ruzzo and Tompa ("A linear time
    algorithm for finding all maximal scoring subsequences", ISMB 1999): a disagreement counts 1,
    an agreement -1.
    """
    evidence, disagrees = _told(history, tolerance_ms)
    stretches = []
    for first, end in groups(history):
        rows = first + np.flatnonzero(evidence[first:end])
        for from_row, to_row in _dense(disagrees[rows]):
            if np.count_nonzero(disagrees[rows[from_row : to_row + 1]]) >= min_decisions:
                stretches.append(Stretch(int(rows[from_row]), int(rows[to_row]) + 1, first, end))
    return stretches


def losses_before(
    history: SensorDecisions, stretch: Stretch, tolerance_ms: int, memory_ms: int
) -> range:
    """Return the rows at which the sensor may have begun anew, so that ``stretch`` disagrees.

    Such as 17 to 22: it was after the last decision before it that agrees, and no longer ago than
    a sensor remembers; LOSSES_MAX of them at most. None while the sensor is younger than
    ``memory_ms``: its past is not known anyway.
    """
    at_ms, epoch = history.recorded_at_ms, history.sensor_epoch
    epoch_first = int(np.searchsorted(epoch, epoch[stretch.first]))
    if at_ms[stretch.first] - at_ms[epoch_first] < memory_ms:
        return range(0)
    evidence, disagrees = _told(history, tolerance_ms)
    agreeing = np.flatnonzero((evidence & ~disagrees)[epoch_first : stretch.first])
    after = epoch_first + int(agreeing[-1]) + 1 if len(agreeing) else epoch_first + 1
    since_ms = at_ms[stretch.first] - memory_ms
    remembered = after + int(np.count_nonzero(at_ms[after : stretch.first] < since_ms))
    return range(max(remembered, stretch.first + 1 - LOSSES_MAX), stretch.first + 1)


def losses_between(
    history: SensorDecisions, stretch: Stretch, known_ms: Iterable[tuple[int, int]]
) -> range:
    """Return the rows at which the sensor may have begun anew with another one of its broker.

    That one began anew between two of its requests: ``known_ms`` are such times. Of several the
    last one before ``stretch`` counts, else the first one in it. Such as 17 to 22.
    """
    at_ms = history.recorded_at_ms
    begins_ms, ends_ms = at_ms[stretch.first], at_ms[stretch.end - 1]
    before = [each for each in known_ms if each[0] <= begins_ms]
    inside = [each for each in known_ms if begins_ms < each[0] <= ends_ms]
    if not before and not inside:
        return range(0)
    from_ms, until_ms = max(before) if before else min(inside)
    first = max(int(np.searchsorted(at_ms, from_ms)), 1)
    latest = stretch.first if before else stretch.end - 1
    last = min(int(np.searchsorted(at_ms, until_ms)), latest)
    return range(max(first, last + 1 - LOSSES_MAX), last + 1)


def _told(history: SensorDecisions, tolerance_ms: int) -> tuple[Bools, Bools]:
    """Return masks of the decisions that say anything of the bound, and of those that disagree."""
    expected_ms = history.throttle_ms(history.bound)
    evidence = (expected_ms >= 0) & ((history.logged_ms > 0) | (expected_ms > 0))
    is_off = np.abs(history.logged_ms - expected_ms) > tolerance_ms
    other_decision = (history.logged_ms > 0) != (expected_ms > 0)
    return evidence, evidence & (is_off | other_decision)


def groups(history: SensorDecisions) -> Iterator[tuple[int, int]]:
    """Yield the runs of rows [first, end) with one bound and one epoch of the sensor."""
    if not len(history):
        return
    bound = np.where(np.isnan(history.bound), -1.0, history.bound)
    changed = (np.diff(bound) != 0) | (np.diff(history.sensor_epoch) != 0)
    edges = [0, *(np.flatnonzero(changed) + 1).tolist(), len(history)]
    yield from pairwise(edges)


def _dense(flags: Bools) -> list[tuple[int, int]]:
    """Return (first, last) of the maximal scoring runs of ``flags``."""
    if not len(flags):
        return []
    edges = np.concatenate(([0], np.flatnonzero(np.diff(flags)) + 1, [len(flags)]))
    lengths = np.diff(edges)
    scores = np.where(flags[edges[:-1]], lengths, -lengths)
    return [(int(edges[a]), int(edges[b]) - 1) for a, b in maximal_runs(scores.tolist())]


def maximal_runs(scores: Iterable[int]) -> list[tuple[int, int]]:
    """Return the maximal scoring runs of ``scores`` as [first, end), in order.

    >>> maximal_runs([4, -5, 3, -3, 1, 2, -2, 2, -2, 1, 5])
    [(0, 1), (2, 3), (4, 11)]
    """
    found: list[tuple[int, int, int, int]] = []  # first, end, sum before, sum at the end
    total = 0
    for at, score in enumerate(scores):
        before, total = total, total + score
        if score <= 0:
            continue
        first, end, low, high = at, at + 1, before, total
        while True:
            j = len(found) - 1
            while j >= 0 and found[j][2] >= low:
                j -= 1
            if j < 0 or found[j][3] >= high:
                break
            first, low = found[j][0], found[j][2]
            del found[j:]
        found.append((first, end, low, high))
    return [(first, end) for first, end, _, _ in found]
