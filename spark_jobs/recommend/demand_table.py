"""What the days showed of each sensor on each broker, as rows of ``tables.DEMAND`` and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from spark_jobs.recommend.observation import BrokerLoad, Demand, Observation, RateShape
from spark_jobs.recommend.traffic import SENSOR, BoundSensor, SensorKey
from spark_jobs.warehouse.tables import DEMAND


def demand_table(observations: Iterable[Observation]) -> pa.Table:
    """Return a day's observations, a row for each sensor and broker, of schema DEMAND."""
    rows = []
    for seen in observations:
        sensor = seen.sensor
        key = dict(zip(SENSOR, sensor.key, strict=True))
        for load in seen.brokers:
            rows.append(
                key
                | {
                    "broker_id": load.broker_id,
                    "quota_level": sensor.level,
                    "bound": sensor.bound,
                    "last_ms": sensor.last_ms,
                    "requests": load.requests,
                    "seconds": load.seconds,
                    "unknown_amounts": load.unknown_amounts,
                    "rate_p50": load.rates.p50,
                    "rate_p95": load.rates.p95,
                    "rate_p99": load.rates.p99,
                    "rate_max": load.rates.largest,
                    "rate_max_ms": load.peak_at_ms,
                    "demand": load.demand.rate,
                    "demand_basis": load.demand.basis,
                    "throttled_requests": load.throttled_requests,
                    "throttle_time_ms": load.throttle_time_ms,
                    "logged_throttle_time_ms": load.logged_throttle_time_ms,
                    "muted_ms": load.muted_ms,
                    "near_bound_share": load.rates.near_bound_share,
                    "largest_amount": load.largest_amount,
                }
            )
    return pa.Table.from_pylist(rows, schema=DEMAND)


def observations_of(demand: pa.Table) -> list[Observation]:
    """Return the observations that rows of DEMAND of one day stand for, sorted by key."""
    loads: dict[SensorKey, list[tuple[BoundSensor, BrokerLoad]]] = defaultdict(list)
    for row in demand.to_pylist():
        key = tuple(row[name] for name in SENSOR)
        shape = RateShape(
            row["rate_p50"],
            row["rate_p95"],
            row["rate_p99"],
            row["rate_max"],
            row["near_bound_share"],
        )
        load = BrokerLoad(
            broker_id=row["broker_id"],
            demand=Demand(row["demand"], row["demand_basis"]),
            requests=row["requests"],
            seconds=row["seconds"],
            unknown_amounts=row["unknown_amounts"],
            rates=shape,
            peak_at_ms=row["rate_max_ms"],
            throttled_requests=row["throttled_requests"],
            throttle_time_ms=row["throttle_time_ms"],
            logged_throttle_time_ms=row["logged_throttle_time_ms"],
            muted_ms=row["muted_ms"],
            largest_amount=row["largest_amount"],
        )
        sensor = BoundSensor(key, row["requests"], row["last_ms"], row["quota_level"], row["bound"])
        loads[key].append((sensor, load))
    return [_observation([*of]) for _, of in sorted(loads.items())]


def _observation(loads: list[tuple[BoundSensor, BrokerLoad]]) -> Observation:
    loads.sort(key=lambda one: one[1].broker_id)
    # The sensor is the same on every broker.
    sensor = loads[0][0]
    brokers = tuple(load for _, load in loads)
    return Observation(sensor, max(load.seconds for load in brokers), brokers)
