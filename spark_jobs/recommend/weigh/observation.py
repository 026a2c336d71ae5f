"""What a day showed of one sensor: how much was asked for, on which broker, and how long it waited.

A throttled client is held back, so the rate it reaches stays near its bound whatever it wants. Two
observations say what it wanted at least: the highest windowed rate, and the pace it kept while
nobody was muted, up to the request that ended the freedom. The second is the telling one: a client
that wants three times its bound runs free for over three seconds before the window is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.quota.codes import QuotaType
from spark_jobs.recommend.weigh.backtest import BrokerRule, first_attempts, windowed_rates
from spark_jobs.recommend.weigh.traffic import Amounts, QuotaSensor, SensorId, SensorTraffic

PEAK_RATE = "peak_rate"
FREE_RUN = "free_run"
SEVERAL_DAYS = "several_days"
"""The basis of a demand that rises, and is larger than any one day's."""

# A pace is not taken from fewer requests than this.
FREE_RUN_REQUESTS_MIN = 5
# A burst that merely grazed the bound went on for less: its pace is not what it needs per window.
SUSTAINED_SHARE = 0.5
NEAR_BOUND = 0.8
"""From this share of its bound on, a rate is near it."""

OWN_LEVEL = "user+client-id"


@dataclass(frozen=True, slots=True)
class Demand:
    """A rate in the quota's unit, at least; ``basis`` is one of the three above."""

    rate: float
    basis: str


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

    sensor: QuotaSensor
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
        """Return the number of amounts that the log does not have."""
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
    sensor: QuotaSensor, traffic: SensorTraffic, seconds: int, rules: Mapping[int, BrokerRule]
) -> Observation:
    """Return the observation of ``sensor`` in ``traffic``; it had traffic for ``seconds``."""
    amounts = traffic.amounts
    brokers = np.unique(amounts.broker_id).tolist()
    loads = (
        _load(amounts.take(amounts.broker_id == b), traffic.quota_type, rules[b]) for b in brokers
    )
    return Observation(sensor, seconds, tuple(loads))


def seen_alone(
    key: SensorId,
    bound: float,
    traffic: SensorTraffic,
    rules: Mapping[int, BrokerRule],
    level: str = OWN_LEVEL,
) -> Observation:
    """Return the observation of a bucket ``key`` that has all of ``traffic``, and nothing else.

    Its rates are of that traffic alone; the throttles are those the traffic's amounts have.
    """
    amounts = replace(traffic.amounts, rate=windowed_rates(traffic, rules))
    last_ms = int(amounts.recorded_at_ms.max())
    sensor = QuotaSensor(key, len(amounts), last_ms, level, bound)
    seen = observe(sensor, replace(traffic, amounts=amounts), 0, rules)
    return replace(seen, seconds=max(load.seconds for load in seen.brokers))


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
    """Return the number of seconds with traffic; of mutations, which are rare, from end to end.

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


@dataclass(frozen=True, slots=True)
class AskedAmounts:
    """What was asked of one broker's sensor in recording order; arrays of one length."""

    at_ms: np.ndarray
    amount: np.ndarray  # 0 for a repetition of something asked before
    rate: np.ndarray  # windowed, NaN where undefined
    throttle_time_ms: np.ndarray


def demand_of(asked: AskedAmounts, window_ms: int, samples: int) -> Demand:
    """Return the demand on one broker, 0 where nothing was asked."""
    peak = float(np.nanmax(asked.rate)) if np.isfinite(asked.rate).any() else 0.0
    free = _fastest_free_run(asked, window_ms, samples)
    return Demand(free, FREE_RUN) if free > peak else Demand(peak, PEAK_RATE)


def _fastest_free_run(asked: AskedAmounts, window_ms: int, samples: int) -> float:
    """Return the best pace of the free runs of a window or longer that ended in lasting throttling.

    What piled up while muted is sent in the run after, so a run's clock starts with the mute before
    it; after a pause nothing had piled up, and it starts with the pause's end.
    """
    at_ms, rows = asked.at_ms, np.arange(len(asked.at_ms))
    ends = np.flatnonzero(asked.throttle_time_ms > 0)
    if not len(ends):
        return 0.0
    until_ms = _muted_until_ms(at_ms, asked.throttle_time_ms)
    is_after_pause = np.zeros(len(rows), bool)
    is_after_pause[1:] = at_ms[1:] - np.maximum(at_ms[:-1], until_ms[:-1]) > window_ms
    last_pause = np.maximum.accumulate(np.where(is_after_pause, rows, 0))
    throttled_before = np.concatenate(([0], ends[:-1]))
    start = np.maximum(throttled_before, last_pause[ends])
    free_from_ms = np.where(start == throttled_before, until_ms[start], at_ms[start])

    muted = _running_total(_newly_muted_ms(at_ms, asked.throttle_time_ms))
    span_ms = samples * window_ms
    after = np.searchsorted(at_ms, at_ms[ends] + span_ms, side="right")
    is_lasting = muted[after] - muted[ends] >= SUSTAINED_SHARE * span_ms
    is_long = (ends - start >= FREE_RUN_REQUESTS_MIN) & (at_ms[ends] - free_from_ms >= window_ms)
    is_run = is_long & is_lasting
    start, ends = start[is_run], ends[is_run]
    total = _running_total(asked.amount)
    # The first row's amount was there when the clock started.
    paces = (total[ends + 1] - total[start + 1]) * 1000.0 / (at_ms[ends] - at_ms[start])
    return float(np.max(paces, initial=0.0))


def rolling_rate(at_ms: np.ndarray, amount: np.ndarray, span_ms: int) -> np.ndarray:
    """Return the amount per second of the last ``span_ms``, after each row."""
    total = _running_total(amount)
    first = np.searchsorted(at_ms, at_ms - span_ms, side="right")
    return np.asarray((total[1:] - total[first]) * 1000.0 / span_ms)


def muted_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> int:
    """Return the time (ms) in which some client was muted: overlapping throttles count once.

    >>> muted_ms(np.array([0, 500, 5_000]), np.array([1_000, 1_000, 100]))
    1600
    """
    return int(_newly_muted_ms(at_ms, throttle_time_ms).sum())


def _newly_muted_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> np.ndarray:
    """Return the milliseconds by which each row prolongs the time in which a client is muted."""
    if not len(at_ms):
        return np.zeros(0, np.int64)
    until = _muted_until_ms(at_ms, throttle_time_ms)
    muted_before = np.concatenate((at_ms[:1], until[:-1]))
    return np.asarray(until - np.maximum(at_ms, np.minimum(muted_before, until)))


def _muted_until_ms(at_ms: np.ndarray, throttle_time_ms: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum.accumulate(at_ms + throttle_time_ms))


def _running_total(values: np.ndarray) -> np.ndarray:
    """Return the sum before each row, and the sum of all: one longer than ``values``."""
    return np.concatenate(([0], np.cumsum(values)))
