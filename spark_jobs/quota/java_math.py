"""Arithmetic of the Java language where Python's own differs."""

from __future__ import annotations

import math

INT_MAX = 2**31 - 1
INT_MIN = -(2**31)
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


def java_round(x: float) -> int:
    """Return the long nearest to ``x``, halves upwards, clamped to the range of a long, NaN as 0.

    Neither ``round`` (halves to even) nor ``floor(x + 0.5)`` (the addition rounds) does this.

    Java: ``Math.round(double)``.

    >>> java_round(0.5), java_round(-0.5), java_round(2.5), java_round(0.49999999999999994)
    (1, 0, 3, 0)
    """
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return LONG_MAX if x > 0 else LONG_MIN
    floor = math.floor(x)
    return min(max(floor + (x - floor >= 0.5), LONG_MIN), LONG_MAX)


def java_int(x: int) -> int:
    """Return the low 32 bits of ``x`` as a signed int, as a cast does.

    A throttle of more than 24.8 days turns negative by it, and is then none.

    Java: ``(int) long``; Scala: ``Long.toInt``, as in ``ClientQuotaManager``.

    >>> java_int(2_147_483_647), java_int(2_147_483_648)
    (2147483647, -2147483648)
    """
    low = x & 0xFFFF_FFFF
    return low - 2**32 if low >= 2**31 else low


def java_divide(dividend: float, divisor: float) -> float:
    """Return the IEEE quotient: a division by zero is an infinity or NaN, not an error.

    >>> java_divide(1.0, 0.0), java_divide(-1.0, 0.0), java_divide(0.0, 0.0)
    (inf, -inf, nan)
    """
    if divisor != 0.0:
        return dividend / divisor
    if dividend == 0.0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def java_long_divide(dividend: int, divisor: int) -> int:
    """Return the quotient cut towards zero, where ``//`` goes down.

    >>> java_long_divide(-1_500, 1_000), -1_500 // 1_000
    (-1, -2)
    """
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
