"""Made requests of a busy cluster's hour, broker by broker, as arrays.

Clients send at rates of Zipf's law, half of them in bursts (24 s on, 36 s off). A few are near
their quota, and their throttles are those that Kafka's rule gives at the record times, so the log
is a sound broker's. Seeded: the same arguments make the same requests.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates

DAY = dt.date(2026, 11, 10)
START_MS = 1_794_304_800_000  # 10:00 UTC
SAMPLES, WINDOW_MS = 11, 1000
PROFILE = RateProfile.RATE_3_8
ON_MS, CYCLE_MS = 24_000, 60_000
PRODUCES = 0.6
PLENTY = 1e12
_SPREAD_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much, by whom: ``hot_share`` of all rows are one (broker, user)'s.

    No request has fewer than ``bytes_min``; of produces ``overhead_bytes`` more are recorded.
    """

    requests: int
    brokers: int = 50
    clients: int = 400
    throttled_clients: int = 8
    hot_share: float = 0.0
    span_ms: int = 3_600_000
    seed: int = 20261121
    bytes_min: int = 80
    overhead_bytes: int = 0

    @property
    def users(self) -> list[str]:
        """Return the user of each client; four clients share one."""
        return [f"team-{client // 4:03d}" for client in range(self.clients)]

    @property
    def client_ids(self) -> list[str]:
        """Return the client id of each client."""
        return [f"service-{client:04d}" for client in range(self.clients)]

    @property
    def throttled(self) -> range:
        """Return the clients near their quota: one in so many, of all sizes but the largest."""
        every = self.clients // max(self.throttled_clients, 1)
        return range(every // 5, every // 5 + every * self.throttled_clients, every)

    @property
    def client_shares(self) -> np.ndarray:
        """Return which part of the requests each client sends."""
        weight = 1.0 / np.arange(1, self.clients + 1)
        return np.asarray(weight / weight.sum())

    @property
    def rows_of_brokers(self) -> list[int]:
        """Return how many requests each broker gets."""
        hot = int(self.requests * self.hot_share)
        rows = [(self.requests - hot) // self.brokers] * self.brokers
        rows[0] += hot
        return rows

    def bound(self, client: int) -> float:
        """Return a bound that a client near its quota just exceeds on average, in bytes/s."""
        if client not in self.throttled:
            return PLENTY
        per_broker = self.requests / self.brokers / (self.span_ms / 1000.0)
        produces = per_broker * PRODUCES * self.client_shares[client]
        return float(round(produces * self._mean_bytes * 1.05))

    @property
    def _mean_bytes(self) -> float:
        above = _SPREAD_BYTES * math.exp(-self.bytes_min / _SPREAD_BYTES)
        return self.bytes_min + above + self.overhead_bytes


@dataclass(frozen=True, slots=True)
class BrokerRows:
    """Requests of one broker in the order of their lines; arrays of one length."""

    client: np.ndarray
    recorded_ms: np.ndarray
    written_ms: np.ndarray  # the stamp of the line
    is_produce: np.ndarray
    size: np.ndarray  # of the records, in bytes
    throttle_ms: np.ndarray

    def __len__(self) -> int:
        return len(self.client)

    def parts(self, rows: int) -> Iterator[tuple[int, BrokerRows]]:
        """Yield ``rows`` at a time, and the place of the first of them."""
        for first in range(0, len(self), rows):
            part = slice(first, first + rows)
            yield first, BrokerRows(*(getattr(self, f.name)[part] for f in fields(self)))


def broker_rows(traffic: Traffic, broker_id: int) -> BrokerRows:
    """Return what one broker was asked for, and answered."""
    rng = np.random.default_rng([traffic.seed, broker_id])
    n, cold = traffic.rows_of_brokers[broker_id], traffic.rows_of_brokers[-1]
    client = rng.choice(traffic.clients, n, p=traffic.client_shares).astype(np.int32)
    if n > cold:  # the rest is one client's
        client[rng.choice(n, n - cold, replace=False)] = traffic.clients - 1
    offset_ms = rng.integers(0, traffic.span_ms, n)
    bursts = client % 2 == 1
    phase_ms = offset_ms % CYCLE_MS
    offset_ms[bursts] += (phase_ms * ON_MS // CYCLE_MS - phase_ms)[bursts]
    order = np.argsort(offset_ms, kind="stable")
    client, recorded_ms = client[order], START_MS + offset_ms[order]
    is_produce = rng.random(n) < PRODUCES
    size = np.maximum(rng.exponential(_SPREAD_BYTES, n).astype(np.int64), traffic.bytes_min)
    throttle_ms = _throttles(client, recorded_ms, is_produce, size, traffic)
    written_ms = recorded_ms + rng.integers(0, 3, n)
    lines = np.argsort(written_ms, kind="stable")
    columns = client, recorded_ms, written_ms, is_produce, size, throttle_ms
    return BrokerRows(*(column[lines] for column in columns))


def _throttles(
    client: np.ndarray,
    recorded_ms: np.ndarray,
    is_produce: np.ndarray,
    size: np.ndarray,
    traffic: Traffic,
) -> np.ndarray:
    throttle_ms = np.zeros(len(client), np.int64)
    rows = np.flatnonzero(is_produce & np.isin(client, list(traffic.throttled)))
    sensors = traffic.clients
    states = SensorStates.allocate([PROFILE] * sensors, [SAMPLES] * sensors, [WINDOW_MS] * sensors)
    bound = np.array([traffic.bound(c) for c in range(sensors)])
    n = len(rows)
    replayed = replay_rate(
        client[rows], recorded_ms[rows], size[rows] + traffic.overhead_bytes, bound[client[rows]],
        np.full(n, RECORD), np.zeros(n, np.int64), np.full(n, NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )  # fmt: skip
    throttle_ms[rows] = replayed.throttle_time_ms
    return throttle_ms
