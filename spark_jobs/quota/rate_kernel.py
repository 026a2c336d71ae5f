"""The windowed rates of many sensors as one compiled loop over arrays.

Kafka looks at every sample of a sensor with every amount. Nothing comes of it unless the amount
opens a sample or finds one obsolete; until then what there is to see of the other samples stays as
it is, at whatever times the amounts come. So only then are they looked at, and what was seen is
kept (``SEEN``).

The sum alone depends on the order of its additions. It is the other samples' sum plus the current
sample where all are whole numbers and their sizes do not exceed 2^53 together: then no addition
rounds, in any order. Else it is added up in the order of the slots, from the current one on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from spark_jobs.quota.compiled_rules import attempted_amount, divide, throttle_time_ms, window_size
from spark_jobs.quota.java_math import LONG_MAX, LONG_MIN
from spark_jobs.quota.rate_decision import NOT_MEASURED, RECORD_AND_UNRECORD, RECORD_ONLY
from spark_jobs.quota.states import Floats, Int8s, Int64s
from spark_jobs.quota.throttle_time import UNLIMITED

WHOLE_MAX = 2.0**53
"""Up to here every whole number is a double."""
AT_ONCE_MS = LONG_MIN
"""When to look at samples not seen since one was opened."""
NEVER_MS = 2**62
"""When the current sample is obsolete where it lives until its last event left the window."""

# What was last seen of a sensor's samples; nothing yet where due_ms is AT_ONCE_MS.
SEEN = np.dtype(
    [
        ("due_ms", np.int64),  # when the first of them is obsolete
        ("start_ms", np.int64),  # of the current sample
        ("oldest", np.int64),  # where the oldest sample is
        ("oldest_start_ms", np.int64),
        ("others", np.float64),  # sum of all values but the current one
        ("before", np.float64),  # sum of the values in the slots before the current one
        ("room", np.float64),  # up to this current value the sum is exact in any order
    ]
)

# A place in an array as an unsigned number: else numba tests each time whether it counts from the
# end, a sixth of the time of a row.
place = np.uint64


# Inlined before numba counts references to arrays: calls that take them cost a third more.
@njit(inline="always")
def _purge(
    first: int,
    current: int,
    end: int,
    now_ms: int,
    expire_age_ms: int,
    keeps: bool,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
) -> tuple[int, int, int, int, float, float, float]:
    """Empty obsolete samples; return the purge margin and, as in SEEN, what is to see now.

    The samples of the sensor are at ``first`` until before ``end``.
    """
    margin_ms, due_ms = LONG_MAX, NEVER_MS
    oldest, oldest_start_ms = first, LONG_MAX
    others, before, size, is_whole = 0.0, 0.0, 0.0, True
    for sample in range(first, end):
        at = place(sample)
        begun_ms = start_ms[at]
        reference_ms = last_event_ms[at] if keeps else begun_ms
        overdue_ms = now_ms - reference_ms - expire_age_ms
        margin_ms = min(margin_ms, abs(overdue_ms))
        if overdue_ms >= 0:
            start_ms[at] = last_event_ms[at] = now_ms
            value[at] = 0.0
            begun_ms = reference_ms = now_ms
        # One that was emptied begins anew when the current one does, and holds nothing.
        is_held = sample == current or (oldest != current and value[at] > value[place(oldest)])
        if begun_ms < oldest_start_ms or (begun_ms == oldest_start_ms and is_held):
            oldest, oldest_start_ms = sample, begun_ms
        if sample == current:
            before = others
        else:
            held = value[at]
            others += held
            size += abs(held)
            is_whole &= np.floor(held) == held
        if sample != current or not keeps:
            due_ms = min(due_ms, reference_ms + expire_age_ms)
    room = WHOLE_MAX - size if is_whole else -1.0
    return margin_ms, due_ms, oldest, oldest_start_ms, others, before, room


@njit(inline="always")
def _total(
    current: int,
    end: int,
    held: float,
    others: float,
    before: float,
    room: float,
    value: Floats,
) -> float:
    """Return the sum of all samples, ``held`` in the current one, as added up in slot order."""
    if abs(held) <= room and np.floor(held) == held:
        return others + held
    total = before + held
    for sample in range(current + 1, end):
        total += value[place(sample)]
    return total


@njit(cache=True)
def replay_amounts(
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
    all_start_ms: Int64s,
    all_last_event_ms: Int64s,
    all_value: Floats,
    count: Int64s,
    index: Int64s,
    out_amount: Floats,
    out_rate: Floats,
    out_window_size_ms: Int64s,
    out_throttle_time_ms: Int64s,
    out_oldest_value: Floats,
    out_purge_margin_ms: Int64s,
) -> None:
    """Fill ``out_...`` as :func:`spark_jobs.quota.kernels.replay_rate` says.

    ``out_amount`` holds the amounts as given.
    """
    slots_max = all_value.shape[1]
    start_ms, last_event_ms = all_start_ms.reshape(-1), all_last_event_ms.reshape(-1)
    value = all_value.reshape(-1)
    seen: Any = np.empty(len(count), SEEN)
    for i in range(len(count)):
        seen[i]["due_ms"] = AT_ONCE_MS
    open_sensor = -1
    for i in range(len(sensor)):
        if sensor[i] != open_sensor:
            open_sensor = sensor[i]
            row = place(open_sensor)
            first = open_sensor * slots_max
            current, end = first + index[row], first + count[row]
            held = value[place(current)]
            keeps, window = keeps_overlapping[row] != 0, window_ms[row]
            expire_age_ms = samples[row] * window
            full_min_ms = expire_age_ms - window
            allows_zero = allows_zero_window[row] != 0
            due_ms = seen[row]["due_ms"]
            if due_ms == AT_ONCE_MS:
                begun_ms = start_ms[place(current)]
            else:
                begun_ms = seen[row]["start_ms"]
                oldest = seen[row]["oldest"]
                oldest_start_ms = seen[row]["oldest_start_ms"]
                others, before = seen[row]["others"], seen[row]["before"]
                room = seen[row]["room"]
        now_ms = recorded_at_ms[i]
        if end == first or now_ms - begun_ms >= window:
            if end > first:
                last = first + samples[row] - 1 + keeps
                current = current + 1 if current < last else first
            end = max(end, current + 1)
            index[row], count[row] = current - first, end - first
            start_ms[place(current)] = begun_ms = now_ms
            held = 0.0
            seen[row]["due_ms"] = due_ms = AT_ONCE_MS
        amount = out_amount[i]
        recorded = 0.0 if np.isnan(amount) else amount
        held += recorded
        value[place(current)] = held
        last_event_ms[place(current)] = now_ms
        kind = behaviour[i]
        if kind == RECORD_ONLY:
            out_rate[i] = out_oldest_value[i] = np.nan
            out_window_size_ms[i] = NOT_MEASURED
            out_throttle_time_ms[i] = 0
            out_purge_margin_ms[i] = LONG_MAX
            continue
        if now_ms < due_ms:
            # The current sample's last event is now, which is as far as can be from being obsolete.
            margin_ms = min(due_ms - now_ms, expire_age_ms) if keeps else due_ms - now_ms
        else:
            margin_ms, due_ms, oldest, oldest_start_ms, others, before, room = _purge(
                first, current, end, now_ms, expire_age_ms, keeps, start_ms, last_event_ms, value
            )
            seen[row]["due_ms"], seen[row]["start_ms"] = due_ms, begun_ms
            seen[row]["oldest"], seen[row]["oldest_start_ms"] = oldest, oldest_start_ms
            seen[row]["others"], seen[row]["before"] = others, before
            seen[row]["room"] = room
        total = _total(current, end, held, others, before, room, value)
        size_ms = window_size(now_ms - oldest_start_ms, full_min_ms, window, allows_zero)
        is_unrecorded = kind == RECORD_AND_UNRECORD and logged_throttle_time_ms[i] > 0
        if is_unrecorded and np.isnan(amount) and not np.isnan(bound[i]):
            recorded = attempted_amount(logged_throttle_time_ms[i], bound[i], size_ms, total)
            out_amount[i] = recorded
            held += recorded
            value[place(current)] = held
            total = _total(current, end, held, others, before, room, value)
        rate = divide(total, size_ms / 1000.0)
        in_force = UNLIMITED if np.isnan(bound[i]) else bound[i]
        out_rate[i] = rate
        out_window_size_ms[i] = size_ms
        out_throttle_time_ms[i] = throttle_time_ms(rate, in_force, size_ms, throttle_max_ms[i])
        out_oldest_value[i] = value[place(oldest)]
        out_purge_margin_ms[i] = margin_ms
        if is_unrecorded:
            held -= recorded
            value[place(current)] = held
