"""What a proposal leads to, in figures: throttling per broker, harmed neighbours, kept promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_jobs.recommend.weigh.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.weigh.observation import muted_ms
from spark_jobs.recommend.weigh.traffic import SensorId, SensorTraffic
from spark_jobs.settings import RecommendSettings


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """One broker under a proposal; throttle times added up, and with overlaps counted once."""

    broker_id: int
    throttled_requests: int
    throttle_time_ms: int
    muted_ms: int


Forecasts = Mapping[SensorId, tuple[BrokerForecast, ...]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """All sensors of one case under its proposal, per broker."""

    brokers: tuple[BrokerForecast, ...]

    @property
    def throttle_time_ms(self) -> int:
        """Return the throttle times added up over all brokers."""
        return sum(broker.throttle_time_ms for broker in self.brokers)


def throttle_time_of(forecasts: Forecasts, key: SensorId) -> int:
    """Return the throttle times of one sensor over all brokers, 0 where it has none."""
    return sum(broker.throttle_time_ms for broker in forecasts.get(key, ()))


def broker_forecast(
    broker_id: int, at_ms: np.ndarray, throttle_time_ms: np.ndarray
) -> BrokerForecast:
    """Return the figures of one broker's decisions, whose times only grow."""
    return BrokerForecast(
        broker_id=broker_id,
        throttled_requests=int((throttle_time_ms > 0).sum()),
        throttle_time_ms=int(throttle_time_ms.sum()),
        muted_ms=muted_ms(at_ms, throttle_time_ms),
    )


def forecast_by_broker(
    traffic: SensorTraffic, proposed: float, rules: Mapping[int, BrokerRule]
) -> tuple[BrokerForecast, ...]:
    """Return the forecast of one sensor's traffic under ``proposed``, for each broker."""
    throttle_ms = throttle_with(traffic, proposed, rules)
    amounts = traffic.amounts
    forecasts = []
    for broker in np.unique(amounts.broker_id).tolist():
        own = amounts.broker_id == broker
        at_ms = np.maximum.accumulate(amounts.recorded_at_ms[own])
        forecasts.append(broker_forecast(broker, at_ms, throttle_ms[own]))
    return tuple(forecasts)


def forecast_of(sensors: Iterable[SensorId], forecasts: Forecasts) -> Forecast:
    """Return the forecasts of ``sensors``, added up per broker."""
    parts = [part for key in sensors for part in forecasts.get(key, ())]
    brokers = sorted({part.broker_id for part in parts})
    return Forecast(tuple(_sum(b, [p for p in parts if p.broker_id == b]) for b in brokers))


def _sum(broker_id: int, parts: Iterable[BrokerForecast]) -> BrokerForecast:
    listed = list(parts)
    return BrokerForecast(
        broker_id=broker_id,
        throttled_requests=sum(p.throttled_requests for p in listed),
        throttle_time_ms=sum(p.throttle_time_ms for p in listed),
        muted_ms=sum(p.muted_ms for p in listed),
    )


@dataclass(frozen=True, slots=True)
class Harm:
    """A neighbour that is throttled more; milliseconds of the closed loop."""

    sensor: SensorId
    before_ms: int
    after_ms: int


def is_more_harm(harmed: Iterable[Harm], gained_ms: int) -> bool:
    """Return True if neighbours lose more milliseconds than are gained."""
    return sum(harm.after_ms - harm.before_ms for harm in harmed) > max(gained_ms, 0)


@dataclass(frozen=True, slots=True)
class Trial:
    """One proposal of an earlier day on the day after it; throttle times are replayed."""

    day: int
    current: float
    proposed: float
    throttle_time_ms_before: int
    throttle_time_ms_after: int
    # What is left of the value above the largest rate: a share, negative where it was passed.
    headroom_before: float
    headroom_after: float
    # It went only as far as one step may.
    is_step: bool = False
    # Neighbours that would have been throttled more, where the day was replayed with its clients.
    harmed: tuple[Harm, ...] = ()

    def is_needed(self, settings: RecommendSettings) -> bool:
        """Return True if there was anything to promise: a raise of something throttled, or a cut.

        A lower value always promises not to throttle.
        """
        is_raise = self.proposed > self.current
        return not is_raise or self.throttle_time_ms_before >= max(settings.min_throttle_ms, 1)

    def is_kept(self, settings: RecommendSettings) -> bool:
        """Return True if a raise did what it is for, or a lower value added little throttling.

        A raise leaves little throttling and covers what the next day asked for: a client that
        waits is throttled little by any larger value, and would send more. One step of several
        promises less throttling only. Nothing is kept that cost its neighbours more than it gained.
        """
        gained_ms = self.throttle_time_ms_before - self.throttle_time_ms_after
        if is_more_harm(self.harmed, gained_ms):
            return False
        is_raise = self.proposed > self.current
        share = settings.left_share_max if is_raise and not self.is_step else 1.0
        allowed = max(int(share * self.throttle_time_ms_before), settings.min_throttle_ms)
        covers = self.headroom_after >= 0 or self.is_step or not is_raise
        return covers and self.throttle_time_ms_after <= allowed


class Kept(NamedTuple):
    """How often a proposal kept its promise, of the days on which there was one to keep."""

    kept: int
    trials: int


def kept_of(trials: Iterable[Trial], settings: RecommendSettings) -> Kept:
    """Return the number of trials that kept their promise, of those that had one to keep."""
    needed = [trial for trial in trials if trial.is_needed(settings)]
    return Kept(sum(trial.is_kept(settings) for trial in needed), len(needed))
