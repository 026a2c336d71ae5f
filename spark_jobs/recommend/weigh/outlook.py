"""Observations of several days as one, and the demand to expect after them.

A value has to hold for the days to come, so it follows the largest demand of the last week (a week
has its shape), without a burst that came once, and further where the demand rises day by day. A
demand is "at least", and so is what follows from it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from spark_jobs.recommend.weigh.observation import SEVERAL_DAYS, BrokerLoad, Demand, Observation
from spark_jobs.recommend.weigh.traffic import SensorId
from spark_jobs.settings import RecommendSettings

TREND_DAYS = 14
"""Two weeks: a shape that a week has is no trend."""
_SUMMED = (
    "requests", "seconds", "unknown_amounts", "throttled_requests", "throttle_time_ms",
    "logged_throttle_time_ms", "muted_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SeenDay:
    """One day's observations by sensor; ``day`` is days since the epoch."""

    day: int
    observations: Mapping[SensorId, Observation]


def seen_day(day: int, observations: Sequence[Observation]) -> SeenDay:
    """Return a day's observations by their sensors."""
    return SeenDay(day, {seen.sensor.key: seen for seen in observations})


def over_days(days: Sequence[SeenDay], settings: RecommendSettings) -> list[Observation]:
    """Return each sensor's observations of ``days``, in time order, as one; sorted by key.

    Throttles and requests are those of the last days that the demand is taken from, without bursts.
    """
    by_sensor: dict[SensorId, list[tuple[int, Observation]]] = defaultdict(list)
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
        **{name: sum(getattr(load, name) for load in own) for name in _SUMMED},
    )


class DayDemand(NamedTuple):
    """What was asked for on one day, in the quota's unit; days since the epoch."""

    day: int
    rate: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """A rate, at least, and what it was made of."""

    rate: float
    # Days left out, as bursts that came once.
    burst_days: tuple[int, ...] = ()
    # Per day; 0 where the demand does not rise.
    slope: float = 0.0


def outlook(days: Sequence[DayDemand], settings: RecommendSettings) -> Outlook:
    """Return the demand to expect after the last of ``days``, which are in time order.

    >>> outlook([DayDemand(d, 100.0 + 10 * d) for d in range(6)], RecommendSettings()).rate
    220.0
    >>> week = [DayDemand(d, r) for d, r in enumerate([9.0, 10.0, 90.0, 10.0, 11.0])]
    >>> outlook(week, RecommendSettings())
    Outlook(rate=11.0, burst_days=(2,), slope=0.0)
    """
    seen = [day for day in days if day.day > days[-1].day - settings.history_days]
    bursts = _bursts(seen, settings)
    usual = [day for day in seen if day not in bursts]
    recent = [day.rate for day in usual if day.day > seen[-1].day - settings.season_days]
    base = max(recent, default=0.0)
    slope = _slope(usual, settings)
    # From the last day on: the largest one is it, where every day is larger than the one before.
    ahead = usual[-1].rate + slope * settings.horizon_days if slope and usual else 0.0
    return Outlook(max(base, ahead), tuple(day.day for day in bursts), slope)


def _bursts(days: Sequence[DayDemand], settings: RecommendSettings) -> list[DayDemand]:
    if len(days) <= settings.burst_min_days:
        return []
    largest = max(days, key=lambda day: day.rate)
    others = max(day.rate for day in days if day is not largest)
    return [largest] if others > 0 and largest.rate > settings.burst_ratio * others else []


def _slope(days: Sequence[DayDemand], settings: RecommendSettings) -> float:
    """Return the median slope of all pairs of days (Theil and Sen), where enough of them rise."""
    recent = [day for day in days if day.day > days[-1].day - TREND_DAYS] if days else []
    if len(recent) < settings.rising_min_days:
        return 0.0
    slopes = [(b.rate - a.rate) / (b.day - a.day) for a, b in combinations(recent, 2)]
    rising = sum(slope > 0 for slope in slopes) / len(slopes)
    return max(statistics.median(slopes), 0.0) if rising >= settings.rising_share else 0.0
