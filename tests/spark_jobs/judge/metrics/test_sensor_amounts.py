from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.judge.metrics.comparison import Expectation, span_around, throttle_history
from spark_jobs.judge.metrics.sensor_amounts import (
    CarriedSamples,
    SampleRule,
    SensorAmounts,
    measured_at,
)
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile

T = 1_795_000_000_000
RULE = SampleRule(RateProfile.RATE_3_8, 11, 1000)
NOBODY = np.zeros(0, np.int64)


def history(*rows: tuple[int, float], rule: SampleRule = RULE, epoch: int = 0) -> SensorAmounts:
    n = len(rows)
    return SensorAmounts(
        rule=rule,
        at_ms=np.array([T + at for at, _ in rows], np.int64),
        amount=np.array([amount for _, amount in rows], np.float64),
        bound=np.full(n, np.nan),
        is_unrecorded=np.zeros(n, bool),
        throttle_ms=np.zeros(n, np.int64),
        epoch=np.full(n, epoch, np.int64),
    )


def rate_at(given: SensorAmounts, at_ms: int, read_ms: np.ndarray = NOBODY) -> float:
    return float(measured_at(given, np.array([T + at_ms]), read_ms).rate[0])


@settings(deadline=None)  # the first call compiles the kernel
@given(
    profile=st.sampled_from(RateProfile),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["amount", "look", "read"]), st.integers(0, 4000), st.integers(1, 9999)
        ),
        max_size=60,
    ),
)
def test_a_moment_finds_what_kafkas_rate_measures_then(
    profile: RateProfile, steps: list[tuple[str, int, int]]
) -> None:
    """Looking is no reading: only ``read_ms`` moves samples."""
    rate, now = Rate(profile, 11, 1000), T
    rows, looks, reads, expected = [], [], [], []
    for kind, step_ms, amount in steps:
        now += step_ms + 1
        if kind == "amount":
            rate.record(float(amount), now)
            rate.measure(now)
            rows.append((now - T, float(amount)))
        elif kind == "read":
            reads.append(now)
            if rows:
                rate.measure(now)
        else:
            looks.append(now)
            other = Rate(profile, 11, 1000, rate.index, [replace(s) for s in rate.slots])
            expected.append(other.measure(now) if rows else math.nan)
    found = measured_at(
        history(*rows, rule=SampleRule(profile, 11, 1000)),
        np.array(looks, np.int64),
        np.array(reads, np.int64),
    )
    np.testing.assert_array_equal(found.rate, expected)


def test_a_sensor_that_begins_anew_has_forgotten_what_it_counted() -> None:
    one = history((0, 5000.0), (2000, 1000.0))
    begun_anew = replace(one, epoch=np.array([0, 1]))
    assert rate_at(one, 2000) == 6000 / 10
    assert rate_at(begun_anew, 2000) == 1000 / 10


def test_what_the_day_before_left_counts() -> None:
    carried = CarriedSamples(0, [(T - 500, T - 500, 3000.0)])
    given = replace(history((0, 1000.0)), carried=carried)
    assert rate_at(given, 0) == 4000 / 10.5


def test_a_fetch_that_was_taken_back_is_not_measured() -> None:
    given = replace(
        history((0, 1000.0), (100, 9000.0)),
        is_unrecorded=np.array([False, True]),
        throttle_ms=np.array([0, 50]),
    )
    assert rate_at(given, 100) == 1000 / 10.1


def test_a_read_moves_where_the_next_window_begins() -> None:
    given = history((0, 1000.0), (20_600, 1000.0))
    assert rate_at(given, 20_600) != rate_at(given, 20_600, np.array([T + 20_000]))


def test_throttle_time_is_the_mean_of_those_thrown_in_two_windows() -> None:
    thrown = replace(
        history((0, 1.0), (1000, 1.0), (40_000, 1.0)), throttle_ms=np.array([100, 0, 400])
    )
    rule = SampleRule(RateProfile.RATE_3_3, 2, 30_000)
    one = Expectation("throttle-time", throttle_history(thrown, rule))
    moments = np.array([T - 1, T, T + 2000, T + 40_000, T + 61_000, T + 110_000])
    found = one.at(moments, NOBODY)
    np.testing.assert_array_equal(found, [np.nan, 100, 100, 250, 400, np.nan])


def test_around_a_moment_a_jump_is_inside_and_what_is_far_is_not() -> None:
    one = Expectation("byte-rate", history((0, 1000.0), (5000, 10_000.0), (8000, 90_000.0)))
    span = span_around(one, np.array([T + 5500]), 1000, 1000, NOBODY)
    assert span.least[0] < 1000 / 10
    assert span.most[0] == rate_at(one.history, 5000)
    agrees = span.holds(np.array([200.0]), 0.05, 1.0)
    assert agrees.all()
    assert not span.holds(np.array([3000.0]), 0.05, 1.0).any()


def test_where_nothing_is_expected_no_number_agrees() -> None:
    one = Expectation("throttle-time", history())
    span = span_around(one, np.array([T]), 1000, 1000, NOBODY)
    assert not span.holds(np.array([100.0]), 0.05, 5.0).any()
