"""Observations of several days as one: what a proposal is made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.recommend.demand import SEVERAL_DAYS, Demand
from spark_jobs.recommend.observation import BrokerLoad, Observation
from spark_jobs.recommend.outlook import DayDemand, outlook
from spark_jobs.recommend.traffic import SensorKey
from spark_jobs.settings import RecommendSettings


@dataclass(frozen=True, slots=True)
class SeenDay:
    """One day's observations by sensor; ``day`` is days since the epoch."""

    day: int
    observations: Mapping[SensorKey, Observation]


def seen_day(day: int, observations: Sequence[Observation]) -> SeenDay:
    """Return a day's observations by their sensors."""
    return SeenDay(day, {seen.sensor.key: seen for seen in observations})


def over_days(days: Sequence[SeenDay], settings: RecommendSettings) -> list[Observation]:
    """Return each sensor's observations of ``days``, in time order, as one; sorted by key.

    Throttles and requests are those of the last days that the demand is taken from, without bursts.
    """
    by_sensor: dict[SensorKey, list[tuple[int, Observation]]] = defaultdict(list)
    first = days[-1].day - settings.history_days + 1 if days else 0
    for one in days:
        for key, seen in one.observations.items():
            if one.day >= first:
                by_sensor[key].append((one.day, seen))
    return [_over(days[-1].day, seen, settings) for _, seen in sorted(by_sensor.items())]


def _over(
    today: int, seen: Sequence[tuple[int, Observation]], settings: RecommendSettings
) -> Observation:
    last = seen[-1][1]
    if len(seen) == 1:
        return last
    by_broker: dict[int, list[tuple[int, BrokerLoad]]] = defaultdict(list)
    for day, observation in seen:
        for load in observation.brokers:
            by_broker[load.broker_id].append((day, load))
    # The sensor as a whole, by its hottest broker of each day.
    expected = outlook([DayDemand(day, o.hottest.demand.rate) for day, o in seen], settings)
    bursts = expected.burst_days
    season = range(today - settings.season_days + 1, today + 1)
    counted = [(d, o) for d, o in seen if d in season and d not in bursts] or [seen[-1]]
    days_counted = {day for day, _ in counted}
    loads = tuple(
        _load([(d, load) for d, load in loads if d not in bursts] or loads, days_counted, settings)
        for _, loads in sorted(by_broker.items())
    )
    decisions = sum(o.sensor.decisions for _, o in counted)
    return Observation(
        sensor=replace(last.sensor, decisions=decisions),
        seconds=sum(o.seconds for _, o in counted),
        brokers=loads,
        days=len(seen),
        burst_days=bursts,
        slope=expected.slope,
    )


def _load(
    loads: Sequence[tuple[int, BrokerLoad]], counted: set[int], settings: RecommendSettings
) -> BrokerLoad:
    """Return one broker's days as one: the outlook's demand, sums of the days that count."""
    expected = outlook([DayDemand(day, load.demand.rate) for day, load in loads], settings)
    own = [load for day, load in loads if day in counted]
    peak = max((load for _, load in loads), key=lambda load: load.rates.largest)
    largest = max((load for _, load in loads), key=lambda load: load.demand.rate)
    is_beyond = expected.rate > largest.demand.rate
    return replace(
        peak,
        demand=Demand(expected.rate, SEVERAL_DAYS if is_beyond else largest.demand.basis),
        requests=sum(load.requests for load in own),
        seconds=sum(load.seconds for load in own),
        unknown_amounts=sum(load.unknown_amounts for load in own),
        throttled_requests=sum(load.throttled_requests for load in own),
        throttle_time_ms=sum(load.throttle_time_ms for load in own),
        logged_throttle_time_ms=sum(load.logged_throttle_time_ms for load in own),
        muted_ms=sum(load.muted_ms for load in own),
    )
