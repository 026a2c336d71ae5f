from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.quota.java_math import LONG_MAX
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import (
    NOT_MEASURED,
    RECORD,
    RECORD_AND_UNRECORD,
    RECORD_ONLY,
    attempted_amount,
    decide,
)
from spark_jobs.quota.rate_profile import RateProfile

T = 1_700_000_000_000
NANOS_TO_PERCENTAGE_PER_SECOND = 100.0 / 1e9
each_profile = pytest.mark.parametrize("profile", list(RateProfile))


def throttled(rate: Rate, amount: float, bound: float, now: int, most_ms: int | None = None) -> int:
    return decide(rate, amount, bound, now, throttle_max_ms=most_ms).throttle_time_ms


# Ports of ClientQuotaManagerTest and ClientRequestQuotaManagerTest.


@each_profile
def test_quota_violation(profile: RateProfile) -> None:
    """``ClientQuotaManagerTest.testQuotaViolation``: 500 bytes/s, a spike in an eleventh sample."""
    rate, now = Rate(profile), T
    for _ in range(10):
        assert throttled(rate, 400.0, 500.0, now) == 0
        now += 1_000
    now += 500
    # 400 * 10 + 2300 = 6300 bytes in 10.5 s are 600 a second: (600 - 500) / 500 * 10.5 s.
    assert throttled(rate, 2_300.0, 500.0, now) == 2_100
    now += 2_100
    for _ in range(10):
        throttled(rate, 400.0, 500.0, now)
        now += 1_000
    assert throttled(rate, 0.0, 500.0, now) == 0


def millis_to_percent(millis: float) -> float:
    return millis * 1000 * 1000 * NANOS_TO_PERCENTAGE_PER_SECOND


@each_profile
def test_request_percentage_quota_violation(profile: RateProfile) -> None:
    """``ClientRequestQuotaManagerTest``: 1 % of a thread, throttled for one window at most."""
    rate, now, window_ms = Rate(profile), T, 1_000
    for _ in range(10):
        assert throttled(rate, millis_to_percent(4), 1.0, now, window_ms) == 0
        now += 1_000
    now += 500
    assert throttled(rate, millis_to_percent(67.1), 1.0, now, window_ms) == 210
    now += 210
    for _ in range(11):
        throttled(rate, millis_to_percent(4), 1.0, now, window_ms)
        now += 1_000
    assert throttled(rate, 0.0, 1.0, now, window_ms) == 0
    assert throttled(rate, millis_to_percent(500), 1.0, now, window_ms) == 1_000
    for _ in range(10):
        now += 1_000
        assert throttled(rate, 0.0, 1.0, now, window_ms) == 1_000
    now += 1_000
    assert throttled(rate, 0.0, 1.0, now, window_ms) == 0


@each_profile
def test_user_quota_parsing(profile: RateProfile) -> None:
    """``ClientQuotaManagerTest.testQuotaParsing``: a changed bound judges what is already there."""
    rate = Rate(profile)
    assert throttled(rate, 2_500.0 * 11, 2_000.0, T) > 0
    assert throttled(rate, 0.0, 3_000.0, T) == 0
    assert throttled(rate, 0.0, 500.0, T) > 0
    assert throttled(rate, 1_000.0 * 11, 4_000.0, T) == 0


@each_profile
def test_set_and_remove_user_quota(profile: RateProfile) -> None:
    """``ClientQuotaManagerTest.testSetAndRemoveUserQuota``: no bound throttles nobody."""
    rate = Rate(profile)
    assert throttled(rate, 1_000.0 * 11, 10.0, T) > 0
    assert throttled(rate, 1_000.0 * 11, math.nan, T) == 0


# The rules, one by one.


def test_the_throttled_amount_stays_recorded() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    assert throttled(rate, 15_000.0, 1_000.0, T) == 5_000
    assert throttled(rate, 0.0, 1_000.0, T) == 5_000
    assert throttled(rate, 0.0, 1_000.0, T + 5_000) == 5_000


def test_without_a_bound_in_force_the_amount_is_recorded_measured_and_purged_all_the_same() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decision = decide(rate, 15_000.0, math.nan, T)
    assert (decision.rate, decision.window_size_ms, decision.throttle_time_ms) == (1500, 10_000, 0)
    assert throttled(rate, 0.0, 1_000.0, T) == 5_000
    decide(rate, 0.0, math.nan, T + 60_000)
    assert all(sample.start_ms == T + 60_000 for sample in rate.slots)


def test_network_thread_time_is_recorded_and_neither_measured_nor_purged() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decide(rate, 3.0, 1.0, T)
    decision = decide(rate, 4.0, 1.0, T + 60_000, RECORD_ONLY)
    assert math.isnan(decision.rate)
    assert math.isnan(decision.oldest_value)
    assert (decision.window_size_ms, decision.throttle_time_ms) == (NOT_MEASURED, 0)
    assert decision.purge_margin_ms == LONG_MAX
    assert [sample.value for sample in rate.slots] == [3.0, 4.0]


def test_a_throttled_fetch_is_taken_back_and_one_let_through_is_not() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decision = decide(rate, 15_000.0, 1_000.0, T, RECORD_AND_UNRECORD, 5_000)
    assert (decision.rate, decision.throttle_time_ms) == (1_500.0, 5_000)
    assert rate.total(T) == 0.0
    decide(rate, 9_000.0, 1_000.0, T, RECORD_AND_UNRECORD, 0)
    assert rate.total(T) == 9_000.0


def test_what_is_taken_back_follows_the_log_even_where_the_rule_says_otherwise() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decision = decide(rate, 1.0, 1_000.0, T, RECORD_AND_UNRECORD, logged_throttle_time_ms=7)
    assert decision.throttle_time_ms == 0
    assert rate.total(T) == 0.0


def test_the_size_of_a_throttled_fetch_is_the_one_that_its_throttle_time_tells() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decide(rate, 9_000.0, 1_000.0, T)
    decision = decide(rate, math.nan, 1_000.0, T, RECORD_AND_UNRECORD, 2_000)
    assert (decision.amount, decision.throttle_time_ms) == (3_000.0, 2_000)
    assert rate.total(T) == 9_000.0


def test_an_unlogged_amount_that_cannot_be_recovered_still_opens_its_sample() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    assert math.isnan(decide(rate, math.nan, 1_000.0, T, RECORD).amount)
    decide(rate, math.nan, math.nan, T + 1_000, RECORD_AND_UNRECORD, 500)
    assert [(s.start_ms - T, s.value) for s in rate.slots] == [(0, 0.0), (1_000, 0.0)]


def test_the_purge_margin_is_how_near_a_sample_was_to_staying_or_going() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    assert decide(rate, 1.0, 1_000.0, T).purge_margin_ms == 11_000
    decision = decide(rate, 1.0, 1_000.0, T + 10_997)
    assert (decision.purge_margin_ms, decision.oldest_value) == (3, 1.0)
    assert decide(rate, 1.0, 1_000.0, T + 11_004).purge_margin_ms == 4


@pytest.mark.parametrize("profile", list(RateProfile))
def test_what_may_leave_first_is_of_the_sample_with_amounts_not_of_one_emptied_then(
    profile: RateProfile,
) -> None:
    rate = Rate(profile, samples=3)
    for at_ms in range(0, 5_000, 1_000):
        decide(rate, 1.0, 1_000.0, T + at_ms)
    # After a silence all samples begin anew at once, and one of them holds what came then.
    assert decide(rate, 7.0, 1_000.0, T + 60_000).oldest_value == 7.0
    assert decide(rate, 2.0, 1_000.0, T + 61_500).oldest_value == 7.0
    assert decide(rate, 2.0, 1_000.0, T + 62_600).oldest_value == 7.0


@given(
    held=st.integers(0, 10**7),
    size=st.integers(0, 10**8),
    bound=st.sampled_from([100.0, 999.5, 1_000.0, 300_000.0, 1e7]),
    window_size_ms=st.integers(10_000, 11_999),
)
def test_an_attempted_amount_is_known_to_a_millisecond_of_its_bound(
    held: int, size: int, bound: float, window_size_ms: int
) -> None:
    rate = Rate(RateProfile.RATE_3_8)
    rate.record(float(held), T)
    logged = decide(rate, float(size), bound, T + window_size_ms - 10_000)
    assume(logged.throttle_time_ms > 0)
    recovered = attempted_amount(logged.throttle_time_ms, bound, logged.window_size_ms, float(held))
    assert recovered == pytest.approx(size, abs=max(bound / 1_000, 1.0), rel=1e-12)
