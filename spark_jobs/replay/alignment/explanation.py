"""What a logged throttle says of one event on one hypothesis: a place in time, or a miss.

``throttle = total / bound - elapsed``, where the elapsed time counts from the oldest sample's start
(``Rate.windowSize``): a throttle places its request exactly so long after that start, and moves the
interval of whatever the start hangs on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.beam import (
    BASE,
    BASE_FROM,
    BASE_UNTIL,
    COUNT,
    INDEX,
    NO_BASE,
    OFFSET,
    Beam,
    move_base,
)
from spark_jobs.replay.alignment.events import (
    BOUND,
    EVIDENCE,
    EXACT,
    LINE_LAG_MAX,
    LOGGED,
    NOTHING,
    EventArrays,
)

# How well a row is explained.
NOT_ASKED = 0  # nothing to explain: no quota, or thrown by something else
EXPLAINED = 1
LATE_LINE = 2  # if its line was written later than its phases say
NEAR = 3  # but for a millisecond or two
UNEXPLAINED = 4

# What an event is to the samples: it belongs to the current one, or begins the next one; or does so
# if its line was written late, for then it was recorded earlier than the line says.
BELONGS, BEGINS, BELONGS_IF_LATE, BEGINS_IF_LATE = range(4)

# What a step says of its time and the oldest sample's start.
NO_RELATION = 0
EQUAL = 1  # time = start + relation_ms
AT_LEAST = 2  # time >= start + relation_ms
AT_MOST = 3  # time <= start + relation_ms

UNEXPLAINED_COST = 8.0
LATE_EDGE_COST = 4.0
"""What it costs that a line is late whose request says nothing else: half a wrong throttle."""
NEAR_MS = 2
_FAR_FUTURE = 1 << 60
_HALF = 1e-6

# Columns of steps: the step before, the event, what it is to the samples, which samples it purged
# (bits), how well it is explained, the slot of the oldest sample (NO_BASE: the event's own),
# and the relation of its time to that one's start.
PARENT, EVENT, WAY, PURGED, STATUS, OLDEST, RELATION, RELATION_MS = range(8)
STEP_COLUMNS = 8


@njit(forceinline=True)
def begins(way: int) -> bool:
    """Return True if an event that goes this way begins a sample."""
    return way in (BEGINS, BEGINS_IF_LATE)


@njit(forceinline=True)
def is_if_late(way: int) -> bool:
    """Return True if an event goes this way only if its line was written late."""
    return way in (BELONGS_IF_LATE, BEGINS_IF_LATE)


@njit(forceinline=True)
def explain(
    beam: Beam,
    c: int,
    events: EventArrays,
    j: int,
    from_ms: int,
    until_ms: int,
    samples: int,
    window_ms: int,
    steps: Int64s,
) -> tuple[int, int, int, int]:
    """Hold the logged throttle against the samples: add the cost, move the oldest one's base.

    Returns the base and offset of the event's own time (NO_BASE: free) and its interval.
    """
    total, oldest = _total_and_oldest(beam, c, steps[c, PURGED], begins(steps[c, WAY]))
    steps[c, OLDEST] = oldest
    steps[c, RELATION] = NO_RELATION
    steps[c, RELATION_MS] = 0
    bound = events.broken[j, BOUND]
    evidence = events.whole[j, EVIDENCE]
    if np.isnan(bound) or evidence == NOTHING:
        steps[c, STATUS] = NOT_ASKED
        return NO_BASE, 0, from_ms, until_ms
    least_ms = most_ms = 0
    if oldest != NO_BASE:
        offset = beam.moments[c, oldest, OFFSET]
        least_ms = max(from_ms - beam.moments[c, oldest, BASE_UNTIL] - offset, 0)
        most_ms = max(until_ms - beam.moments[c, oldest, BASE_FROM] - offset, 0)
    logged_ms = events.whole[j, LOGGED]
    due_ms = total * 1000.0 / bound
    full_ms = (samples - 1) * window_ms
    is_exact = logged_ms > 0 and (evidence == EXACT or logged_ms > window_ms)
    if logged_ms > 0:
        elapsed_ms, distance_ms = _nearest_elapsed(
            _window_size(total, bound, logged_ms), least_ms, most_ms, full_ms, window_ms
        )
        if distance_ms == 0:
            return _pin(beam, c, events, oldest, elapsed_ms, from_ms, until_ms, window_ms, steps)
        if is_exact:
            return _miss(
                beam, c, oldest, elapsed_ms, distance_ms, least_ms, from_ms, until_ms,
                events.whole[j, LINE_LAG_MAX], steps,
            )  # fmt: skip
        beam.costs[c] += 0.2
    longest_ms = _longest_window(least_ms, most_ms, full_ms, window_ms)
    excess_ms = due_ms - longest_ms - (logged_ms + 0.5)
    if excess_ms >= 0:
        is_near = excess_ms < NEAR_MS
        beam.costs[c] += 1.0 + excess_ms if is_near else UNEXPLAINED_COST
        steps[c, STATUS] = NEAR if is_near else UNEXPLAINED
        return NO_BASE, 0, from_ms, until_ms
    steps[c, STATUS] = EXPLAINED
    if oldest != NO_BASE:
        at_least_ms = int(np.floor(due_ms - logged_ms - 0.5)) + 1
        from_ms, until_ms = _keep_long(
            beam, c, events, oldest, at_least_ms, (least_ms, most_ms, full_ms), window_ms,
            from_ms, until_ms, steps,
        )  # fmt: skip
    return NO_BASE, 0, from_ms, until_ms


@njit(forceinline=True)
def _total_and_oldest(beam: Beam, c: int, purged: int, starts_sample: bool) -> tuple[float, int]:
    """Return the sum of all samples and the oldest one's slot; NO_BASE if all began just now."""
    current = beam.heads[c, INDEX]
    total = 0.0
    oldest = NO_BASE
    oldest_ms = _FAR_FUTURE
    for s in range(beam.heads[c, COUNT]):
        if (purged >> s) & 1:
            beam.values[c, s] = 0.0
            continue
        total += beam.values[c, s]
        if s == current and starts_sample:
            continue
        twice = (
            2 * beam.moments[c, s, OFFSET]
            + beam.moments[c, s, BASE_FROM]
            + beam.moments[c, s, BASE_UNTIL]
        )
        if twice < oldest_ms:
            oldest_ms = twice
            oldest = s
    return total, oldest


@njit(forceinline=True)
def _keep_long(
    beam: Beam,
    c: int,
    events: EventArrays,
    oldest: int,
    at_least_ms: int,
    elapsed: tuple[int, int, int],
    window_ms: int,
    from_ms: int,
    until_ms: int,
    steps: Int64s,
) -> tuple[int, int]:
    """Return the interval in which the window is at least ``at_least_ms`` long.

    ``elapsed`` has the least and most time since the oldest start, and the full one.
    """
    least_ms, most_ms, full_ms = elapsed
    if most_ms < full_ms:
        # Missing windows are added: what counts is the time since the last whole one.
        whole = least_ms // window_ms
        if whole != most_ms // window_ms:
            if at_least_ms - full_ms > most_ms % window_ms:
                # Only before the next whole one is the window long enough.
                before_ms = (whole + 1) * window_ms
                return _keep_before(beam, c, events, oldest, before_ms, from_ms, until_ms, steps)
            return from_ms, until_ms
        at_least_ms += whole * window_ms - full_ms
        full_ms = 0
    return _keep_below(
        beam, c, events, oldest, at_least_ms, (least_ms, most_ms, full_ms), from_ms, until_ms, steps
    )


@njit(forceinline=True)
def _keep_below(
    beam: Beam,
    c: int,
    events: EventArrays,
    oldest: int,
    at_least_ms: int,
    elapsed: tuple[int, int, int],
    from_ms: int,
    until_ms: int,
    steps: Int64s,
) -> tuple[int, int]:
    """Return the interval in which the window is long enough for the rate to stay below.

    That is so after ``at_least_ms``, or just before the window is full, while missing windows are
    still added. ``elapsed`` has the least and most time since the oldest start, and the full one.
    """
    least_ms, most_ms, full_ms = elapsed
    offset = beam.moments[c, oldest, OFFSET]
    base_from, base_until = beam.moments[c, oldest, BASE_FROM], beam.moments[c, oldest, BASE_UNTIL]
    if least_ms >= full_ms and at_least_ms > least_ms:
        steps[c, RELATION] = AT_LEAST
        steps[c, RELATION_MS] = at_least_ms
        from_ms = max(from_ms, base_from + offset + at_least_ms)
        if until_ms - at_least_ms - offset < base_until:
            move_base(beam, c, events, oldest, base_from, until_ms - at_least_ms - offset)
    elif least_ms < full_ms and at_least_ms > most_ms:
        return _keep_before(beam, c, events, oldest, full_ms, from_ms, until_ms, steps)
    return from_ms, until_ms


@njit(forceinline=True)
def _keep_before(
    beam: Beam,
    c: int,
    events: EventArrays,
    oldest: int,
    before_ms: int,
    from_ms: int,
    until_ms: int,
    steps: Int64s,
) -> tuple[int, int]:
    """Return the interval of the event less than ``before_ms`` after the oldest start."""
    offset = beam.moments[c, oldest, OFFSET]
    base_from, base_until = beam.moments[c, oldest, BASE_FROM], beam.moments[c, oldest, BASE_UNTIL]
    steps[c, RELATION] = AT_MOST
    steps[c, RELATION_MS] = before_ms - 1
    until_ms = min(until_ms, base_until + offset + before_ms - 1)
    if from_ms - before_ms + 1 - offset > base_from:
        move_base(beam, c, events, oldest, from_ms - before_ms + 1 - offset, base_until)
    return from_ms, until_ms


@njit(forceinline=True)
def _window_size(total: float, bound: float, logged_ms: int) -> int:
    """Return the window size, in whole milliseconds, at which Kafka throws this throttle.

    It is ``round(total * 1000 / bound - size)``; at a half, Kafka's order of operations decides.
    """
    due_ms = total * 1000.0 / bound
    size_ms = int(np.floor(due_ms + 0.5)) - logged_ms
    if abs(due_ms - np.floor(due_ms) - 0.5) > _HALF or size_ms <= 1:
        return size_ms
    rate = total / (size_ms / 1000.0)
    thrown_ms = int(np.floor((rate - bound) / bound * size_ms + 0.5))
    return size_ms if thrown_ms == logged_ms else size_ms - 1


@njit(forceinline=True)
def _nearest_elapsed(
    window_size_ms: int, least_ms: int, most_ms: int, full_ms: int, window_ms: int
) -> tuple[int, int]:
    """Return the elapsed time of a window size that lies nearest to an interval, and how far off.

    Before the window is full, missing windows are added: every whole one gives the same size.
    """
    if window_size_ms < full_ms:
        return _FAR_FUTURE, full_ms - window_size_ms
    elapsed_ms = window_size_ms
    best_ms, best = 0, _FAR_FUTURE
    while elapsed_ms >= 0:
        distance = max(least_ms - elapsed_ms, elapsed_ms - most_ms, 0)
        if distance < best:
            best_ms, best = elapsed_ms, distance
        if window_size_ms >= full_ms + window_ms:
            break
        elapsed_ms -= window_ms
    return best_ms, best


@njit(forceinline=True)
def _is_in_turn(
    beam: Beam, c: int, oldest: int, elapsed_ms: int, window_ms: int, starts_sample: bool
) -> bool:
    """Tell if a sample starts if, and only if, a window has passed since the one before started.

    Where both starts depend on one event, as after a silence that made all samples obsolete, their
    intervals leave this open; the time since that event does not.
    """
    if oldest == NO_BASE:
        return True
    reference = beam.heads[c, INDEX]
    if starts_sample:
        reference = reference - 1 if reference > 0 else beam.heads[c, COUNT] - 1
    base = beam.moments[c, reference, BASE]
    if base == NO_BASE or base != beam.moments[c, oldest, BASE]:
        return True
    since_ms = beam.moments[c, oldest, OFFSET] + elapsed_ms - beam.moments[c, reference, OFFSET]
    return bool((since_ms >= window_ms) == starts_sample)


@njit(forceinline=True)
def _longest_window(least_ms: int, most_ms: int, full_ms: int, window_ms: int) -> int:
    """Return the greatest window size that an elapsed time in the interval gives."""
    if most_ms >= full_ms:
        return max(most_ms, full_ms + window_ms - 1) if least_ms < full_ms else most_ms
    if most_ms // window_ms != least_ms // window_ms:
        return full_ms + window_ms - 1
    return full_ms + most_ms % window_ms


@njit(forceinline=True)
def _pin(
    beam: Beam,
    c: int,
    events: EventArrays,
    oldest: int,
    elapsed_ms: int,
    from_ms: int,
    until_ms: int,
    window_ms: int,
    steps: Int64s,
) -> tuple[int, int, int, int]:
    """Place the event: the throttle tells its time from the oldest sample's start, exactly."""
    if not _is_in_turn(beam, c, oldest, elapsed_ms, window_ms, begins(steps[c, WAY])):
        beam.costs[c] += UNEXPLAINED_COST
        steps[c, STATUS] = UNEXPLAINED
        return NO_BASE, 0, from_ms, until_ms
    steps[c, STATUS] = EXPLAINED
    if oldest == NO_BASE:
        return NO_BASE, 0, from_ms, until_ms
    steps[c, RELATION] = EQUAL
    steps[c, RELATION_MS] = elapsed_ms
    base = beam.moments[c, oldest, BASE]
    place = beam.moments[c, oldest, OFFSET] + elapsed_ms
    base_from = max(beam.moments[c, oldest, BASE_FROM], from_ms - place)
    base_until = min(beam.moments[c, oldest, BASE_UNTIL], until_ms - place)
    move_base(beam, c, events, oldest, base_from, base_until)
    return base, place, base_from + place, base_until + place


@njit(forceinline=True)
def _miss(
    beam: Beam,
    c: int,
    oldest: int,
    elapsed_ms: int,
    distance_ms: int,
    least_ms: int,
    from_ms: int,
    until_ms: int,
    lag_max_ms: int,
    steps: Int64s,
) -> tuple[int, int, int, int]:
    """No time inside the request's phases gives its throttle."""
    is_early = oldest != NO_BASE and elapsed_ms < least_ms
    may_be_late = is_early and distance_ms <= lag_max_ms
    if distance_ms <= NEAR_MS:
        beam.costs[c] += 1.0 + distance_ms
    elif may_be_late:
        # However late, a line that explains costs less than nothing that does (UNEXPLAINED_COST).
        beam.costs[c] += 6.0 + min(distance_ms * 0.02, 1.9)
    else:
        beam.costs[c] += UNEXPLAINED_COST
    if not may_be_late:
        steps[c, STATUS] = NEAR if distance_ms <= NEAR_MS else UNEXPLAINED
        return NO_BASE, 0, from_ms, until_ms
    steps[c, STATUS] = LATE_LINE
    steps[c, RELATION] = EQUAL
    steps[c, RELATION_MS] = elapsed_ms
    place = beam.moments[c, oldest, OFFSET] + elapsed_ms
    base_from, base_until = beam.moments[c, oldest, BASE_FROM], beam.moments[c, oldest, BASE_UNTIL]
    return beam.moments[c, oldest, BASE], place, base_from + place, base_until + place
