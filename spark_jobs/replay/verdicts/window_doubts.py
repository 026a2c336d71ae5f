"""Where a sensor's window may have been another than the replayed one.

A record time is known to an interval, and what hangs on it jumps: a record begins the next sample
or does not (Kafka: ``SampledStat.record``), a sample has left the window or has not
(``SampledStat.purgeObsoleteSamples``), and of a window that is not full yet only what is over whole
samples counts (``Rate.windowSize``): one millisecond more may make it a whole sample shorter.

A sample that began one record later may end one later, and so may those after it, until both ways
agree on the record that begins one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.states import Bools, Int64s

STARTS_MAX = 8
"""So many times are told apart at which a sample may have begun: two are a doubt already."""

_START_MS = attrgetter("start_ms")


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How a sensor keeps its samples."""

    samples: int
    window_ms: int
    # From 3.8 on a sample is kept until its last event left the window, before until its start did.
    keeps_overlapping: bool = True


class WindowDoubts(NamedTuple):
    """What is in doubt, per record of one sensor; arrays."""

    begins: Bools  # when the sample began that it is in
    leaves: Bools  # whether a sample had left the window by then
    longer: Bools  # whether its window was a whole sample longer
    shorter: Bools  # whether it was one shorter


@dataclass(slots=True)
class _Sample:
    start_ms: int
    start_width_ms: int
    last_ms: int
    last_width_ms: int

    def reset(self, at_ms: int, width_ms: int) -> None:
        self.start_ms = self.last_ms = at_ms
        self.start_width_ms = self.last_width_ms = width_ms


def window_doubts(recorded_at_ms: Int64s, interval_ms: Int64s, rule: WindowRule) -> WindowDoubts:
    """Return the doubts at each record of one sensor; records are in order of time.

    ``interval_ms`` is the width of each record's admissible times. Every record is measured.
    """
    n = len(recorded_at_ms)
    doubts = WindowDoubts(*(np.zeros(n, bool) for _ in range(4)))
    slots: list[_Sample] = []
    current, may_begin = 0, dict[int, int]()
    rows = zip(recorded_at_ms.tolist(), interval_ms.tolist(), strict=True)
    for i, (at_ms, width_ms) in enumerate(rows):
        current = _record(slots, current, at_ms, width_ms, rule)
        may_begin = _may_begin(may_begin, at_ms, width_ms, rule)
        doubts.begins[i] = len(may_begin) > 1
        doubts.leaves[i] = _leave(slots, at_ms, width_ms, rule)
        doubts.longer[i], doubts.shorter[i] = _may_wrap(slots, at_ms, width_ms, rule)
    return doubts


def _record(slots: list[_Sample], current: int, at_ms: int, width_ms: int, rule: WindowRule) -> int:
    """Return the slot that a record goes to."""
    if not slots:
        slots.append(_Sample(at_ms, width_ms, at_ms, width_ms))
        return 0
    sample = slots[current]
    if at_ms - sample.start_ms < rule.window_ms:
        sample.last_ms, sample.last_width_ms = at_ms, width_ms
        return current
    current = (current + 1) % (rule.samples + rule.keeps_overlapping)
    if current == len(slots):
        slots.append(_Sample(at_ms, width_ms, at_ms, width_ms))
    slots[current].reset(at_ms, width_ms)
    return current


def _may_begin(
    may_begin: Mapping[int, int], at_ms: int, width_ms: int, rule: WindowRule
) -> dict[int, int]:
    """Return when a record's sample may have begun, with the width (ms) of each such time.

    ``may_begin`` is that of the record before. No more than STARTS_MAX are told apart.
    """
    found: dict[int, int] = {}
    for start_ms, start_width_ms in may_begin.items():
        past_ms, reach_ms = at_ms - start_ms - rule.window_ms, width_ms + start_width_ms
        if past_ms < reach_ms:
            found[start_ms] = start_width_ms
        if past_ms >= -reach_ms:
            found[at_ms] = width_ms
    return dict(list(found.items())[:STARTS_MAX]) or {at_ms: width_ms}


def _leave(slots: list[_Sample], at_ms: int, width_ms: int, rule: WindowRule) -> bool:
    """Empty what has left the window; return whether a sample may have, or may have stayed."""
    span_ms = rule.samples * rule.window_ms
    in_doubt = False
    for sample in slots:
        until_ms, until_width_ms = sample.start_ms, sample.start_width_ms
        if rule.keeps_overlapping:
            until_ms, until_width_ms = sample.last_ms, sample.last_width_ms
        overdue_ms = at_ms - until_ms - span_ms
        in_doubt |= _may_be_across(overdue_ms, width_ms + until_width_ms)
        if overdue_ms >= 0:
            sample.reset(at_ms, width_ms)
    return in_doubt


def _may_wrap(
    slots: list[_Sample], at_ms: int, width_ms: int, rule: WindowRule
) -> tuple[bool, bool]:
    """Tell if the window may have been a whole sample longer, and if it may have been one shorter.

    The window shrinks each time a whole sample has passed since the oldest one began; from
    samples - 1 of them on, it is the time passed.
    """
    oldest = min(slots, key=_START_MS)
    elapsed_ms = at_ms - oldest.start_ms
    reach_ms = width_ms + oldest.start_width_ms
    whole = min(elapsed_ms // rule.window_ms, rule.samples - 1)
    may_be_longer = whole > 0 and elapsed_ms - reach_ms < whole * rule.window_ms
    next_ms = (whole + 1) * rule.window_ms
    return may_be_longer, whole + 1 < rule.samples and elapsed_ms + reach_ms >= next_ms


def _may_be_across(past_ms: int, reach_ms: int) -> bool:
    """Return True if a time past a limit may be before it, or one before may have reached it.

    ``reach_ms`` is how far the time between two records may be off.
    """
    return -reach_ms <= past_ms < reach_ms
