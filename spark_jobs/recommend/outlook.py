"""What an entity will ask for, from what it asked for on the days before.

A value has to hold for the days to come, so it follows the largest demand of the last week (a week
has its shape), without a burst that came once, and further where the demand rises day by day. A
demand is "at least" (:mod:`spark_jobs.recommend.demand`), and so is what follows from it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from spark_jobs.settings import RecommendSettings

TREND_DAYS = 14
"""Two weeks: a shape that a week has is no trend."""


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
    """Return what is to be expected after the last of ``days``, which are in time order.

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
