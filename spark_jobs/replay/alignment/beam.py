"""The hypotheses that the search carries, as arrays: which samples a sensor may hold.

A sample's start is not one number but a place on a *base*: the record time of the event that some
earlier evidence hangs on, known to an interval. A logged throttle says how long ago the oldest
sample began (``throttle = total / bound - elapsed``), so it moves the interval of that base, and
with it every start that was derived from it, also those of the past. Nothing has to be guessed
before there is evidence for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.states import Floats, Int64s
from spark_jobs.replay.alignment.borrowed import borrowed
from spark_jobs.replay.alignment.events import LIKELY_FROM, LIKELY_UNTIL, EventArrays, Samples

NO_BASE = -1

# Columns of Beam.moments: the base a sample's start hangs on, start = base + offset, the base's
# interval (the same in all samples of a base), and the interval of the sample's last event.
BASE, OFFSET, BASE_FROM, BASE_UNTIL, LAST_FROM, LAST_UNTIL = range(6)

# Columns of Beam.heads: how many samples; the current one's slot; the first event not recorded
# yet; which events from it on were recorded out of turn (bits); the last step of its history; the
# time before which nothing more is recorded.
COUNT, INDEX, NEXT_EVENT, AHEAD, NODE, FLOOR = range(6)


class Beam(NamedTuple):
    """H hypotheses of at most S samples each; times in milliseconds."""

    moments: Int64s  # [H, S, 6]
    values: Floats  # [H, S]
    heads: Int64s  # [H, 6]
    costs: Floats  # [H], of what is unexplained and unlikely
    doubts: Floats  # [H], of the starts that later throttles speak against


def allocate(hypotheses: int, slots: int) -> Beam:
    """Return an empty beam."""
    return Beam(
        moments=np.zeros((hypotheses, slots, 6), np.int64),
        values=np.zeros((hypotheses, slots), np.float64),
        heads=np.zeros((hypotheses, 6), np.int64),
        costs=np.zeros(hypotheses, np.float64),
        doubts=np.zeros(hypotheses, np.float64),
    )


@njit(forceinline=True)
def borrowed_beam(beam: Beam) -> Beam:
    """Return the arrays without their owners, as :func:`borrowed` says."""
    return Beam(
        borrowed(beam.moments), borrowed(beam.values), borrowed(beam.heads),
        borrowed(beam.costs), borrowed(beam.doubts),
    )  # fmt: skip


def start_from(beam: Beam, samples: Samples, events: int) -> None:
    """Make the first hypothesis of ``beam`` what is known before the first of ``events`` rows.

    The bases of the known samples follow those that the events may found.
    """
    slots = beam.values.shape[1]
    beam.moments[0, :, BASE] = events + np.arange(slots)
    beam.moments[0, :, OFFSET] = 0
    beam.moments[0, :, BASE_FROM] = samples.start_ms
    beam.moments[0, :, BASE_UNTIL] = samples.start_ms
    beam.moments[0, :, LAST_FROM] = samples.last_event_ms
    beam.moments[0, :, LAST_UNTIL] = samples.last_event_ms
    beam.values[0] = samples.value
    beam.heads[0] = 0
    beam.heads[0, COUNT] = samples.count
    beam.heads[0, INDEX] = samples.index
    beam.heads[0, FLOOR] = np.iinfo(np.int64).min // 4
    beam.costs[0] = beam.doubts[0] = 0.0


@njit(forceinline=True)
def copy_hypothesis(to: Beam, i: int, of: Beam, j: int) -> None:
    """Make hypothesis ``i`` of one beam equal to hypothesis ``j`` of another."""
    for s in range(of.heads[j, COUNT]):
        to.values[i, s] = of.values[j, s]
        for column in range(6):
            to.moments[i, s, column] = of.moments[j, s, column]
    for column in range(6):
        to.heads[i, column] = of.heads[j, column]
    to.costs[i] = of.costs[j]
    to.doubts[i] = of.doubts[j]


@njit(forceinline=True)
def move_base(
    beam: Beam, i: int, events: EventArrays, slot: int, from_ms: int, until_ms: int
) -> None:
    """Narrow the interval of a sample's base, in every sample that hangs on it.

    A base that leaves the time at which its event was most likely recorded costs.
    """
    base = beam.moments[i, slot, BASE]
    if base < len(events.whole):
        was_off_ms = off_likely_ms(
            events, base, beam.moments[i, slot, BASE_FROM], beam.moments[i, slot, BASE_UNTIL]
        )
        beam.costs[i] += unlikely_cost(off_likely_ms(events, base, from_ms, until_ms))
        beam.costs[i] -= unlikely_cost(was_off_ms)
    for s in range(beam.heads[i, COUNT]):
        if beam.moments[i, s, BASE] == base:
            beam.moments[i, s, BASE_FROM] = from_ms
            beam.moments[i, s, BASE_UNTIL] = until_ms


@njit(forceinline=True)
def move_samples_before(beam: Beam, i: int, events: EventArrays, slot: int, window_ms: int) -> None:
    """Narrow when the samples before a sample began: each is a window older than the next one.

    One that was purged meanwhile began anew, and says nothing.
    """
    for _ in range(1, beam.heads[i, COUNT]):
        before = slot - 1 if slot > 0 else beam.heads[i, COUNT] - 1
        offset = beam.moments[i, before, OFFSET]
        from_ms = beam.moments[i, before, BASE_FROM] + offset
        until_ms = beam.moments[i, slot, BASE_UNTIL] + beam.moments[i, slot, OFFSET] - window_ms
        is_older = from_ms < beam.moments[i, slot, BASE_FROM] + beam.moments[i, slot, OFFSET] - 1
        is_wider = beam.moments[i, before, BASE_UNTIL] + offset > until_ms
        if not (is_older and is_wider and from_ms <= until_ms):
            break
        move_base(beam, i, events, before, from_ms - offset, until_ms - offset)
        slot = before


@njit(forceinline=True)
def off_likely_ms(events: EventArrays, j: int, from_ms: int, until_ms: int) -> int:
    """Return the distance (ms) of an interval from the likely record times of event ``j``."""
    early_ms = events.whole[j, LIKELY_FROM] - until_ms
    late_ms = from_ms - events.whole[j, LIKELY_UNTIL]
    return int(max(early_ms, late_ms, 0))


@njit(forceinline=True)
def unlikely_cost(off_ms: int) -> float:
    """Return the cost of a record time ``off_ms`` away from the likely times."""
    return 0.2 + min(0.1 * off_ms, 1.5) if off_ms > 0 else 0.0


@njit(forceinline=True)
def fingerprint(beam: Beam, i: int) -> int:
    """Return a number, not negative, that is equal for hypotheses which hold the same amounts."""
    mixed = beam.heads[i, NEXT_EVENT] * 1_000_003 + beam.heads[i, AHEAD] * 8191
    mixed += beam.heads[i, INDEX]
    for s in range(beam.heads[i, COUNT]):
        mixed = mixed * 31 + np.int64(beam.values[i, s])
    return int(mixed & 0x7FFF_FFFF_FFFF_FFFF)


@njit(forceinline=True)
def covers(beam: Beam, i: int, other: Beam, j: int, keeps_overlapping: bool) -> bool:
    """Return True if hypothesis ``i`` allows all that hypothesis ``j`` of ``other`` allows.

    The time of a sample's last event counts if samples are purged by it (``keeps_overlapping``).
    """
    for column in (COUNT, INDEX, NEXT_EVENT, AHEAD):
        if beam.heads[i, column] != other.heads[j, column]:
            return False
    for s in range(beam.heads[i, COUNT]):
        if beam.values[i, s] != other.values[j, s]:
            return False
        mine, its = beam.moments[i, s, OFFSET], other.moments[j, s, OFFSET]
        if beam.moments[i, s, BASE_FROM] + mine > other.moments[j, s, BASE_FROM] + its:
            return False
        if beam.moments[i, s, BASE_UNTIL] + mine < other.moments[j, s, BASE_UNTIL] + its:
            return False
        if keeps_overlapping and (
            beam.moments[i, s, LAST_FROM] > other.moments[j, s, LAST_FROM]
            or beam.moments[i, s, LAST_UNTIL] < other.moments[j, s, LAST_UNTIL]
        ):
            return False
    return True
