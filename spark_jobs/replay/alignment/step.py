"""One event recorded on one hypothesis: where it may lie, which sample it starts, what it purges.

The rules are those of ``spark_jobs.quota.rate`` (Kafka's ``SampledStat`` and ``Rate``), on
intervals instead of moments. Where an interval allows two outcomes, there is a hypothesis for each.
"""

from __future__ import annotations

from numba import njit

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.beam import (
    BASE,
    BASE_FROM,
    BASE_UNTIL,
    COUNT,
    FLOOR,
    INDEX,
    LAST_FROM,
    LAST_UNTIL,
    NO_BASE,
    OFFSET,
    Beam,
    copy_hypothesis,
    move_base,
    move_samples_before,
    off_likely_ms,
    unlikely_cost,
)
from spark_jobs.replay.alignment.events import AMOUNT, EARLIEST, LATEST, LOGGED, EventArrays
from spark_jobs.replay.alignment.explanation import (
    EVENT,
    EXPLAINED,
    LATE_EDGE_COST,
    LATE_LINE,
    PURGED,
    STATUS,
    WAY,
    begins,
    explain,
    is_if_late,
)


@njit(forceinline=True)
def record(
    beam: Beam,
    h: int,
    events: EventArrays,
    j: int,
    last_turn_ms: int,
    way: int,
    late_ms: int,
    purges: int,
    samples: int,
    window_ms: int,
    keeps_overlapping: bool,
    children: Beam,
    c: int,
    steps: Int64s,
) -> tuple[bool, bool]:
    """Record event ``j`` on hypothesis ``h`` and write the outcome as child ``c``.

    ``last_turn_ms`` is the latest the event can be without its turn being another's, ``late_ms``
    how late its line may be where it is taken to be late. Returns whether that is possible, and
    whether more than ``purges`` samples may be obsolete.
    """
    slots = samples + 1 if keeps_overlapping else samples
    starts_sample = begins(way)
    from_ms = max(events.whole[j, EARLIEST] - late_ms, beam.heads[h, FLOOR] - 1)
    until_ms = max(min(events.whole[j, LATEST], last_turn_ms + 1), events.whole[j, EARLIEST])
    from_ms = min(from_ms, until_ms)
    is_first = beam.heads[h, COUNT] == 0
    if is_first and not starts_sample:
        return False, False
    if not is_first:
        from_ms, until_ms = _in_turn(beam, h, from_ms, until_ms, starts_sample, window_ms)
        if from_ms > until_ms:
            return False, False
    copy_hypothesis(children, c, beam, h)
    if not is_first:
        _move_start(children, c, events, from_ms, until_ms, starts_sample, window_ms)
    if starts_sample:
        _open_sample(children, c, is_first, slots)
    current = children.heads[c, INDEX]
    children.values[c, current] += events.broken[j, AMOUNT]
    purged, from_ms, until_ms, may_purge_more = _purge(
        children, c, from_ms, until_ms, samples * window_ms, keeps_overlapping, purges
    )
    if from_ms > until_ms:
        return False, may_purge_more
    steps[c, EVENT] = j
    steps[c, WAY] = way
    steps[c, PURGED] = purged
    base, offset_ms, from_ms, until_ms = explain(
        children, c, events, j, from_ms, until_ms, samples, window_ms, steps
    )
    if is_if_late(way):
        children.costs[c] += LATE_EDGE_COST
        if steps[c, STATUS] == EXPLAINED and events.whole[j, LOGGED] > 0:
            steps[c, STATUS] = LATE_LINE
    else:
        children.costs[c] += unlikely_cost(off_likely_ms(events, j, from_ms, until_ms))
    _settle(children, c, j, base, offset_ms, from_ms, until_ms, starts_sample, purged)
    return True, may_purge_more


@njit(forceinline=True)
def _in_turn(
    beam: Beam, h: int, from_ms: int, until_ms: int, starts_sample: bool, window_ms: int
) -> tuple[int, int]:
    """Return the interval in which an event starts a sample, or does not."""
    s = beam.heads[h, INDEX]
    if starts_sample:
        began_ms = beam.moments[h, s, BASE_FROM] + beam.moments[h, s, OFFSET]
        return max(from_ms, began_ms + window_ms), until_ms
    began_ms = beam.moments[h, s, BASE_UNTIL] + beam.moments[h, s, OFFSET]
    return from_ms, min(until_ms, began_ms + window_ms - 1)


@njit(forceinline=True)
def _move_start(
    beam: Beam,
    c: int,
    events: EventArrays,
    from_ms: int,
    until_ms: int,
    starts_sample: bool,
    window_ms: int,
) -> None:
    """Narrow when the current sample began: an event in this interval starts the next, or not."""
    s = beam.heads[c, INDEX]
    offset = beam.moments[c, s, OFFSET]
    base_from, base_until = beam.moments[c, s, BASE_FROM], beam.moments[c, s, BASE_UNTIL]
    if starts_sample:
        if until_ms - window_ms - offset < base_until:
            move_base(beam, c, events, s, base_from, until_ms - window_ms - offset)
            move_samples_before(beam, c, events, s, window_ms)
    elif from_ms - window_ms + 1 - offset > base_from:
        move_base(beam, c, events, s, from_ms - window_ms + 1 - offset, base_until)


@njit(forceinline=True)
def _open_sample(beam: Beam, c: int, is_first: bool, slots: int) -> None:
    if is_first:
        beam.heads[c, INDEX] = 0
    else:
        beam.heads[c, INDEX] = beam.heads[c, INDEX] + 1 if beam.heads[c, INDEX] + 1 < slots else 0
    s = beam.heads[c, INDEX]
    beam.heads[c, COUNT] = max(beam.heads[c, COUNT], s + 1)
    beam.values[c, s] = 0.0
    beam.moments[c, s, BASE] = NO_BASE


@njit(forceinline=True)
def _purge(
    beam: Beam,
    c: int,
    from_ms: int,
    until_ms: int,
    expire_age_ms: int,
    keeps_overlapping: bool,
    purges: int,
) -> tuple[int, int, int, bool]:
    """Return the obsolete samples (bits), the interval (ms) of that, and if more may be obsolete.

    Of the samples that may or may not be obsolete, the first ``purges`` are. A stop of the broker
    leaves several in doubt at once: two samples may have left in it, or one, or none.
    """
    purged = in_doubt = 0
    count, current = beam.heads[c, COUNT], beam.heads[c, INDEX]
    for distance in range(1, count):
        s = (current + distance) % count
        if keeps_overlapping:
            first, last = beam.moments[c, s, LAST_FROM], beam.moments[c, s, LAST_UNTIL]
        else:
            first = beam.moments[c, s, BASE_FROM] + beam.moments[c, s, OFFSET]
            last = beam.moments[c, s, BASE_UNTIL] + beam.moments[c, s, OFFSET]
        if from_ms - last >= expire_age_ms:
            purged |= 1 << s
        elif until_ms - first >= expire_age_ms:
            in_doubt += 1
            if in_doubt <= purges:
                purged |= 1 << s
                from_ms = max(from_ms, first + expire_age_ms)
            else:
                until_ms = min(until_ms, last + expire_age_ms - 1)
    return purged, from_ms, until_ms, in_doubt > purges


@njit(forceinline=True)
def _settle(
    beam: Beam,
    c: int,
    j: int,
    base: int,
    offset_ms: int,
    from_ms: int,
    until_ms: int,
    starts_sample: bool,
    purged: int,
) -> None:
    """Write the event's time where samples began or ended with it."""
    if base == NO_BASE:
        base, offset_ms = j, 0
    current = beam.heads[c, INDEX]
    for s in range(beam.heads[c, COUNT]):
        is_purged = (purged >> s) & 1
        if is_purged or (s == current and starts_sample):
            beam.moments[c, s, BASE] = base
            beam.moments[c, s, OFFSET] = offset_ms
            beam.moments[c, s, BASE_FROM] = from_ms - offset_ms
            beam.moments[c, s, BASE_UNTIL] = until_ms - offset_ms
        if is_purged or s == current:
            beam.moments[c, s, LAST_FROM] = from_ms
            beam.moments[c, s, LAST_UNTIL] = until_ms
    beam.heads[c, FLOOR] = max(beam.heads[c, FLOOR], from_ms)
