"""Whether a request that is thrown otherwise than logged is thrown so at another time.

A line that was written late makes its request look later than it was recorded. It is then held
against samples that had not left yet, or against requests that came after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.states import Int64s, SensorStates
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates.stream_rows import SensorRows
from spark_jobs.replay.sensors.line_lags import STAMP_STEPS_MS


def from_if_late_ms(rows: SensorRows, start: int, row: int, placed: Placed, events: Events) -> int:
    """Return the time (ms) from which on the row may have been recorded if its line is late.

    A connection is read again when the throttle of the request before is over, and that one's line
    is written. Where that one was recorded earlier than its line says, so may be this one.
    """
    event = placed.order[row]
    from_ms = int(events.earliest_ms[event] - events.line_lag_max_ms[event])
    connection = rows.connection[start + placed.order[: row + 1]]
    before = np.flatnonzero(connection[:-1] == connection[-1])
    if not len(before):
        return from_ms
    event = placed.order[before[-1]]
    early_ms = int(events.earliest_ms[event] - placed.recorded_at_ms[before[-1]])
    written_ms = int(rows.log_time_ms[start + event]) - STAMP_STEPS_MS
    return max(from_ms - max(early_ms, 0), min(from_ms, written_ms))


class _Time(NamedTuple):
    """A time at which a row may have been recorded, or as much earlier or later."""

    at_ms: int
    earlier_ms: int = 0
    later_ms: int = 0


def times_beside_samples(
    row: int,
    placed: Placed,
    events: Events,
    between_ms: tuple[int, int],
    states: SensorStates,
    window: Window,
) -> list[_Time]:
    """Return the row's own time, and those between two just before or after the window changed.

    A sample left, or so much had passed since one began that the window was a sample shorter
    (``Rate.windowSize``). One that seems to leave a little after the row may have left before it:
    the line of its last event, or of the one that began it, may be late.
    """
    from_ms, until_ms = between_ms
    begins = np.flatnonzero(placed.starts_sample[: row + 1])
    held = slice(int(states.count[0]))
    began_ms = np.append(placed.recorded_at_ms[begins], states.start_ms[0, held])
    ages_ms, told_by = began_ms, begins
    if window.keeps_overlapping:
        told_by = begins[begins > 0] - 1
        ages_ms = np.append(placed.recorded_at_ms[told_by], states.last_event_ms[0, held])
    whole_ms = window.window_ms * np.arange(1, window.samples)
    wraps_ms = began_ms[began_ms > from_ms - window.expire_age_ms, np.newaxis] + whole_ms
    changes_ms = np.union1d(ages_ms + window.expire_age_ms, wraps_ms)
    own_ms = int(placed.recorded_at_ms[row])
    later_ms = max(until_ms - PROVES_MS - own_ms, 0)
    times = [_Time(own_ms, earlier_ms=own_ms - from_ms, later_ms=later_ms)]
    for at_ms in changes_ms[(changes_ms > from_ms) & (changes_ms <= until_ms)].tolist():
        if at_ms <= own_ms:
            times.append(_Time(at_ms - 1, earlier_ms=at_ms - 1 - from_ms))
        else:
            times.append(_Time(at_ms, later_ms=until_ms - at_ms))
    left_ms = ages_ms[: len(told_by)] + window.expire_age_ms
    may_have_left = (left_ms > until_ms) & (
        left_ms - _early_ms(told_by, placed, events) <= until_ms
    )
    times += [_Time(at_ms, earlier_ms=at_ms - from_ms) for at_ms in left_ms[may_have_left].tolist()]
    return times


def _early_ms(rows: np.ndarray, placed: Placed, events: Events) -> np.ndarray:
    """Return the milliseconds by which each of ``rows`` may have been recorded sooner, such as 6.

    As late as its line may be, but after the one before; none where its own throttle tells when.
    """
    of, at_ms = placed.order[rows], placed.recorded_at_ms
    early_ms = at_ms[rows] - events.earliest_ms[of] + events.line_lag_max_ms[of]
    since_ms = at_ms[rows] - at_ms[np.maximum(rows - 1, 0)]
    early_ms = np.where(rows > 0, np.minimum(early_ms, since_ms), early_ms)
    return np.where(events.logged_throttle_time_ms[of] > 0, 0, early_ms)


def came_before_others(
    rows: SensorRows,
    start: int,
    row: int,
    placed: Placed,
    events: Events,
    states: SensorStates,
    from_ms: int,
) -> bool:
    """Return True if the row's line is late, and it and those ahead of it are thrown as logged.

    Those may have been recorded as late as ``latest_ms``. Its amount is part of their throttles
    then, and theirs are no part of its own.
    """
    order, connection = placed.order[: row + 1], rows.connection[start + placed.order[: row + 1]]
    # Requests of one connection are recorded in the order of their lines.
    same = np.flatnonzero(connection[:-1] == connection[-1])
    behind = slice(int(same[-1]) + 1 if len(same) else 0, row)
    latest_ms = np.append(events.latest_ms[order[behind]], placed.recorded_at_ms[row])
    until_ms = np.minimum.accumulate(latest_ms[::-1])[1:]
    passes = int(np.searchsorted(-until_ms, -from_ms, side="right"))
    if not passes:
        return False
    begin, held = row - passes, states.take(np.array([0]))
    replayed(rows, start + order[:begin], placed.recorded_at_ms[:begin], held)
    for passed, first_ms in enumerate(until_ms[:passes].tolist(), start=1):
        first = row - passed
        # The one that it still comes after may have been recorded earlier, too.
        after_ms = int(events.earliest_ms[order[first - 1]]) if first else from_ms
        if after_ms > first_ms:
            continue
        moved = np.roll(order[first:], 1)
        since_ms = np.maximum(events.earliest_ms[moved], first_ms)
        since_ms[0] = max(from_ms, after_ms)
        moved_ms = np.append(first_ms, events.latest_ms[moved[1:]])
        places = start + np.append(order[begin:first], moved)
        at_ms = np.append(placed.recorded_at_ms[begin:first], moved_ms)
        thrown = replayed(rows, places, at_ms, held.take(np.array([0])))
        thrown_ms = thrown.throttle_time_ms[first - begin :]
        # A millisecond earlier it was a millisecond longer.
        longer_ms = rows.logged_ms[start + moved] - thrown_ms
        is_thrown = (longer_ms >= -PROVES_MS) & (longer_ms <= moved_ms - since_ms + PROVES_MS)
        if is_thrown.all():
            return True
    return False


def is_thrown(
    rows: SensorRows,
    start: int,
    row: int,
    placed: Placed,
    events: Events,
    states: SensorStates,
    thrown_ms: Int64s,
    times: Sequence[_Time],
) -> bool:
    """Return True if the row was throttled as logged if recorded at one of the times.

    A line that is late hides that a sample was still counted, and a millisecond that it was not.
    The row is recorded after those ahead of it, which are ``thrown_ms``: see
    :func:`_told_since_ms`.
    """
    recorded_at_ms = placed.recorded_at_ms[: row + 1].copy()
    told_since_ms = _told_since_ms(rows, start, row, placed, events, thrown_ms)
    places = start + placed.order[: row + 1]
    for time in times:
        if time.at_ms + time.later_ms < told_since_ms:
            continue
        recorded_at_ms[row] = time.at_ms
        trial = states.take(np.array([0]))
        then_ms = replayed(rows, places, recorded_at_ms, trial).throttle_time_ms[row]
        # A millisecond earlier it was a millisecond longer.
        longer_ms = int(rows.logged_ms[places[row]] - then_ms)
        earlier_ms = min(time.earlier_ms, time.at_ms - told_since_ms)
        if -PROVES_MS - time.later_ms <= longer_ms <= earlier_ms + PROVES_MS:
            return True
    return False


def _told_since_ms(
    rows: SensorRows, start: int, row: int, placed: Placed, events: Events, thrown_ms: Int64s
) -> int:
    """Return the time (ms) from which on the row was recorded, as throttles ahead of it tell.

    One that is replayed to PROVES_MS would be longer, had the row been counted before it. So the
    row was recorded later, and its handler read its time no longer before than its line admits.
    """
    order, at_ms = placed.order[: row + 1], placed.recorded_at_ms
    event = order[row]
    admitted_ms = events.latest_ms[order] - events.earliest_ms[order]
    share_ms = float(rows.amount[start + event]) * 1000.0 / float(rows.bound[start + event])
    ahead = np.flatnonzero(at_ms[:row] >= at_ms[row] - events.line_lag_max_ms[event] - PROVES_MS)
    if not len(ahead):
        return int(at_ms[0])
    logged_ms = rows.logged_ms[start + order[:row]]
    tells = (events.evidence[order[:row]] == EXACT) & (logged_ms > 0)
    tells &= np.abs(logged_ms - thrown_ms[:row]) <= PROVES_MS
    tells &= share_ms > admitted_ms[:row] + 2 * PROVES_MS
    told_ms = at_ms[ahead][tells[ahead]]
    return int(told_ms.max(initial=int(at_ms[0])) - admitted_ms[row] - PROVES_MS)


def replayed(
    rows: SensorRows, places: np.ndarray, recorded_at_ms: np.ndarray, states: SensorStates
) -> RateReplay:
    """Return the decisions on rows at these times; ``states`` moves on."""
    return replayed_rates(
        recorded_at_ms, rows.amount[places], rows.bound[places], rows.logged_ms[places], states
    )


def replayed_rates(
    recorded_at_ms: np.ndarray,
    amount: np.ndarray,
    bound: np.ndarray,
    logged_ms: np.ndarray,
    states: SensorStates,
    *,
    is_unrecorded: np.ndarray | None = None,
) -> RateReplay:
    """Return the decisions on one sensor's requests in their order; ``states`` moves on.

    An amount of NaN counts as nothing, and no throttle has a most. What ``is_unrecorded`` (none
    where None) was taken back at once.
    """
    n = len(recorded_at_ms)
    behaviour = np.full(n, RECORD)
    if is_unrecorded is not None:
        behaviour[is_unrecorded] = RECORD_AND_UNRECORD
    return replay_rate(
        np.zeros(n, np.int64),
        recorded_at_ms,
        np.nan_to_num(amount),
        bound,
        behaviour,
        logged_ms,
        np.full(n, NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )
