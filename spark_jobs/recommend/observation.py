"""What a day showed of one sensor: how much, what for, on which broker, and how long it waited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.recommend.backtest import BrokerRule, first_attempts
from spark_jobs.recommend.demand import (
    AskedAmounts,
    Demand,
    demand_of,
    muted_ms,
    rolling_rate,
)
from spark_jobs.recommend.sensors import Sensor
from spark_jobs.recommend.traffic import Amounts, SensorTraffic


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker's part of a sensor; rates in the quota's unit, times of the replayed throttles."""

    broker_id: int
    demand: Demand
    peak_rate: float
    peak_at_ms: int
    throttle_time_ms: int
    muted_ms: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One sensor's day."""

    sensor: Sensor
    requests: int
    seconds: int
    brokers: tuple[BrokerLoad, ...]  # by broker_id
    throttled_requests: int  # by the replay
    logged_throttle_time_ms: int
    unknown_amounts: int

    @property
    def hottest(self) -> BrokerLoad:
        """Return the broker that the most was asked of; a bound holds on each broker by itself."""
        return max(self.brokers, key=lambda load: (load.demand.rate, load.peak_rate))

    @property
    def throttle_time_ms(self) -> int:
        """Return the replayed throttle times, added up over all requests of all brokers."""
        return sum(load.throttle_time_ms for load in self.brokers)

    @property
    def muted_ms(self) -> int:
        """Return for how long clients were muted; overlaps on a broker count once."""
        return sum(load.muted_ms for load in self.brokers)


def observe(
    sensor: Sensor, traffic: SensorTraffic, seconds: int, rules: Mapping[int, BrokerRule]
) -> Observation:
    """Return what ``traffic`` shows of ``sensor``; ``seconds`` is how long it had traffic."""
    amounts = traffic.amounts
    brokers = np.unique(amounts.broker_id).tolist()
    loads = (
        _load(amounts.take(amounts.broker_id == b), traffic.quota_type, rules[b]) for b in brokers
    )
    return Observation(
        sensor=sensor,
        requests=len(amounts),
        seconds=seconds,
        brokers=tuple(loads),
        throttled_requests=int((amounts.replayed_throttle_time_ms > 0).sum()),
        logged_throttle_time_ms=int(amounts.logged_throttle_time_ms.sum()),
        unknown_amounts=int(np.isnan(amounts.amount).sum()),
    )


def _load(amounts: Amounts, quota_type: str, rule: BrokerRule) -> BrokerLoad:
    samples, window_ms = rule.window_of(quota_type)
    # Restarts and carried order can leave the clock a little behind itself.
    at_ms = np.maximum.accumulate(amounts.recorded_at_ms)
    asked = np.zeros(len(amounts))
    first = first_attempts(amounts)
    asked[first] = np.nan_to_num(amounts.amount[first], nan=0.0)
    rate = amounts.rate
    if quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
        rate = rolling_rate(at_ms, asked, samples * window_ms)
    peak = int(np.nanargmax(rate)) if np.isfinite(rate).any() else 0
    return BrokerLoad(
        broker_id=int(amounts.broker_id[0]),
        demand=demand_of(
            # The log has the longest of several quotas' throttles; this is about this quota's own.
            AskedAmounts(at_ms, asked, rate, amounts.replayed_throttle_time_ms),
            window_ms,
            samples,
        ),
        peak_rate=float(rate[peak]) if np.isfinite(rate[peak]) else 0.0,
        peak_at_ms=int(at_ms[peak]),
        throttle_time_ms=int(amounts.replayed_throttle_time_ms.sum()),
        muted_ms=muted_ms(at_ms, amounts.replayed_throttle_time_ms),
    )
