"""Every number of a rate's arithmetic, and that together they are the broker's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.explain.decision_steps import rate_steps
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.quota.rate_profile import RateProfile

AMOUNTS = st.lists(
    st.tuples(st.integers(0, 4_000), st.floats(0, 90_000).map(round)), min_size=1, max_size=40
)


@given(AMOUNTS, st.sampled_from(RateProfile), st.floats(1, 50_000), st.none() | st.just(1_000))
def test_the_steps_lead_to_what_the_broker_decides(
    amounts: list[tuple[int, int]], profile: RateProfile, bound: float, cap_ms: int | None
) -> None:
    rate, now_ms = Rate(profile), 1_000_000
    for after_ms, amount in amounts:
        now_ms += after_ms
        steps = rate_steps(rate, amount, bound, now_ms, cap_ms)
        made = decide(rate, amount, bound, now_ms, throttle_max_ms=cap_ms)
        assert steps.throttle_time_ms == made.throttle_time_ms
        assert steps.window_size_ms == made.window_size_ms == steps.elapsed_ms + steps.added_ms
        assert math.fsum(sample.value for sample in steps.samples) == pytest.approx(steps.total)
        assert steps.rate == made.rate
        assert [s.start_ms for s in steps.samples] == sorted(s.start_ms for s in steps.samples)
        assert sum(sample.is_oldest for sample in steps.samples) == 1
        assert sum(sample.is_current for sample in steps.samples) == 1


@given(AMOUNTS, st.floats(1, 50_000))
def test_without_the_excess_nothing_is_throttled(
    amounts: list[tuple[int, int]], bound: float
) -> None:
    rate, now_ms = Rate(RateProfile.RATE_3_8), 1_000_000
    for after_ms, amount in amounts:
        now_ms += after_ms
        steps = rate_steps(rate, amount, bound, now_ms)
        assert (steps.excess > 0) == (not steps.is_acceptable)
        less = rate_steps(rate, amount - math.ceil(steps.excess), bound, now_ms)
        assert less.throttle_time_ms == 0
        decide(rate, amount, bound, now_ms)


def test_the_state_before_stays_as_it_is() -> None:
    rate = Rate(RateProfile.RATE_3_8)
    decide(rate, 5_000, 1_000, 0)
    held = [(s.start_ms, s.value) for s in rate.slots]
    rate_steps(rate, 7_000, 1_000, 2_000)
    assert [(s.start_ms, s.value) for s in rate.slots] == held


def test_windows_that_are_not_reached_back_to_are_counted_as_empty() -> None:
    steps = rate_steps(Rate(RateProfile.RATE_3_8), 15_000, 1_000, 50_000)
    assert (steps.elapsed_ms, steps.added_ms, steps.full_windows_min) == (0, 10_000, 10)
    assert (steps.rate, steps.excess, steps.throttle_time_ms) == (1_500, 5_000, 5_000)


def test_a_request_quota_is_capped() -> None:
    steps = rate_steps(Rate(RateProfile.RATE_3_8), 500, 1, 50_000, throttle_max_ms=1_000)
    assert (steps.uncapped_ms, steps.throttle_time_ms) == (490_000, 1_000)
