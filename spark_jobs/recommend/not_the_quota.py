"""Throttling that another value would not mend: what to do instead.

- A client that ignores its throttles is held by the broker alone; it is the client to be mended.
- A fetch larger than what its quota lets through in a whole window is throttled whenever it is
  served: the fetch is too large, not the traffic.
- Where one broker leads most of what a client uses, the bound of each broker is met there alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.recommend.backtest import BrokerRule
from spark_jobs.recommend.observation import Observation
from spark_jobs.settings import RecommendSettings

IGNORES_THROTTLE = "client_ignores_throttle"


def why_not_the_quota(
    observations: Sequence[Observation],
    current: float,
    faults: set[str],
    rules: Mapping[int, BrokerRule],
    settings: RecommendSettings,
) -> str | None:
    """Return what to do instead of raising ``current``, None where a raise is right.

    ``faults`` are the kinds and hypotheses of the findings on the sensors.
    """
    if IGNORES_THROTTLE in faults:
        return (
            "Not the quota: the client goes on sending while it is throttled. Update or mend the "
            "client; until then the broker alone holds it back."
        )
    return _too_large(observations, current, rules) or _skew(observations, current, settings)


def _too_large(
    observations: Sequence[Observation], current: float, rules: Mapping[int, BrokerRule]
) -> str | None:
    for seen in observations:
        if seen.sensor.key[0] != QuotaType.CONSUMER_BYTE_RATE:
            continue
        for load in seen.brokers:
            samples, window_ms = rules[load.broker_id].window_of(QuotaType.CONSUMER_BYTE_RATE)
            most = current * samples * window_ms / 1000
            mean = load.rates.p50
            if load.largest_amount > most and mean < current:
                return (
                    f"Not the quota: one fetch of {load.largest_amount:,.0f} bytes is more than "
                    f"the {most:,.0f} that {current:,.0f} B/s let through in a whole window, and "
                    f"usually the client reads {mean:,.0f} B/s. Set its fetch.max.bytes below that."
                )
    return None


def _skew(
    observations: Sequence[Observation], current: float, settings: RecommendSettings
) -> str | None:
    demand: dict[int, float] = {}
    for seen in observations:
        for load in seen.brokers:
            demand[load.broker_id] = demand.get(load.broker_id, 0.0) + load.demand.rate
    if len(demand) < 2 or len(observations) > 1:
        return None
    hottest = max(demand, key=lambda broker: demand[broker])
    others = statistics.median(rate for broker, rate in demand.items() if broker != hottest)
    is_skewed = demand[hottest] >= settings.skew_ratio * others
    spread = sum(demand.values()) / len(demand)
    if not is_skewed or spread * settings.headroom > current:
        return None
    return (
        f"Not the quota: broker {hottest} serves {demand[hottest]:,.0f} per second of it and the "
        f"others {others:,.0f}; spread over them, the {current:,.0f} of each would do. Move "
        f"leaders of its partitions away from broker {hottest}."
    )
