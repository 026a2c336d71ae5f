"""Days of a sensor as one, and the table that keeps them."""

from __future__ import annotations

import pytest

from spark_jobs.recommend.recommend_quotas import demand_table, observations_of
from spark_jobs.recommend.recommendations import observed
from spark_jobs.recommend.weigh.observation import Observation
from spark_jobs.recommend.weigh.outlook import over_days, seen_day
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.tables import DEMAND
from tests.builders.tables_builder import Row, row, table_of
from tests.spark_jobs.recommend.day import fetches, mutations, produces, rates_of, steady

SETTINGS = RecommendSettings()
BROKERS = table_of("brokers", [row("brokers", broker_id=b) for b in (1, 2)])


def day_of(decisions: list[Row]) -> list[Observation]:
    return observed(table_of("decisions", decisions), rates_of(decisions), BROKERS)


def busy(rate: float, bound: float = 50_000.0, **columns: object) -> list[Row]:
    return produces(steady(rate, 60), bound, waits=True, **columns)


def test_the_table_gives_back_what_was_observed() -> None:
    decisions = [
        *busy(80_000.0, broker_id=2),
        *busy(10_000.0, broker_id=1),
        *fetches(steady(20_000.0, 60), 50_000.0),
        *mutations([(0, 5), (3_000, 80), (5_000, 7)], 2.0),
    ]
    seen = day_of(decisions)
    table = demand_table(seen)
    assert table.schema == DEMAND
    again = observations_of(table)
    assert [o.brokers for o in again] == [o.brokers for o in seen]
    assert [(o.sensor.key, o.sensor.level, o.sensor.bound) for o in again] == [
        (o.sensor.key, o.sensor.level, o.sensor.bound) for o in seen
    ]


def test_percentiles_are_of_seconds_and_near_the_bound_is_from_four_fifths_on() -> None:
    steady_minute = [*steady(30_000.0, 50), *steady(300_000.0, 10, from_ms=50_000)]
    (seen,) = day_of(produces(steady_minute, 50_000.0))
    shape = seen.brokers[0].rates
    assert 0 < shape.p50 < shape.p95 <= shape.p99 <= shape.largest
    # The window is over 40,000 within the second second of the ten.
    assert shape.near_bound_share == pytest.approx(10 / 60, abs=0.04)


def test_one_day_alone_is_as_it_was_observed() -> None:
    seen = day_of(busy(80_000.0))
    assert over_days([seen_day(10, seen)], SETTINGS) == seen


def test_several_days_are_one_with_the_largest_demand_and_all_that_was_throttled() -> None:
    calm, hot = day_of(busy(20_000.0)), day_of(busy(80_000.0))
    (found,) = over_days([seen_day(10, hot), seen_day(11, calm)], SETTINGS)
    assert found.days == 2
    assert found.hottest.demand == hot[0].hottest.demand
    assert found.throttle_time_ms == hot[0].throttle_time_ms > 0
    assert found.requests == hot[0].requests + calm[0].requests


def test_throttles_of_a_burst_that_came_once_do_not_count() -> None:
    calm, burst = day_of(busy(20_000.0)), day_of(busy(200_000.0))
    days = [seen_day(10 + i, burst if i == 2 else calm) for i in range(5)]
    (found,) = over_days(days, SETTINGS)
    assert (found.burst_days, found.throttle_time_ms) == ((12,), 0)
    assert found.hottest.demand.rate < 30_000


def test_a_sensor_without_traffic_today_is_still_there() -> None:
    hot, other = day_of(busy(80_000.0)), day_of(busy(20_000.0, quota_user="bob", user="bob"))
    found = over_days([seen_day(10, hot), seen_day(11, other)], SETTINGS)
    assert [o.sensor.key[1] for o in found] == ["alice", "bob"]
    later = over_days([seen_day(10, hot), seen_day(10 + 28, other)], SETTINGS)
    assert [o.sensor.key[1] for o in later] == ["bob"]
