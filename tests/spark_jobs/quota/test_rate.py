from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate, Sample
from spark_jobs.quota.rate_profile import RateProfile
from tests.spark_jobs.quota.amounts import step_times

RATE_0_9, RATE_3_3, RATE_3_8 = RateProfile.RATE_0_9, RateProfile.RATE_3_3, RateProfile.RATE_3_8
T = 1_700_000_000_000
each_profile = pytest.mark.parametrize("profile", list(RateProfile))


# Ports of RateTest and SampledStatTest (org.apache.kafka.common.metrics.stats).


@each_profile
@pytest.mark.parametrize(("samples", "window_s"), [(1, 1), (1, 11), (11, 1), (11, 11)])
def test_rate_with_no_prior_available_samples(
    profile: RateProfile, samples: int, window_s: int
) -> None:
    rate = Rate(profile, samples, window_s * 1000)
    rate.record(50.0, T)
    measured_at = T + window_s * 1000 - 1
    assumed_window_s = (window_s * 1000 - 1) / 1000 + (samples - 1) * window_s
    assert rate.measure(measured_at) == pytest.approx(50.0 / assumed_window_s, abs=1e-6)


def rates_after_the_first_window(profile: RateProfile) -> list[float]:
    rate, now = Rate(profile, samples=2), T
    steps_ms = (0, 99, *[100] * 9)
    for step_ms in steps_ms:
        now += step_ms
        rate.record(1.0, now)
    now += 101
    rates = []
    for step_ms in steps_ms:
        now += step_ms
        rate.record(1.0, now)
        rates += [rate.measure(now), rate.measure(now)]
    return rates


def test_rate_is_consistent_after_the_first_window() -> None:
    rates = rates_after_the_first_window(RATE_3_8)
    assert all(10 <= rate <= 11 for rate in rates)
    assert rates[::2] == rates[1::2]


def completed_sample(rate: Rate, now: int) -> int:
    rate.record(1.0, now)
    rate.record(1.0, now + rate.window_ms - 1)
    return now + rate.window_ms


@each_profile
def test_sample_is_purged_if_doesnt_overlap(profile: RateProfile) -> None:
    rate = Rate(profile, samples=2)
    now = completed_sample(rate, T)
    assert rate.total(now + 2500) == 0.0


def test_sample_is_kept_if_overlaps() -> None:
    rate = Rate(RATE_3_8, samples=2)
    now = completed_sample(rate, T)
    assert rate.total(now + 1500) == 2.0


def test_sample_is_kept_if_overlaps_and_extra() -> None:
    rate = Rate(RATE_3_8, samples=2)
    now = completed_sample(rate, T)
    now = completed_sample(rate, now + 100)
    rate.record(1.0, now + 100)
    assert rate.total(now + 100) == 5.0
    assert len(rate.slots) == 3


# The rules, one by one.


@pytest.mark.parametrize("profile", [RATE_0_9, RATE_3_3])
def test_before_3_8_a_sample_is_purged_by_its_start_whatever_came_later(
    profile: RateProfile,
) -> None:
    rate = Rate(profile, samples=2)
    now = completed_sample(rate, T)
    assert rate.total(now + 1500) == 0.0
    rates = rates_after_the_first_window(profile)
    assert min(rates) < 10


@pytest.mark.parametrize("profile", [RATE_0_9, RATE_3_3])
def test_before_3_8_an_amount_inside_the_window_can_be_lost_to_a_recycled_slot(
    profile: RateProfile,
) -> None:
    rate = Rate(profile, samples=1)
    rate.record(1.0, T)
    rate.record(1.0, T + 999)
    rate.record(1.0, T + 1000)
    assert rate.total(T + 1000) == 1.0


@each_profile
def test_a_sample_starts_at_its_first_event_and_not_on_a_grid(profile: RateProfile) -> None:
    rate = Rate(profile)
    for now in (T, T + 999, T + 1000, T + 1700, T + 1999, T + 2700):
        rate.record(1.0, now)
    assert [(s.start_ms - T, s.value) for s in rate.slots] == [(0, 2.0), (1000, 3.0), (2700, 1.0)]


@each_profile
@pytest.mark.parametrize(("after_ms", "kept"), [(10_999, True), (11_000, False), (11_001, False)])
def test_a_sample_is_obsolete_exactly_when_samples_times_window_have_passed(
    profile: RateProfile, after_ms: int, kept: bool
) -> None:
    rate = Rate(profile)
    rate.record(7.0, T)
    assert rate.total(T + after_ms) == (7.0 if kept else 0.0)


@each_profile
def test_a_purged_sample_starts_again_at_the_measurement(profile: RateProfile) -> None:
    rate = Rate(profile)
    rate.record(7.0, T)
    rate.measure(T + 60_500)
    assert rate.slots == [Sample(T + 60_500, T + 60_500, 0.0)]
    rate.record(1.0, T + 61_000)
    assert rate.slots == [Sample(T + 60_500, T + 61_000, 1.0)]


@each_profile
def test_recording_does_not_purge(profile: RateProfile) -> None:
    rate = Rate(profile)
    rate.record(7.0, T)
    rate.record(1.0, T + 60_000)
    assert [s.value for s in rate.slots] == [7.0, 1.0]


@each_profile
@pytest.mark.parametrize(
    ("elapsed_ms", "window_size_ms"),
    [(0, 10_000), (999, 10_999), (1_000, 10_000), (9_999, 10_999), (10_000, 10_000)],
)
def test_missing_windows_are_assumed_to_have_been_empty(
    profile: RateProfile, elapsed_ms: int, window_size_ms: int
) -> None:
    rate = Rate(profile)
    rate.record(7.0, T)
    assert rate.window_size_ms(T + elapsed_ms) == window_size_ms


def test_from_3_8_a_long_sample_stretches_the_window() -> None:
    rate = Rate(RATE_3_8, samples=2)
    rate.record(1.0, T)
    rate.record(1.0, T + 900)
    assert rate.window_size_ms(T + 2_800) == 2_800


def test_one_sample_at_one_moment_is_divided_by_nothing_before_3_3_and_by_a_millisecond_since() -> (
    None
):
    rates = {}
    for profile in RateProfile:
        rate = Rate(profile, samples=1)
        rate.record(5.0, T)
        rates[profile] = rate.measure(T)
    assert rates == {RATE_0_9: math.inf, RATE_3_3: 5_000.0, RATE_3_8: 5_000.0}
    assert math.isnan(Rate(RATE_0_9, samples=1).measure(T))


def test_the_sum_is_taken_in_the_order_of_the_slots_not_of_time() -> None:
    rate = Rate(RATE_3_3, samples=3)
    for now, amount in ((T, 1e16), (T + 1000, 1.0), (T + 2000, 1.0), (T + 3000, 1e16)):
        rate.record(amount, now)
    # The newest sample lies in slot 0, so the ones are added to it one at a time, and lost.
    assert rate.index == 0
    assert rate.total(T + 3000) == (1e16 + 1.0) + 1.0 != 1e16 + (1.0 + 1.0)


@each_profile
@given(steps=step_times(1000), data=st.data())
def test_measuring_twice_at_one_time_is_measuring_once(
    profile: RateProfile, steps: list[int], data: st.DataObject
) -> None:
    rate, now = Rate(profile, samples=data.draw(st.integers(2, 4))), T
    for step_ms in steps:
        now += step_ms
        rate.record(float(step_ms % 97), now)
        assert rate.measure(now) == rate.measure(now)


@given(steps=step_times(1000), samples=st.integers(1, 4))
def test_from_3_8_nothing_inside_the_monitored_window_is_lost(
    steps: list[int], samples: int
) -> None:
    rate, now = Rate(RATE_3_8, samples), T
    events: list[tuple[int, int]] = []
    for number, step_ms in enumerate(steps, start=1):
        now += step_ms
        rate.record(float(number), now)
        events.append((now, number))
        inside = sum(amount for at_ms, amount in events if now - at_ms < samples * 1000)
        assert rate.total(now) >= inside
    assert len(rate.slots) <= samples + 1
