"""Rules of one number each as compiled functions, which the kernels inline.

Each gives the bits of its namesake in plain Python (``java_math``, ``throttle_time``,
``attempted_amount``, ``Rate.window_size_ms``). None is kept on disk by itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from spark_jobs.quota.java_math import LONG_MAX, LONG_MIN
from spark_jobs.quota.throttle_time import NO_THROTTLE_MAX

TWO_TO_63 = 2.0**63


@njit()
def divide(dividend: float, divisor: float) -> float:
    """Return the IEEE quotient, also by zero."""
    if divisor != 0.0:
        return dividend / divisor
    if dividend == 0.0 or np.isnan(dividend):
        return np.nan
    return np.inf if (dividend > 0.0) == (np.copysign(1.0, divisor) > 0.0) else -np.inf


@njit()
def rounded(x: float) -> int:
    """Return the nearest long, halves upwards, clamped, NaN as 0. Java: ``Math.round``."""
    if np.isnan(x):
        return 0
    if x >= TWO_TO_63:
        return LONG_MAX
    if x < -TWO_TO_63:
        return LONG_MIN
    floor = np.floor(x)
    return int(floor + 1.0 if x - floor >= 0.5 else floor)


@njit()
def low_int(x: int) -> int:
    """Return the low 32 bits as a signed int. Java: a cast to ``int``."""
    low = x & 0xFFFF_FFFF
    return low - 0x1_0000_0000 if low >= 0x8000_0000 else low


@njit()
def throttle_time_ms(rate: float, bound: float, window_size_ms: int, throttle_max_ms: int) -> int:
    """Return the throttle, 0 where the rate is acceptable, capped unless NO_THROTTLE_MAX."""
    # Over no time at all the rate is infinite or NaN, and times 0 that is NaN, which rounds to 0.
    if rate <= bound or window_size_ms == 0:
        return 0
    delay_ms = rounded(divide(rate - bound, bound) * window_size_ms)
    if throttle_max_ms != NO_THROTTLE_MAX:
        delay_ms = min(delay_ms, throttle_max_ms)
    return low_int(delay_ms)


@njit()
def window_size(elapsed_ms: int, full_min_ms: int, window_ms: int, allows_zero: bool) -> int:
    """Return the milliseconds that a rate is divided by, so long after its oldest sample began.

    ``full_min_ms`` is how many of them are full windows at least.
    """
    if elapsed_ms < full_min_ms:
        # The missing windows are added: of the elapsed time only what is no full window counts.
        part_ms = abs(elapsed_ms) % window_ms
        elapsed_ms = full_min_ms + (part_ms if elapsed_ms >= 0 else -part_ms)
    return elapsed_ms if allows_zero else max(elapsed_ms, 1)


@njit()
def attempted_amount(throttle_ms: int, bound: float, window_size_ms: int, held: float) -> float:
    """Return the amount that, recorded on top of ``held``, is throttled for ``throttle_ms``."""
    amount = max(bound * (throttle_ms + window_size_ms) / 1000.0 - held, 0.0)
    whole = np.floor(amount + 0.5)
    rate = divide(held + whole, window_size_ms / 1000.0)
    replayed_ms = throttle_time_ms(rate, bound, window_size_ms, NO_THROTTLE_MAX)
    return whole if replayed_ms == throttle_ms else amount
