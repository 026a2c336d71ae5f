"""Kafka's windowed rate as written down, in one compiled loop: every sample is looked at each time.

What ``replay_rate`` does faster must be this, bit for bit. Nothing is shared with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
TWO_TO_63 = 2.0**63
UNLIMITED = float(LONG_MAX)
NO_THROTTLE_MAX = -1
RECORD_AND_UNRECORD, RECORD_ONLY = 1, 2

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@njit()
def _divide(dividend: float, divisor: float) -> float:
    if divisor != 0.0:
        return dividend / divisor
    if dividend > 0.0:
        return np.inf
    return -np.inf if dividend < 0.0 else np.nan


@njit()
def _round(x: float) -> int:
    if np.isnan(x):
        return 0
    if x >= TWO_TO_63:
        return LONG_MAX
    if x < -TWO_TO_63:
        return LONG_MIN
    floor = np.floor(x)
    return int(floor + 1.0 if x - floor >= 0.5 else floor)


@njit()
def _int(x: int) -> int:
    low = x & 0xFFFF_FFFF
    return low - 0x1_0000_0000 if low >= 0x8000_0000 else low


@njit()
def _throttle_time_ms(rate: float, bound: float, window_size_ms: int, throttle_max_ms: int) -> int:
    # Over no time at all the rate is infinite or NaN, and times 0 that is NaN, which rounds to 0.
    if rate <= bound or window_size_ms == 0:
        return 0
    delay_ms = _round(_divide(rate - bound, bound) * window_size_ms)
    if throttle_max_ms != NO_THROTTLE_MAX:
        delay_ms = min(delay_ms, throttle_max_ms)
    return _int(delay_ms)


@njit()
def _record(
    s: int,
    now_ms: int,
    amount: float,
    slots: int,
    window_ms: int,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
    count: Int64s,
    index: Int64s,
) -> None:
    current = index[s]
    is_new = count[s] == 0
    if not is_new and now_ms - start_ms[s, current] >= window_ms:
        is_new = True
        current = current + 1 if current + 1 < slots else 0
        index[s] = current
    if is_new:
        count[s] = max(count[s], current + 1)
        start_ms[s, current] = now_ms
        value[s, current] = 0.0
    value[s, current] += amount
    last_event_ms[s, current] = now_ms


@njit()
def _purge(
    s: int,
    now_ms: int,
    expire_age_ms: int,
    keeps_overlapping: bool,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
    count: Int64s,
) -> tuple[float, int, int]:
    """Empty obsolete samples; return the sum, the oldest sample's slot, the purge margin."""
    total = 0.0
    oldest = 0
    margin_ms = LONG_MAX
    for slot in range(count[s]):
        reference_ms = last_event_ms[s, slot] if keeps_overlapping else start_ms[s, slot]
        overdue_ms = now_ms - reference_ms - expire_age_ms
        margin_ms = min(margin_ms, abs(overdue_ms))
        if overdue_ms >= 0:
            start_ms[s, slot] = now_ms
            last_event_ms[s, slot] = now_ms
            value[s, slot] = 0.0
        total += value[s, slot]
        if start_ms[s, slot] < start_ms[s, oldest]:
            oldest = slot
    return total, oldest, margin_ms


@njit()
def _most_of_those_begun_then(
    s: int, oldest: int, start_ms: Int64s, value: Floats, count: Int64s, index: Int64s
) -> float:
    if start_ms[s, index[s]] == start_ms[s, oldest]:
        return float(value[s, index[s]])
    most = value[s, oldest]
    for slot in range(count[s]):
        if start_ms[s, slot] == start_ms[s, oldest]:
            most = max(most, value[s, slot])
    return float(most)


@njit()
def _window_size(elapsed_ms: int, samples: int, window_ms: int, allows_zero: bool) -> int:
    full_min_ms = (samples - 1) * window_ms
    if elapsed_ms < full_min_ms:
        # The missing windows are added: of the elapsed time only what is no full window counts.
        part_ms = abs(elapsed_ms) % window_ms
        elapsed_ms = full_min_ms + (part_ms if elapsed_ms >= 0 else -part_ms)
    return elapsed_ms if allows_zero else max(elapsed_ms, 1)


@njit()
def _attempted_amount(throttle_ms: int, bound: float, window_size_ms: int, held: float) -> float:
    amount = max(bound * (throttle_ms + window_size_ms) / 1000.0 - held, 0.0)
    whole = np.floor(amount + 0.5)
    rate = _divide(held + whole, window_size_ms / 1000.0)
    replayed_ms = _throttle_time_ms(rate, bound, window_size_ms, NO_THROTTLE_MAX)
    return whole if replayed_ms == throttle_ms else amount


@njit()
def replay_literally(
    sensor: Int64s,
    recorded_at_ms: Int64s,
    bound: Floats,
    behaviour: Int8s,
    logged_throttle_time_ms: Int64s,
    throttle_max_ms: Int64s,
    keeps_overlapping: Int8s,
    allows_zero_window: Int8s,
    samples: Int64s,
    window_ms: Int64s,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
    count: Int64s,
    index: Int64s,
    out_amount: Floats,
    out_rate: Floats,
    out_window_size_ms: Int64s,
    out_throttle_time_ms: Int64s,
    out_oldest_value: Floats,
    out_purge_margin_ms: Int64s,
) -> None:
    for i in range(len(sensor)):
        s = sensor[i]
        now = recorded_at_ms[i]
        amount = out_amount[i]
        window = window_ms[s]
        keeps = keeps_overlapping[s] != 0
        slots = samples[s] + 1 if keeps else samples[s]
        known = 0.0 if np.isnan(amount) else amount
        _record(s, now, known, slots, window, start_ms, last_event_ms, value, count, index)
        if behaviour[i] == RECORD_ONLY:
            continue
        expire_age = samples[s] * window
        total, oldest, margin = _purge(
            s, now, expire_age, keeps, start_ms, last_event_ms, value, count
        )
        window_size = _window_size(
            now - start_ms[s, oldest], samples[s], window, allows_zero_window[s] != 0
        )
        is_unrecorded = behaviour[i] == RECORD_AND_UNRECORD and logged_throttle_time_ms[i] > 0
        if is_unrecorded and np.isnan(amount) and not np.isnan(bound[i]):
            known = _attempted_amount(logged_throttle_time_ms[i], bound[i], window_size, total)
            out_amount[i] = known
            value[s, index[s]] += known
            total, oldest, _ = _purge(
                s, now, expire_age, keeps, start_ms, last_event_ms, value, count
            )
        rate = _divide(total, window_size / 1000.0)
        in_force = UNLIMITED if np.isnan(bound[i]) else bound[i]
        out_rate[i] = rate
        out_window_size_ms[i] = window_size
        out_throttle_time_ms[i] = _throttle_time_ms(rate, in_force, window_size, throttle_max_ms[i])
        out_oldest_value[i] = _most_of_those_begun_then(s, oldest, start_ms, value, count, index)
        out_purge_margin_ms[i] = margin
        if is_unrecorded:
            _record(s, now, -known, slots, window, start_ms, last_event_ms, value, count, index)
