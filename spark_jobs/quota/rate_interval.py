"""What a windowed rate can have been where amounts and record times are known as intervals only.

The same rule as :mod:`spark_jobs.quota.rate`, with an interval for everything that the log does not
tell: each sample's start, last event and value. Where an event may have fallen into the current
sample or opened the next one, its amount *floats* between the two: it counts as long as the newer
of them, and surely only while the older is there too. Where a sample may have been purged or not,
both are tried. All compiled code is here: numba's disk cache misses a change in another file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.quota.interval_states import (
    EMPTIED_MAX,
    EMPTIED_MIN,
    FLOAT_MAX,
    FLOAT_MIN,
    LAST_MAX,
    LAST_MIN,
    NEVER,
    OPEN_FROM,
    OPEN_UNTIL,
    START_MAX,
    START_MIN,
    VALUE_MAX,
    VALUE_MIN,
    IntervalRows,
    IntervalStates,
    RateIntervals,
)
from spark_jobs.quota.rate_decision import RECORD_ONLY
from spark_jobs.quota.states import Floats, Int64s

# Sums are formed in another order than Kafka's: this much of a millisecond may round otherwise.
ROUNDING_MS = 1e-6
_ROW_TYPES = (
    np.int64, np.int64, np.int64, np.float64, np.float64, np.float64, np.int8, np.int64, np.float64,
)  # fmt: skip


def replay_rate_intervals(
    rows: IntervalRows, states: IntervalStates, throttle_max_ms: Int64s | None = None
) -> RateIntervals:
    """Return the range that the rule allows for each row; ``states`` moves on in place.

    ``throttle_max_ms`` caps the throttle, one number per sensor (``ClientRequestQuotaManager``: one
    window); None is no cap. Two rows of a sensor whose times overlap may have been recorded in
    either order, and both orders are allowed for.

    >>> from spark_jobs.quota.rate_decision import RECORD
    >>> from spark_jobs.quota.rate_profile import RateProfile
    >>> from spark_jobs.quota.states import SensorStates
    >>> states = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
    >>> row = (0, 1_000, 1_002, 150.0, 300.0, 20.0, RECORD, 0, 0.0)
    >>> rows = IntervalRows(*(np.array([x]) for x in row))
    >>> found = replay_rate_intervals(rows, IntervalStates.of(states))
    >>> int(found.throttle_time_min_ms[0]), int(found.throttle_time_max_ms[0])
    (0, 5000)
    """
    n = np.size(rows.sensor)
    out = RateIntervals(np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64))
    cap = (
        np.full(len(states.sample_count), NEVER // 2)
        if throttle_max_ms is None
        else throttle_max_ms
    )
    columns = [_column(rows[i], kind, n) for i, kind in enumerate(_ROW_TYPES)]
    _replay(IntervalRows(*columns), states, _column(cap, np.int64, len(states.sample_count)), out)
    return out


def _column(values: npt.ArrayLike, kind: npt.DTypeLike, n: int) -> npt.NDArray[Any]:
    column = np.ascontiguousarray(values, kind).view()
    column.flags.writeable = False  # one type for numba, whatever Arrow or numpy hands in
    assert len(column) == n, (len(column), n)
    return column


@njit(cache=True)
def _slots(states: IntervalStates, s: int) -> int:
    return int(states.samples[s] + (states.keeps_overlapping[s] != 0))


@njit(cache=True)
def _set_sample(
    times: Int64s, values: Floats, slot: int, start_min: int, start_max: int, last_max: int
) -> None:
    times[slot, START_MIN] = start_min
    times[slot, START_MAX] = start_max
    times[slot, LAST_MIN] = start_min
    times[slot, LAST_MAX] = last_max
    times[slot, EMPTIED_MIN] = NEVER
    times[slot, EMPTIED_MAX] = NEVER
    values[slot, :] = 0.0


@njit(cache=True)
def _previous(slot: int, count: int, slots: int) -> int:
    """Return the slot of the sample before, -1 where there is none."""
    if slot > 0:
        return slot - 1
    return count - 1 if count == slots and count > 1 else -1


@njit(cache=True)
def _add(
    times: Int64s,
    values: Floats,
    slot: int,
    before: int,
    earliest: int,
    latest: int,
    low: float,
    high: float,
    window_ms: int,
) -> None:
    """Add an amount to the current sample, which surely had not ended yet."""
    if earliest < times[slot, START_MAX] and before >= 0:
        # It may have come before the event that opened the sample: it is in the one before, or
        # opened this one itself.
        opened = times[before, START_MIN] + window_ms
        if opened > times[slot, START_MAX]:  # emptied since: its start says nothing
            opened = earliest
        times[slot, START_MIN] = min(times[slot, START_MIN], max(earliest, opened))
        times[before, LAST_MAX] = max(times[before, LAST_MAX], latest)
        values[slot, FLOAT_MIN] += low
        values[slot, FLOAT_MAX] += high
    else:
        if earliest < times[slot, START_MIN]:
            times[slot, START_MIN] = earliest
        values[slot, VALUE_MIN] += low
        values[slot, VALUE_MAX] += high
    times[slot, LAST_MIN] = max(times[slot, LAST_MIN], earliest)
    times[slot, LAST_MAX] = max(times[slot, LAST_MAX], latest)


@njit(cache=True)
def _record(
    settled: int,
    earliest: int,
    latest: int,
    low: float,
    high: float,
    s: int,
    states: IntervalStates,
) -> None:
    """Record an amount; no later row was recorded before ``settled``."""
    window_ms, slots = states.window_ms[s], _slots(states, s)
    times, values = states.times[s], states.values[s]
    open_times, open_values = states.open_times[s], states.open_values[s]
    count, index = states.sample_count[s], states.sample_index[s]
    if count == 0:
        _set_sample(times, values, 0, earliest, latest, latest)
        values[0, VALUE_MIN] = low
        values[0, VALUE_MAX] = high
        states.sample_count[s] = 1
        return
    if latest - times[index, START_MIN] < window_ms:
        before = _previous(index, count, slots)
        _add(times, values, index, before, earliest, latest, low, high, window_ms)
        return
    following = index + 1 if index + 1 < slots else 0
    if settled - times[index, START_MAX] < window_ms:
        start = max(earliest, times[index, START_MIN] + window_ms)
        if open_times[OPEN_FROM] == NEVER:
            open_times[OPEN_FROM] = start
            open_times[OPEN_UNTIL] = latest
            open_values[:] = 0.0
        open_times[OPEN_FROM] = min(open_times[OPEN_FROM], start)
        open_times[OPEN_UNTIL] = max(open_times[OPEN_UNTIL], latest)
        open_values[0] += low
        open_values[1] += high
        times[index, LAST_MAX] = max(times[index, LAST_MAX], latest)
        if following < count:
            # The next sample's slot may have been emptied for it already.
            times[following, EMPTIED_MIN] = min(times[following, EMPTIED_MIN], start)
            times[following, EMPTIED_MAX] = latest
        return
    start_min = earliest
    floats_min = floats_max = 0.0
    if open_times[OPEN_FROM] != NEVER:
        floats_min, floats_max = open_values[0], open_values[1]
        if settled - open_times[OPEN_UNTIL] >= window_ms:
            # If they opened a sample, that one has ended as well; it may never have been.
            since, until = open_times
            _set_sample(times, values, following, since, until, until)
            times[following, EMPTIED_MIN], times[following, EMPTIED_MAX] = since, latest
            values[following, FLOAT_MIN], values[following, FLOAT_MAX] = floats_min, floats_max
            floats_min = floats_max = 0.0
            count = max(count, following + 1)
            following = following + 1 if following + 1 < slots else 0
        else:
            start_min = min(start_min, open_times[OPEN_FROM])
        open_times[:] = NEVER
    _set_sample(times, values, following, start_min, latest, latest)
    times[following, LAST_MIN] = earliest
    values[following, VALUE_MIN] = low
    values[following, VALUE_MAX] = high
    values[following, FLOAT_MIN] = floats_min
    values[following, FLOAT_MAX] = floats_max
    states.sample_count[s], states.sample_index[s] = max(count, following + 1), following


@njit(cache=True)
def _purge(settled: int, earliest: int, latest: int, s: int, states: IntervalStates) -> int:
    """Empty what surely left the window; mark what may have, and return how many those are."""
    times, values = states.times[s], states.values[s]
    expire_age_ms = states.samples[s] * states.window_ms[s]
    reference = LAST_MIN if states.keeps_overlapping[s] != 0 else START_MIN
    doubtful = 0
    for slot in range(states.sample_count[s]):
        may_be_empty = times[slot, EMPTIED_MIN] != NEVER
        if settled - times[slot, reference + 1] >= expire_age_ms:
            start = min(times[slot, EMPTIED_MIN], earliest)
            _set_sample(times, values, slot, start, latest, latest)
        elif may_be_empty or latest - times[slot, reference] >= expire_age_ms:
            times[slot, EMPTIED_MIN] = min(times[slot, EMPTIED_MIN], earliest)
            times[slot, EMPTIED_MAX] = latest
            doubtful += 1
    return doubtful


@njit(cache=True)
def _is_emptied(slot: int, count: int, emptied: int, times: Int64s) -> bool:
    """Return True if a doubtful sample is among the ``emptied`` that started first."""
    if times[slot, EMPTIED_MIN] == NEVER:
        return False
    older = 0
    for other in range(count):
        if times[other, EMPTIED_MIN] != NEVER and (
            times[other, START_MIN] < times[slot, START_MIN]
            or (times[other, START_MIN] == times[slot, START_MIN] and other < slot)
        ):
            older += 1
    return older < emptied


@njit(cache=True)
def _window_size(elapsed_ms: int, full_min_ms: int, window_ms: int) -> int:
    if elapsed_ms >= full_min_ms:
        return max(elapsed_ms, 1)
    return max(full_min_ms + elapsed_ms % window_ms, 1)


@njit(cache=True)
def _window_interval(
    elapsed_min: int, elapsed_max: int, full_min_ms: int, window_ms: int
) -> tuple[int, int]:
    elapsed_min, elapsed_max = max(elapsed_min, 0), max(elapsed_max, 0)
    low = _window_size(elapsed_min, full_min_ms, window_ms)
    high = _window_size(elapsed_max, full_min_ms, window_ms)
    if elapsed_min < full_min_ms and elapsed_min // window_ms != elapsed_max // window_ms:
        # In between it fell back to the least there is, after almost a whole window more.
        return max(full_min_ms, 1), max(high, full_min_ms + window_ms - 1)
    return low, high


@njit(cache=True)
def _excess_ms(total: float, window_size_ms: int, bound: float) -> float:
    rate = total / (window_size_ms / 1000.0)
    if rate <= bound:
        return 0.0
    return (rate - bound) / bound * window_size_ms if bound > 0.0 else np.inf


@njit(cache=True)
def _totals(
    slots: int, emptied: int, times: Int64s, values: Floats, count: int
) -> tuple[float, float, int, int]:
    """Return the least and most total and oldest start if ``emptied`` doubtful samples are gone."""
    total_min = total_max = 0.0
    oldest_min = oldest_max = NEVER
    for slot in range(count):
        if _is_emptied(slot, count, emptied, times):
            oldest_min = min(oldest_min, times[slot, EMPTIED_MIN])
            oldest_max = min(oldest_max, times[slot, EMPTIED_MAX])
            continue
        oldest_min = min(oldest_min, times[slot, START_MIN])
        oldest_max = min(oldest_max, times[slot, START_MAX])
        total_min += values[slot, VALUE_MIN]
        total_max += values[slot, VALUE_MAX] + values[slot, FLOAT_MAX]
        before = _previous(slot, count, slots)
        is_first = (
            before < 0
            or times[before, START_MIN] > times[slot, START_MIN]
            or _is_emptied(before, count, emptied, times)
        )
        if not is_first:
            total_min += values[slot, FLOAT_MIN]
    return total_min, total_max, oldest_min, oldest_max


@njit(cache=True)
def _hull(
    earliest: int,
    latest: int,
    own: float,
    not_yet: float,
    besides: float,
    bound: float,
    doubtful: int,
    since_ms: int,
    s: int,
    states: IntervalStates,
) -> tuple[float, float, float, float]:
    """Return the least and most rate and throttle over all that may have been purged or not."""
    window_ms, samples, slots = states.window_ms[s], states.samples[s], _slots(states, s)
    least, most = np.inf, 0.0
    rate_min, rate_max = np.inf, 0.0
    for emptied in range(doubtful + 1):
        total_min, total_max, oldest_min, oldest_max = _totals(
            slots, emptied, states.times[s], states.values[s], states.sample_count[s]
        )
        if states.open_times[s, OPEN_FROM] != NEVER:
            total_min += states.open_values[s, 0]
            total_max += states.open_values[s, 1]
        total_min = max(total_min - not_yet, own)
        total_max += besides
        size_min, size_max = _window_interval(
            earliest - oldest_max,
            latest - min(oldest_min, since_ms),
            (samples - 1) * window_ms,
            window_ms,
        )
        rate_min = min(rate_min, total_min / (size_max / 1000.0))
        rate_max = max(rate_max, total_max / (size_min / 1000.0))
        if not np.isnan(bound):
            least = min(least, _excess_ms(total_min, size_max, bound))
            most = max(most, _excess_ms(total_max, size_min, bound))
    return rate_min, rate_max, least, most


@njit(cache=True)
def _neighbours(
    i: int, rows: IntervalRows, latest_so_far: Int64s, earliest_from_here: Int64s
) -> tuple[float, float, int]:
    """Return the amounts possibly unrecorded of rows before, and possibly recorded of rows after.

    The third value is the earliest time (ms) of such rows after, NEVER if there are none.
    """
    earliest, latest, sensor = rows.earliest_ms, rows.latest_ms, rows.sensor
    not_yet = already = 0.0
    since_ms = NEVER
    j = i - 1
    while j >= 0 and sensor[j] == sensor[i] and latest_so_far[j] >= earliest[i]:
        if latest[j] >= earliest[i] and rows.request[j] != rows.request[i]:
            not_yet += rows.amount_min[j]
        j -= 1
    j = i + 1
    while j < len(sensor) and sensor[j] == sensor[i] and earliest_from_here[j] <= latest[i]:
        if earliest[j] <= latest[i] and rows.request[j] != rows.request[i]:
            already += rows.amount_max[j]
            since_ms = min(since_ms, earliest[j])
        j += 1
    return not_yet, already, since_ms


@njit(cache=True)
def _reach(sensor: Int64s, earliest_ms: Int64s, latest_ms: Int64s) -> tuple[Int64s, Int64s]:
    """Return, within each sensor, the latest of the rows up to each and the earliest from it on."""
    n = len(sensor)
    latest_so_far = latest_ms.copy()
    earliest_from_here = earliest_ms.copy()
    for i in range(1, n):
        if sensor[i] == sensor[i - 1]:
            latest_so_far[i] = max(latest_so_far[i], latest_so_far[i - 1])
    for i in range(n - 2, -1, -1):
        if sensor[i] == sensor[i + 1]:
            earliest_from_here[i] = min(earliest_from_here[i], earliest_from_here[i + 1])
    return latest_so_far, earliest_from_here


@njit(cache=True)
def _replay(
    rows: IntervalRows, states: IntervalStates, throttle_max_ms: Int64s, out: RateIntervals
) -> None:
    latest_so_far, earliest_from_here = _reach(rows.sensor, rows.earliest_ms, rows.latest_ms)
    for i in range(len(rows.sensor)):
        s = rows.sensor[i]
        earliest, latest = rows.earliest_ms[i], rows.latest_ms[i]
        not_yet, already, since_ms = _neighbours(i, rows, latest_so_far, earliest_from_here)
        settled = min(earliest, since_ms)
        low, high, bound = rows.amount_min[i], rows.amount_max[i], rows.bound[i]
        _record(settled, earliest, latest, low, high, s, states)
        if rows.behaviour[i] == RECORD_ONLY:
            continue
        doubtful = _purge(settled, earliest, latest, s, states)
        besides = already + rows.unlogged_max[i]
        out.rate_min[i], out.rate_max[i], least, most = _hull(
            earliest, latest, low, not_yet, besides, bound, doubtful, since_ms, s, states
        )
        if most > 0.0:
            cap = float(throttle_max_ms[s])
            out.throttle_time_min_ms[i] = int(np.floor(min(least, cap) + 0.5 - ROUNDING_MS))
            out.throttle_time_max_ms[i] = int(np.floor(min(most, cap) + 0.5 + ROUNDING_MS))
