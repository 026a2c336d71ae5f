"""What is to be expected of the days to come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.recommend.weigh.outlook import DayDemand, outlook
from spark_jobs.settings import RecommendSettings

SETTINGS = RecommendSettings()


def days(*rates: float, first: int = 100) -> list[DayDemand]:
    return [DayDemand(first + i, rate) for i, rate in enumerate(rates)]


def test_the_largest_day_of_the_last_week_counts() -> None:
    assert outlook(days(10, 40, 30, 35, 30, 38, 30, 31), SETTINGS).rate == 40
    # Eight days ago is not the last week.
    assert outlook(days(39, 30, 30, 35, 30, 38, 30, 31), SETTINGS).rate == 38


def test_a_week_has_its_shape_and_does_not_rise_by_it() -> None:
    week = [50, 55, 52, 51, 54, 20, 18]
    found = outlook(days(*week, *week, *week), SETTINGS)
    assert (found.rate, found.slope, found.burst_days) == (55, 0.0, ())


def test_a_burst_that_came_once_is_left_out_and_named() -> None:
    found = outlook(days(10, 11, 10, 95, 12, 10), SETTINGS)
    assert (found.rate, found.burst_days) == (12, (103,))


def test_a_burst_that_came_twice_is_demand() -> None:
    assert outlook(days(10, 11, 95, 10, 94, 10), SETTINGS).rate == 95


def test_with_few_days_nothing_is_a_burst() -> None:
    assert outlook(days(10, 95, 11), SETTINGS) == outlook(days(95), SETTINGS)


def test_what_rises_day_by_day_is_carried_on() -> None:
    found = outlook(days(100, 110, 121, 129, 140), SETTINGS)
    assert found.slope == pytest.approx(10.0, abs=0.5)
    assert found.rate == pytest.approx(140 + 7 * found.slope)
    assert outlook(days(140, 129, 121, 110, 100), SETTINGS).slope == 0


def test_four_days_that_rise_are_not_yet_a_trend() -> None:
    assert outlook(days(100, 110, 120, 130), SETTINGS).rate == 130


def test_days_without_traffic_are_days() -> None:
    found = outlook([DayDemand(d, 10.0 * d) for d in (1, 3, 5, 7, 9)], SETTINGS)
    assert found.slope == pytest.approx(10.0)


rates = st.floats(0.0, 1e9, allow_nan=False)


@given(st.lists(rates, min_size=1, max_size=40))
def test_it_is_never_below_the_last_week_without_its_burst(found: list[float]) -> None:
    listed = days(*found)
    expected = outlook(listed, SETTINGS)
    last = listed[-1].day
    recent = [d.rate for d in listed if d.day > last - 7 and d.day not in expected.burst_days]
    assert expected.rate >= max(recent, default=0.0)
    assert len(expected.burst_days) <= 1
    if expected.slope:
        assert any(a.rate < b.rate for a, b in pairwise(listed))
