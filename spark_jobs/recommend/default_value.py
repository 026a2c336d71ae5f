"""One value for everyone but the few that need more: what a default and overrides trade.

The higher the default, the fewer clients need a value of their own, and the less it holds back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_jobs.recommend.observation import Observation
from spark_jobs.recommend.steps import step_up
from spark_jobs.settings import RecommendSettings

CURVE_POINTS_MAX = 20


class TradeOff(NamedTuple):
    """A default, and how many of its followers would then need a value of their own."""

    default: float
    overrides: int


def needed_value(seen: Observation, settings: RecommendSettings) -> float:
    """Return the value that holds what a follower asks for, 0 where it asks for nothing."""
    rate = seen.hottest.demand.rate
    return step_up(rate * settings.headroom, seen.sensor.key[0]) if rate > 0 else 0.0


def trade_off_curve(
    followers: Sequence[Observation], settings: RecommendSettings
) -> list[TradeOff]:
    """Return the defaults at which the number of overrides changes, in order of the default.

    The first holds nobody without an override but those that ask for the least, the last everyone.
    """
    needs = sorted({needed_value(seen, settings) for seen in followers} - {0.0})
    all_needs = [needed_value(seen, settings) for seen in followers]
    points = [TradeOff(value, sum(need > value for need in all_needs)) for value in needs]
    step = -(-len(points) // CURVE_POINTS_MAX) or 1
    return points[::-1][::step][::-1]


def least_default(
    followers: Sequence[Observation], overrides_max: int, settings: RecommendSettings
) -> float:
    """Return the least default at which no more than ``overrides_max`` followers need more."""
    needs = sorted((needed_value(seen, settings) for seen in followers), reverse=True)
    return needs[overrides_max] if overrides_max < len(needs) else 0.0
