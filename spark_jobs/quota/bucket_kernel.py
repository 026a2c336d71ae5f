"""The token buckets of many sensors as one compiled loop over arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.quota.compiled_rules import divide, low_int, rounded
from spark_jobs.quota.controller_mutation import SMALLEST_DEBT
from spark_jobs.quota.states import Floats, Int8s, Int64s
from spark_jobs.quota.throttle_time import UNLIMITED

# Of a mutation: the bucket is the sensor's own; it may have been charged for more than was logged
# before; another bucket decided, of which nothing is known; another sensor's did, and this one was
# not charged.
SAME_BUCKET, CHARGES_MISSING, OTHER_BUCKET, OTHER_SENSOR = range(4)

Bools = npt.NDArray[np.bool_]


@njit()
def _refill(tokens: float, last_ms: int, now_ms: int, bound: float, burst: float) -> float:
    return min(burst, tokens + bound * ((now_ms - last_ms) / 1000.0))


@njit()
def _debt_throttle_time_ms(tokens: float, bound: float) -> int:
    # Cut to 32 bits, and what comes out negative by that is none.
    return max(0, low_int(rounded(divide(-tokens, bound) * 1000))) if tokens < 0 else 0


@njit(cache=True)
def replay_mutations(
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
    told_least: Floats,
    told_most: Floats,
    out_tokens_before: Floats,
    out_tokens: Floats,
    out_admitted: Bools,
    out_throttle_time_ms: Int64s,
    out_is_state_known: Bools,
) -> None:
    """Fill ``out_...`` as :func:`spark_jobs.quota.kernels.replay_token_bucket` says."""
    for i in range(len(sensor)):
        if bucket_gap[i] == OTHER_SENSOR:
            out_tokens_before[i] = out_tokens[i] = np.nan
            out_admitted[i], out_throttle_time_ms[i] = True, 0
            out_is_state_known[i] = False
            continue
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
            if admitted and most < -doubt_tokens[i]:
                admitted = False
                # It may have been spent all the same; of what was learned, only bounds are known.
                is_bounded = most == least and not np.isnan(amount[i])
                least = least - amount[i] if is_bounded else -np.inf
            elif admitted and not is_known:
                least = max(least, 0.0 - slack_tokens[i])
            elif not is_known:
                most = min(most, SMALLEST_DEBT + slack_tokens[i])
            if logged_admitted[i] == 0 and most != least and not np.isnan(told_most[i]):
                is_apart = told_least[i] > most or told_most[i] < least
                least = told_least[i] if is_apart else max(least, told_least[i])
                most = told_most[i] if is_apart else min(most, told_most[i])
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
