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

NEAR_BOUND = 0.8
"""From this share of its bound on, a rate is near it."""


@dataclass(frozen=True, slots=True)
class RateShape:
    """The windowed rate, one value a second: the largest of the second's requests."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    largest: float = 0.0
    near_bound_share: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker's part of a sensor; rates in the quota's unit, times of the replayed throttles."""

    broker_id: int
    demand: Demand
    requests: int
    seconds: int
    unknown_amounts: int
    rates: RateShape
    peak_at_ms: int
    throttled_requests: int  # by the replay
    throttle_time_ms: int
    logged_throttle_time_ms: int
    muted_ms: int
    # Of one request; 0 where no amount is known.
    largest_amount: float = 0.0

    @property
    def peak_rate(self) -> float:
        """Return the largest windowed rate."""
        return self.rates.largest


@dataclass(frozen=True, slots=True)
class Observation:
    """What one sensor showed, on a day or on several."""

    sensor: Sensor
    seconds: int
    brokers: tuple[BrokerLoad, ...]  # by broker_id
    days: int = 1
    # Days since the epoch that were left out, and what the demand rises by a day.
    burst_days: tuple[int, ...] = ()
    slope: float = 0.0

    @property
    def requests(self) -> int:
        """Return the requests on all brokers."""
        return sum(load.requests for load in self.brokers)

    @property
    def throttled_requests(self) -> int:
        """Return those that the replay throttled."""
        return sum(load.throttled_requests for load in self.brokers)

    @property
    def logged_throttle_time_ms(self) -> int:
        """Return the throttle times that the log has, added up."""
        return sum(load.logged_throttle_time_ms for load in self.brokers)

    @property
    def unknown_amounts(self) -> int:
        """Return how many amounts the log does not have."""
        return sum(load.unknown_amounts for load in self.brokers)

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
    return Observation(sensor, seconds, tuple(loads))


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
        requests=len(amounts),
        seconds=_seconds(at_ms, quota_type),
        unknown_amounts=int(np.isnan(amounts.amount).sum()),
        rates=_shape(at_ms, rate, amounts.bound),
        peak_at_ms=int(at_ms[peak]),
        throttled_requests=int((amounts.replayed_throttle_time_ms > 0).sum()),
        throttle_time_ms=int(amounts.replayed_throttle_time_ms.sum()),
        logged_throttle_time_ms=int(amounts.logged_throttle_time_ms.sum()),
        muted_ms=muted_ms(at_ms, amounts.replayed_throttle_time_ms),
        largest_amount=float(np.nan_to_num(amounts.amount, nan=0.0).max(initial=0.0)),
    )


def _seconds(at_ms: np.ndarray, quota_type: str) -> int:
    """Return in how many seconds there was traffic; of mutations, which are rare, from end to end.

    A topic a minute for an hour is plenty of evidence.
    """
    seconds = np.unique(at_ms // 1000)
    if quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
        return int(seconds[-1] - seconds[0]) + 1
    return len(seconds)


def _shape(at_ms: np.ndarray, rate: np.ndarray, bound: np.ndarray) -> RateShape:
    known = np.isfinite(rate)
    if not known.any():
        return RateShape()
    second = at_ms[known] // 1000
    starts = np.flatnonzero(np.concatenate(([True], second[1:] != second[:-1])))
    largest = np.maximum.reduceat(rate[known], starts)
    near = np.fmax.reduceat(rate[known] / bound[known], starts) >= NEAR_BOUND
    p50, p95, p99 = np.percentile(largest, (50, 95, 99)).tolist()
    return RateShape(p50, p95, p99, float(largest.max()), float(near.mean()))
