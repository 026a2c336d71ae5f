"""How long a broker throttles a client whose windowed rate is above its bound."""

from __future__ import annotations

import math

from spark_jobs.quota.java_math import LONG_MAX, java_divide, java_int, java_round

UNLIMITED = float(LONG_MAX)
"""The bound of a sensor that no quota matches: it is still recorded and measured.

Kafka: ``ClientQuotaManager.quotaLimit`` gives ``Long.MaxValue``.
"""
NO_THROTTLE_MAX = -1
"""In a column of the most that a throttle may be: no such limit."""


def throttle_max(throttle_max_ms: int | None) -> int:
    """Return the longest throttle (ms) as columns have it, NO_THROTTLE_MAX where there is none."""
    return NO_THROTTLE_MAX if throttle_max_ms is None else throttle_max_ms


def bound_in_force(bound: float) -> float:
    """Return the bound that the broker compares with: ``UNLIMITED`` where ``bound`` is NaN.

    >>> bound_in_force(1024.0), bound_in_force(float("nan"))
    (1024.0, 9.223372036854776e+18)
    """
    return UNLIMITED if math.isnan(bound) else bound


def is_acceptable(rate: float, bound: float) -> bool:
    """Return True if ``rate`` violates nothing; a rate of NaN does. Kafka: ``Quota.acceptable``.

    >>> is_acceptable(10.0, 10.0), is_acceptable(10.1, 10.0), is_acceptable(float("nan"), 10.0)
    (True, False, False)
    """
    return rate <= bound


def throttle_time_ms(
    rate: float, bound: float, window_size_ms: int, throttle_max_ms: int | None = None
) -> int:
    """Return the delay that brings ``rate`` back to ``bound`` if nothing more is recorded.

    ``window_size_ms`` is what the rate was divided by (``Rate.windowSize``), not
    ``samples * window``: near a sample's edge the two differ by up to one window, and the broker
    uses the former. ``throttle_max_ms`` caps it: one window for ``request_percentage``.

    Kafka: ``QuotaUtils.throttleTime`` and ``boundedThrottleTime``; the cap is
    ``ClientRequestQuotaManager.maxThrottleTimeMs``; cast by ``recordAndGetThrottleTimeMs``.

    >>> throttle_time_ms(rate=1_100.0, bound=1_000.0, window_size_ms=10_000)
    1000
    >>> throttle_time_ms(rate=3.0, bound=1.0, window_size_ms=10_500, throttle_max_ms=1_000)
    1000
    """
    delay_ms = java_round(java_divide(rate - bound, bound) * window_size_ms)
    if throttle_max_ms is not None:
        delay_ms = min(delay_ms, throttle_max_ms)
    return java_int(delay_ms)
