"""What a proposal leads to, per broker: the backtest in figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from spark_jobs.recommend.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.observation import muted_ms
from spark_jobs.recommend.traffic import SensorKey, SensorTraffic


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """One broker under a proposal; throttle times added up, and with overlaps counted once."""

    broker_id: int
    throttled_requests: int
    throttle_time_ms: int
    muted_ms: int


Forecasts = Mapping[SensorKey, tuple[BrokerForecast, ...]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """All sensors of one case under its proposal, per broker."""

    brokers: tuple[BrokerForecast, ...]

    @property
    def throttle_time_ms(self) -> int:
        """Return the throttle times added up over all brokers."""
        return sum(broker.throttle_time_ms for broker in self.brokers)


def throttle_time_of(forecasts: Forecasts, key: SensorKey) -> int:
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
    """Return what ``proposed`` would have led to on each broker of one sensor's traffic."""
    throttle_ms = throttle_with(traffic, proposed, rules)
    amounts = traffic.amounts
    forecasts = []
    for broker in np.unique(amounts.broker_id).tolist():
        own = amounts.broker_id == broker
        at_ms = np.maximum.accumulate(amounts.recorded_at_ms[own])
        forecasts.append(broker_forecast(broker, at_ms, throttle_ms[own]))
    return tuple(forecasts)


def forecast_of(sensors: Iterable[SensorKey], forecasts: Forecasts) -> Forecast:
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
