from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.whatif.policies import grid_rate
from spark_jobs.whatif.policies.grid_rate import GridRate

T = 1_700_000_000_000


def test_its_example_is_kip_13s() -> None:
    assert doctest.testmod(grid_rate).attempted > 0
    assert doctest.testmod(grid_rate).failed == 0


def test_the_current_sample_is_one_of_the_grid() -> None:
    grid = GridRate(samples=3)
    for second in range(4):
        grid.record(10.0**second, T + 1_000 * second)
    assert grid.values(T + 3_999) == [10.0, 100.0, 1_000.0]


def test_the_denominator_is_the_whole_grid_from_the_first_record_on() -> None:
    grid = GridRate(samples=100)
    grid.record(560.0, T)
    assert grid.rate(T) == 5.6
    assert grid.rate(T + 99_999) == 5.6
    assert grid.rate(T + 100_000) == 0.0


def test_samples_begin_at_whole_windows_whenever_something_is_recorded() -> None:
    grid = GridRate(samples=2)
    grid.record(7.0, T + 999)
    assert grid.total(T + 1_999) == 7.0
    assert grid.total(T + 2_000) == 0.0


def test_a_delay_is_rounded_not_truncated() -> None:
    grid = GridRate(samples=100)
    grid.record(560.0, T)
    assert (5.6 - 5) / 5 * 100 * 1_000 < 12_000
    assert grid.delay_ms(5.0, T) == 12_000
    grid.record(0.0025, T)
    assert grid.delay_ms(5.0, T) == 12_001


def test_a_delay_is_at_most_the_largest_int32() -> None:
    grid = GridRate(samples=1)
    grid.record(1e18, T)
    assert grid.delay_ms(1.0, T) == INT_MAX
    assert grid.delay_ms(1e-300, T) == INT_MAX


def test_exactly_the_bound_violates_nothing() -> None:
    grid = GridRate(samples=10)
    grid.record(50.0, T)
    assert not grid.is_violated(5.0, T)
    assert grid.delay_ms(5.0, T) == 0
    grid.record(1.0, T)
    assert grid.is_violated(5.0, T)
    assert grid.delay_ms(5.0, T) == 200


def test_earlier_samples_can_be_written() -> None:
    grid = GridRate(samples=3)
    grid.add(5.0, 2, T)
    grid.add(1.0, 0, T)
    assert grid.values(T) == [5.0, 0.0, 1.0]
    assert grid.values(T + 1_000) == [0.0, 1.0, 0.0]


def test_a_time_that_goes_back_is_counted_in_its_own_sample_while_the_grid_has_it() -> None:
    grid = GridRate(samples=3)
    grid.record(1.0, T)
    grid.record(2.0, T - 1)
    grid.record(4.0, T - 3_000)
    assert grid.values(T) == [0.0, 2.0, 1.0]
    assert grid.total(T - 1) == 3.0


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 10**9)), max_size=40),
    st.integers(1, 12),
    st.sampled_from([1, 250, 1_000]),
)
def test_the_total_is_what_the_samples_of_the_grid_hold(
    steps: list[tuple[int, int]], samples: int, window_ms: int
) -> None:
    grid, now, recorded = GridRate(samples, window_ms), T, []
    for step_ms, amount in steps:
        now += step_ms
        grid.record(amount, now)
        recorded.append((now, amount))
        oldest = now // window_ms - samples + 1
        assert grid.total(now) == sum(a for at, a in recorded if at // window_ms >= oldest)


@pytest.mark.parametrize(("samples", "window_ms"), [(0, 1_000), (10, 0)])
def test_an_empty_grid_is_a_mistake(samples: int, window_ms: int) -> None:
    with pytest.raises(AssertionError):
        GridRate(samples, window_ms)
