from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.quota.java_math import java_divide, java_int, java_long_divide, java_round
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.throttle_time import (
    UNLIMITED,
    bound_in_force,
    is_acceptable,
    throttle_time_ms,
)

T = 1_700_000_000_000
THROTTLE_MAX_MS = 500


def window_size_ms(samples: int) -> int:
    """Return the window of a rate that has recorded nothing: all windows but the current one."""
    return Rate(RateProfile.RATE_3_8, samples).window_size_ms(T)


# Ports of QuotaUtilsTest (org.apache.kafka.server.quota).


@pytest.mark.parametrize("samples", [10, 11])
def test_throttle_time_observed_rate_equals_quota(samples: int) -> None:
    assert throttle_time_ms(16.5, 16.5, window_size_ms(samples)) == 0


@pytest.mark.parametrize("samples", [10, 11])
def test_throttle_time_observed_rate_below_quota(samples: int) -> None:
    assert throttle_time_ms(16.5, 20.4, window_size_ms(samples)) < 0


def test_throttle_time_observed_rate_above_quota() -> None:
    assert throttle_time_ms(100.0, 50.0, window_size_ms(3)) == 2_000


@pytest.mark.parametrize("samples", [10, 11])
def test_bounded_throttle_time_observed_rate_equals_quota(samples: int) -> None:
    assert throttle_time_ms(18.2, 18.2, window_size_ms(samples), THROTTLE_MAX_MS) == 0


@pytest.mark.parametrize("samples", [10, 11])
def test_bounded_throttle_time_observed_rate_below_quota(samples: int) -> None:
    assert throttle_time_ms(16.5, 22.4, window_size_ms(samples), THROTTLE_MAX_MS) < 0


def test_bounded_throttle_time_observed_rate_above_quota_below_limit() -> None:
    assert throttle_time_ms(55.0, 50.0, window_size_ms(2), THROTTLE_MAX_MS) == 100


def test_bounded_throttle_time_observed_rate_above_quota_above_limit() -> None:
    assert throttle_time_ms(100.0, 50.0, window_size_ms(10), THROTTLE_MAX_MS) == THROTTLE_MAX_MS


# The rules, one by one.


def test_a_rate_at_its_bound_is_acceptable_and_no_number_is_not() -> None:
    assert is_acceptable(500.0, 500.0)
    assert not is_acceptable(math.nextafter(500.0, 501.0), 500.0)
    assert not is_acceptable(math.nan, UNLIMITED)


def test_no_bound_in_force_is_the_largest_long() -> None:
    assert bound_in_force(math.nan) == 2.0**63
    assert bound_in_force(0.0) == 0.0


def test_half_a_millisecond_is_throttled_for_one() -> None:
    assert throttle_time_ms(1_000.05, 1_000.0, 10_000) in (0, 1)
    assert throttle_time_ms(1.5, 1.0, 1) == 1
    assert throttle_time_ms(1.25, 1.0, 1) == 0


@pytest.mark.parametrize(
    ("rate", "throttle_ms"),
    [(2_147_484.647, 2_147_483_647), (2_147_484.648, -2_147_483_648), (4_294_968.296, 0)],
)
def test_a_throttle_of_more_than_24_days_is_cut_to_32_bits(rate: float, throttle_ms: int) -> None:
    assert throttle_time_ms(rate, 1.0, 1_000) == throttle_ms


def test_a_bound_of_zero_throttles_for_the_largest_long_which_as_an_int_is_minus_one() -> None:
    assert throttle_time_ms(1.0, 0.0, 10_000) == -1
    assert throttle_time_ms(1.0, 0.0, 10_000, throttle_max_ms=1_000) == 1_000


def test_a_window_of_nothing_throttles_for_nothing() -> None:
    assert throttle_time_ms(math.inf, 1.0, 0) == 0
    assert throttle_time_ms(math.nan, 1.0, 0) == 0


# java_math: what Math.round, casts and divisions do.


@pytest.mark.parametrize(
    ("x", "rounded"),
    [
        (0.49999999999999994, 0),
        (0.5, 1),
        (2.5, 3),
        (-0.5, 0),
        (-1.5, -1),
        (-2.5000000000000004, -3),
        (4503599627370497.0, 4503599627370497),
        (1e300, 2**63 - 1),
        (-1e300, -(2**63)),
        (math.inf, 2**63 - 1),
        (-math.inf, -(2**63)),
        (math.nan, 0),
    ],
)
def test_java_round_is_math_round(x: float, rounded: int) -> None:
    assert java_round(x) == rounded


@given(st.floats(-1e15, 1e15))
def test_java_round_is_the_nearest_whole_number_halves_upwards(x: float) -> None:
    distance = java_round(x) - x
    assert -0.5 < distance <= 0.5


@given(st.integers(-(2**63), 2**63 - 1))
def test_java_int_keeps_the_low_32_bits(x: int) -> None:
    assert (java_int(x) - x) % 2**32 == 0
    assert -(2**31) <= java_int(x) < 2**31


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_java_divide_is_pythons_division_wherever_python_divides(x: float, y: float) -> None:
    assume(y != 0.0)
    quotient = java_divide(x, y)
    assert quotient == x / y or (math.isnan(quotient) and math.isinf(x) and math.isinf(y))


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [(1.0, 0.0, math.inf), (-1.0, 0.0, -math.inf), (1.0, -0.0, -math.inf)],
)
def test_java_divide_by_zero_is_infinite(dividend: float, divisor: float, quotient: float) -> None:
    assert java_divide(dividend, divisor) == quotient
    assert math.isnan(java_divide(0.0, divisor))


@given(st.integers(-(2**62), 2**62), st.integers(1, 10**6))
def test_java_long_divide_cuts_towards_zero(dividend: int, divisor: int) -> None:
    quotient = java_long_divide(dividend, divisor)
    assert quotient == -java_long_divide(-dividend, divisor)
    assert abs(quotient) * divisor <= abs(dividend) < (abs(quotient) + 1) * divisor
