"""The replay of many sensors as compiled loops over arrays: bit-equal to the plain-Python rules.

``replay_rate`` does what :func:`spark_jobs.quota.rate_decision.decide` does, row after row, and
``replay_token_bucket`` what ``decide`` of :mod:`spark_jobs.quota.controller_mutation` does.
The order of floating operations is Kafka's: no fast-math, no fused multiply-add.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.quota.controller_mutation import SMALLEST_DEBT
from spark_jobs.quota.java_math import LONG_MAX, LONG_MIN
from spark_jobs.quota.rate_decision import NOT_MEASURED, RECORD_AND_UNRECORD, RECORD_ONLY
from spark_jobs.quota.states import Floats, Int8s, Int64s
from spark_jobs.quota.throttle_time import UNLIMITED

NO_THROTTLE_MAX = -1
# Of a mutation: the bucket is the sensor's own; it may have been charged for more than was logged
# before; another bucket decided, of which nothing is known.
SAME_BUCKET, CHARGES_MISSING, OTHER_BUCKET = range(3)
TWO_TO_63 = 2.0**63

Bools = npt.NDArray[np.bool_]


class RateReplay(NamedTuple):
    """The columns of :class:`spark_jobs.quota.rate_decision.RateDecision`, one entry per row."""

    amount: Floats
    rate: Floats
    window_size_ms: Int64s
    throttle_time_ms: Int64s
    oldest_value: Floats
    purge_margin_ms: Int64s

    def take(self, rows: npt.NDArray[Any]) -> RateReplay:
        """Return the entries of these rows."""
        return RateReplay(*(column[rows] for column in self))

    def joined(self, other: RateReplay) -> RateReplay:
        """Return the entries of both, one after the other."""
        pairs = zip(self, other, strict=True)
        return RateReplay(*(np.concatenate(pair) for pair in pairs))


class TokenBucketReplay(NamedTuple):
    """The columns of :class:`spark_jobs.quota.controller_mutation.MutationDecision`, per row."""

    tokens_before: Floats
    tokens: Floats
    admitted: Bools
    throttle_time_ms: Int64s
    is_state_known: Bools


def replay_rate(
    sensor: npt.ArrayLike,
    recorded_at_ms: npt.ArrayLike,
    amount: npt.ArrayLike,
    bound: npt.ArrayLike,
    behaviour: npt.ArrayLike,
    logged_throttle_time_ms: npt.ArrayLike,
    throttle_max_ms: npt.ArrayLike,
    keeps_overlapping: Int8s,
    allows_zero_window: Int8s,
    samples: Int64s,
    window_ms: Int64s,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
    count: Int64s,
    index: Int64s,
) -> RateReplay:
    """Return what the rule says of n amounts, in their order; the states move on in place.

    ``sensor`` is the row of the states (:meth:`SensorStates.rate_arrays`); the rows of one sensor
    must be in order of recording, and may lie between those of others. ``bound`` is NaN where none
    is in force, ``amount`` NaN where the log does not have it, ``throttle_max_ms`` -1 where there
    is none; ``behaviour`` is RECORD, RECORD_AND_UNRECORD or RECORD_ONLY.
    """
    sensors = _sensor_rows(sensor, len(count))
    n = len(sensors)
    out = RateReplay(
        amount=np.array(amount, np.float64),
        rate=np.full(n, np.nan),
        window_size_ms=np.full(n, NOT_MEASURED, np.int64),
        throttle_time_ms=np.zeros(n, np.int64),
        oldest_value=np.full(n, np.nan),
        purge_margin_ms=np.full(n, LONG_MAX, np.int64),
    )
    assert len(out.amount) == n, (len(out.amount), n)
    _replay_rate(
        sensors,
        _column(recorded_at_ms, np.int64, n),
        _column(bound, np.float64, n),
        _column(behaviour, np.int8, n),
        _column(logged_throttle_time_ms, np.int64, n),
        _column(throttle_max_ms, np.int64, n),
        *(keeps_overlapping, allows_zero_window, samples, window_ms, start_ms, last_event_ms),
        value,
        *(count, index),
        *(out.amount, out.rate),
        *(out.window_size_ms, out.throttle_time_ms),
        *(out.oldest_value, out.purge_margin_ms),
    )
    return out


def replay_token_bucket(
    sensor: npt.ArrayLike,
    recorded_at_ms: npt.ArrayLike,
    amount: npt.ArrayLike,
    bound: npt.ArrayLike,
    strict: npt.ArrayLike,
    logged_admitted: npt.ArrayLike,
    samples: Int64s,
    window_ms: Int64s,
    tokens: Floats,
    tokens_least: Floats,
    last_update_ms: Int64s,
    follow_logged: bool = True,
    doubt_tokens: npt.ArrayLike | None = None,
    bucket_gap: npt.ArrayLike | None = None,
    slack_tokens: npt.ArrayLike | None = None,
) -> TokenBucketReplay:
    """Return what the rule says of n mutations, in their order; the states move on in place.

    ``admitted`` is the rule's own answer. With ``follow_logged`` the bucket spends what the broker
    admitted (``logged_admitted``), so that one wrong decision does not spoil all later ones;
    without it, what the rule admits. With ``doubt_tokens`` an admission against a debt larger than
    that spends nothing: either the line is wrong, or the broker keeps no such bucket.
    ``bucket_gap`` is SAME_BUCKET, CHARGES_MISSING or OTHER_BUCKET, without it all are the first.
    ``slack_tokens`` is what the record time leaves open of what an unknown state learns.
    ``amount`` NaN is not in the log, ``bound`` NaN none in force;
    the other arguments are as in ``replay_rate`` and :meth:`SensorStates.bucket_arrays`.
    """
    sensors = _sensor_rows(sensor, len(tokens))
    n = len(sensors)
    out = TokenBucketReplay(
        tokens_before=np.empty(n, np.float64),
        tokens=np.empty(n, np.float64),
        admitted=np.empty(n, np.bool_),
        throttle_time_ms=np.zeros(n, np.int64),
        is_state_known=np.empty(n, np.bool_),
    )
    _replay_token_bucket(
        sensors,
        _column(recorded_at_ms, np.int64, n),
        _column(amount, np.float64, n),
        _column(bound, np.float64, n),
        _column(strict, np.int8, n),
        _column(logged_admitted, np.int8, n),
        *(samples, window_ms, tokens, tokens_least, last_update_ms),
        follow_logged,
        _column(np.full(n, np.inf) if doubt_tokens is None else doubt_tokens, np.float64, n),
        _column(np.zeros(n) if bucket_gap is None else bucket_gap, np.int8, n),
        _column(np.zeros(n) if slack_tokens is None else slack_tokens, np.float64, n),
        *out,
    )
    return out


def _sensor_rows(sensor: npt.ArrayLike, n_sensors: int) -> npt.NDArray[Any]:
    rows = _column(sensor, np.int64, np.size(sensor))
    assert not len(rows) or 0 <= rows.min() <= rows.max() < n_sensors, (rows.max(), n_sensors)
    return rows


def _column(values: npt.ArrayLike, kind: npt.DTypeLike, n: int) -> npt.NDArray[Any]:
    """Return ``values`` as the compiled loop takes them: contiguous, of one type, read-only.

    Arrow hands out read-only arrays, numpy writable ones: to numba they are different types, and
    each mixture of them would be compiled anew.
    """
    column = np.ascontiguousarray(values, kind).view()
    column.flags.writeable = False
    assert len(column) == n, (len(column), n)
    return column


@njit(cache=True)
def _divide(dividend: float, divisor: float) -> float:
    if divisor != 0.0:
        return dividend / divisor
    if dividend > 0.0:
        return np.inf
    return -np.inf if dividend < 0.0 else np.nan


@njit(cache=True)
def _round(x: float) -> int:
    if np.isnan(x):
        return 0
    if x >= TWO_TO_63:
        return LONG_MAX
    if x < -TWO_TO_63:
        return LONG_MIN
    floor = np.floor(x)
    return int(floor + 1.0 if x - floor >= 0.5 else floor)


@njit(cache=True)
def _int(x: int) -> int:
    low = x & 0xFFFF_FFFF
    return low - 0x1_0000_0000 if low >= 0x8000_0000 else low


@njit(cache=True)
def _throttle_time_ms(rate: float, bound: float, window_size_ms: int, throttle_max_ms: int) -> int:
    # Over no time at all the rate is infinite or NaN, and times 0 that is NaN, which rounds to 0.
    if rate <= bound or window_size_ms == 0:
        return 0
    delay_ms = _round(_divide(rate - bound, bound) * window_size_ms)
    if throttle_max_ms != NO_THROTTLE_MAX:
        delay_ms = min(delay_ms, throttle_max_ms)
    return _int(delay_ms)


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _window_size(elapsed_ms: int, samples: int, window_ms: int, allows_zero: bool) -> int:
    full_min_ms = (samples - 1) * window_ms
    if elapsed_ms < full_min_ms:
        # The missing windows are added: of the elapsed time only what is no full window counts.
        part_ms = abs(elapsed_ms) % window_ms
        elapsed_ms = full_min_ms + (part_ms if elapsed_ms >= 0 else -part_ms)
    return elapsed_ms if allows_zero else max(elapsed_ms, 1)


@njit(cache=True)
def _attempted_amount(throttle_ms: int, bound: float, window_size_ms: int, held: float) -> float:
    amount = max(bound * (throttle_ms + window_size_ms) / 1000.0 - held, 0.0)
    whole = np.floor(amount + 0.5)
    rate = _divide(held + whole, window_size_ms / 1000.0)
    replayed_ms = _throttle_time_ms(rate, bound, window_size_ms, NO_THROTTLE_MAX)
    return whole if replayed_ms == throttle_ms else amount


@njit(cache=True)
def _replay_rate(
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
        out_oldest_value[i] = value[s, oldest]
        out_purge_margin_ms[i] = margin
        if is_unrecorded:
            _record(s, now, -known, slots, window, start_ms, last_event_ms, value, count, index)


@njit(cache=True)
def _refill(tokens: float, last_ms: int, now_ms: int, bound: float, burst: float) -> float:
    return min(burst, tokens + bound * ((now_ms - last_ms) / 1000.0))


@njit(cache=True)
def _debt_throttle_time_ms(tokens: float, bound: float) -> int:
    return _int(_round(_divide(-tokens, bound) * 1000)) if tokens < 0 else 0


@njit(cache=True)
def _replay_token_bucket(
    sensor: Int64s,
    recorded_at_ms: Int64s,
    amount: Floats,
    bound: Floats,
    strict: Int8s,
    logged_admitted: Int8s,
    samples: Int64s,
    window_ms: Int64s,
    tokens: Floats,
    tokens_least: Floats,
    last_update_ms: Int64s,
    follow_logged: bool,
    doubt_tokens: Floats,
    bucket_gap: Int8s,
    slack_tokens: Floats,
    out_tokens_before: Floats,
    out_tokens: Floats,
    out_admitted: Bools,
    out_throttle_time_ms: Int64s,
    out_is_state_known: Bools,
) -> None:
    for i in range(len(sensor)):
        s = sensor[i]
        now = recorded_at_ms[i]
        in_force = UNLIMITED if np.isnan(bound[i]) else bound[i]
        burst = samples[s] * (window_ms[s] / 1000.0) * in_force
        most = _refill(tokens[s], last_update_ms[s], now, in_force, burst)
        least = _refill(tokens_least[s], last_update_ms[s], now, in_force, burst)
        if bucket_gap[i] != SAME_BUCKET:
            least = -np.inf
        if bucket_gap[i] == OTHER_BUCKET:
            most = burst
        is_known = least >= 0.0 or most < 0.0
        is_strict = strict[i] != 0
        admitted = most >= 0.0 or not is_strict
        out_tokens_before[i] = most
        out_admitted[i] = admitted
        out_is_state_known[i] = is_known
        if is_strict:
            out_throttle_time_ms[i] = _debt_throttle_time_ms(most, in_force)
        if is_strict and follow_logged:
            admitted = logged_admitted[i] != 0
            if admitted and not is_known:
                least = max(least, 0.0 - slack_tokens[i])
            elif not is_known:
                most = min(most, SMALLEST_DEBT + slack_tokens[i])
            elif admitted and most < -doubt_tokens[i]:
                admitted = False
                if most != least:  # of what was learned, only bounds are known
                    least = -np.inf
        if admitted and np.isnan(amount[i]):
            least = -np.inf
        elif admitted:
            most = min(burst, most - amount[i])
            least = min(burst, least - amount[i])
        if not is_strict:
            out_throttle_time_ms[i] = _debt_throttle_time_ms(most, in_force)
        tokens[s] = most
        tokens_least[s] = least
        last_update_ms[s] = now
        out_tokens[i] = most if most == least else np.nan
