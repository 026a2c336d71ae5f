"""A warehouse of made requests: what an ingest of a busy cluster's hour would have written.

Clients send at rates of Zipf's law, half of them in bursts (24 s on, 36 s off). A few are near
their quota, and their throttles are those that Kafka's rule gives at the record times, so the log
is a sound broker's. Seeded: the same arguments make the same tables.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.jobs.local_table import write_local
from spark_jobs.jobs.part_writer import ROW_GROUP_ROWS
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.tables import BROKERS, DEFAULT, FILES, QUOTA_EVENTS, REQUESTS
from spark_jobs.warehouse import RunScope

DAY = dt.date(2026, 11, 10)
START_MS = 1_794_304_800_000  # 10:00 UTC
SAMPLES, WINDOW_MS = 11, 1000
PROFILE = RateProfile.RATE_3_8
CLUSTER = "made"
ON_MS, CYCLE_MS = 24_000, 60_000
PRODUCES = 0.6
PLENTY = 1e12


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much, by whom: ``hot_share`` of all rows are one (broker, user)'s."""

    requests: int
    brokers: int = 50
    clients: int = 400
    throttled_clients: int = 8
    hot_share: float = 0.0
    span_ms: int = 3_600_000
    seed: int = 20261121


def make_warehouse(folder: Path, traffic: Traffic) -> RunScope:
    """Write the tables that a replay reads; return their scope."""
    scope = RunScope(folder, CLUSTER, DAY)
    for broker_id, rows in enumerate(_rows_of_brokers(traffic)):
        _write_requests(scope, broker_id, rows, traffic)
    brokers = [_broker(broker_id) for broker_id in range(traffic.brokers)]
    write_local(pa.Table.from_pylist(brokers, BROKERS), "brokers", scope)
    rows_of = _rows_of_brokers(traffic)
    files = [_file(broker_id, rows) for broker_id, rows in enumerate(rows_of)]
    write_local(pa.Table.from_pylist(files, FILES), "files", scope)
    events = list(_quotas(traffic))
    write_local(pa.Table.from_pylist(events, QUOTA_EVENTS), "quota_events", scope)
    return scope


def _rows_of_brokers(traffic: Traffic) -> list[int]:
    hot = int(traffic.requests * traffic.hot_share)
    rows = [(traffic.requests - hot) // traffic.brokers] * traffic.brokers
    rows[0] += hot
    return rows


def _client_rates(traffic: Traffic) -> np.ndarray:
    weight = 1.0 / np.arange(1, traffic.clients + 1)
    return np.asarray(weight / weight.sum())


def _names(traffic: Traffic) -> tuple[list[str], list[str]]:
    users = [f"team-{client // 4:03d}" for client in range(traffic.clients)]
    return users, [f"service-{client:04d}" for client in range(traffic.clients)]


def _bound(client: int, traffic: Traffic) -> float:
    """Return a bound that a client near its quota just exceeds on average."""
    if client not in _throttled(traffic):
        return PLENTY
    per_broker = traffic.requests / traffic.brokers / (traffic.span_ms / 1000.0)
    produces = per_broker * PRODUCES * _client_rates(traffic)[client]
    return float(round(produces * _MEAN_BYTES * 1.05))


def _throttled(traffic: Traffic) -> range:
    """Return the clients near their quota: one in so many, of all sizes but the largest."""
    every = traffic.clients // max(traffic.throttled_clients, 1)
    return range(every // 5, every // 5 + every * traffic.throttled_clients, every)


_MEAN_BYTES = 20_000


def _write_requests(scope: RunScope, broker_id: int, n: int, traffic: Traffic) -> None:
    rng = np.random.default_rng([traffic.seed, broker_id])
    cold = (traffic.requests - int(traffic.requests * traffic.hot_share)) // traffic.brokers
    client = rng.choice(traffic.clients, n, p=_client_rates(traffic)).astype(np.int32)
    if n > cold:  # the rest is one client's
        client[rng.choice(n, n - cold, replace=False)] = traffic.clients - 1
    offset_ms = rng.integers(0, traffic.span_ms, n)
    bursts = client % 2 == 1
    phase_ms = offset_ms % CYCLE_MS
    offset_ms[bursts] += (phase_ms * ON_MS // CYCLE_MS - phase_ms)[bursts]
    order = np.argsort(offset_ms, kind="stable")
    client, recorded_ms = client[order], START_MS + offset_ms[order]
    is_produce = rng.random(n) < PRODUCES
    size = np.maximum(rng.exponential(_MEAN_BYTES, n).astype(np.int64), 80)
    throttle_ms = _throttles(client, recorded_ms, is_produce, size, traffic)
    written_ms = recorded_ms + rng.integers(0, 3, n)
    line_order = np.argsort(written_ms, kind="stable")
    columns = _columns(broker_id, client, is_produce, size, throttle_ms, recorded_ms, written_ms,
                       rng, traffic)  # fmt: skip
    rows = pa.table([columns[f.name] for f in REQUESTS], schema=REQUESTS.remove_metadata())
    rows = rows.take(pa.array(line_order))
    rows = rows.set_column(
        REQUESTS.get_field_index("source_line"),
        REQUESTS.field("source_line"),
        pa.array(np.arange(1, n + 1)),
    )
    folder = scope.partition_dir("requests")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        rows.cast(REQUESTS),
        folder / f"part-{broker_id:04d}.parquet",
        compression="zstd",
        row_group_size=ROW_GROUP_ROWS,
    )


def _throttles(
    client: np.ndarray,
    recorded_ms: np.ndarray,
    is_produce: np.ndarray,
    size: np.ndarray,
    traffic: Traffic,
) -> np.ndarray:
    throttle_ms = np.zeros(len(client), np.int64)
    rows = np.flatnonzero(is_produce & np.isin(client, list(_throttled(traffic))))
    sensors = traffic.clients
    states = SensorStates.allocate([PROFILE] * sensors, [SAMPLES] * sensors, [WINDOW_MS] * sensors)
    bound = np.array([_bound(c, traffic) for c in range(sensors)])
    n = len(rows)
    replayed = replay_rate(
        client[rows], recorded_ms[rows], size[rows], bound[client[rows]],
        np.full(n, RECORD), np.zeros(n, np.int64), np.full(n, NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )  # fmt: skip
    throttle_ms[rows] = replayed.throttle_time_ms
    return throttle_ms


def _columns(
    broker_id: int,
    client: np.ndarray,
    is_produce: np.ndarray,
    size: np.ndarray,
    throttle_ms: np.ndarray,
    recorded_ms: np.ndarray,
    written_ms: np.ndarray,
    rng: np.random.Generator,
    traffic: Traffic,
) -> dict[str, pa.Array]:
    n = len(client)
    users, ids = _names(traffic)
    connection = [
        f"10.0.{broker_id}.5:9092-10.9.{c % 250}.{c // 250}:{40_000 + c}-{c}"
        for c in range(traffic.clients)
    ]

    def named(names: list[str], codes: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names).cast(pa.string())

    handler_us = rng.integers(80, 900, n)
    remote_us = np.where(is_produce, rng.integers(0, 2_000, n), 0)
    queue_us, send_us = rng.integers(5, 90, n), rng.integers(10, 400, n)
    topic = named([f"topic-{t}" for t in range(200)], rng.integers(0, 200, n))
    offsets = pa.array(np.arange(n + 1), pa.int32())
    topics = pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays([topic, pa.array(size)], ["topic", "records_bytes"])
    )
    nothing = {f.name: pa.nulls(n, f.type) for f in REQUESTS}
    return nothing | {
        "broker_id": pa.array(np.full(n, broker_id), pa.int32()),
        "log_time_ms": pa.array(written_ms),
        "recorded_earliest_ms": pa.array(recorded_ms - 1),
        "recorded_latest_ms": pa.array(recorded_ms),
        "recorded_estimate_us": pa.array(recorded_ms * 1000),
        "connection": named(connection, client),
        "correlation_id": pa.array(np.arange(n), pa.int32()),
        "api_key": pa.array(np.where(is_produce, 0, 1), pa.int16()),
        "api_name": named(["PRODUCE", "FETCH"], np.where(is_produce, 0, 1)),
        "api_version": pa.array(np.where(is_produce, 11, 17), pa.int16()),
        "principal": named([f"User:{u}" for u in users], client),
        "user": named(users, client),
        "client_id": named(ids, client),
        "listener": named(["SASL_SSL"], np.zeros(n, np.int32)),
        "is_forwarded": pa.array(np.zeros(n, bool)),
        "acks": pa.array(np.full(n, -1), pa.int16(), mask=~is_produce),
        "is_replica": pa.array(np.zeros(n, bool)),
        "fetch_max_bytes": pa.array(np.full(n, 52_428_800), mask=is_produce),
        "request_bytes": pa.array(np.where(is_produce, size, 90)),
        "request_bytes_known": pa.array(np.ones(n, bool)),
        "response_bytes": pa.array(size, mask=is_produce),
        "total_time_us": pa.array(handler_us + remote_us + queue_us + send_us),
        "request_queue_time_us": pa.array(queue_us),
        "handler_time_us": pa.array(handler_us),
        "remote_time_us": pa.array(remote_us),
        "response_queue_time_us": pa.array(queue_us),
        "send_time_us": pa.array(send_us),
        "throttle_time_ms": pa.array(throttle_ms, pa.int32()),
        "software_name": named(["apache-kafka-java"], np.zeros(n, np.int32)),
        "software_version": named(["4.1.0"], np.zeros(n, np.int32)),
        "error_codes": pa.ListArray.from_arrays(offsets, pa.array(np.zeros(n), pa.int16())),
        "topics": topics,
        "source_file": named([f"broker={broker_id}/kafka-request.log"], np.zeros(n, np.int32)),
        "source_line": pa.array(np.arange(n)),
    }


def _broker(broker_id: int) -> dict[str, object]:
    return {
        "broker_id": broker_id, "version": "4.1.0", "version_source": "option",
        "uses_zookeeper": False, "rate_profile": str(PROFILE), "samples": SAMPLES,
        "window_ms": WINDOW_MS, "controller_samples": SAMPLES, "controller_window_ms": WINDOW_MS,
    }  # fmt: skip


def _file(broker_id: int, rows: int) -> dict[str, object]:
    return {
        "source_file": f"broker={broker_id}/kafka-request.log", "broker_id": broker_id,
        "bytes_read": 1_300 * rows, "lines_read": rows, "requests": rows, "quarantined": 0,
        "other": 0, "other_days": 0, "duplicated": 0, "digest": f"{broker_id:032x}",
    }  # fmt: skip


def _quotas(traffic: Traffic) -> Iterator[dict[str, object]]:
    users, ids = _names(traffic)
    before = {"broker_id": None, "earliest_ms": START_MS - 10**9, "latest_ms": START_MS - 10**9,
              "source": "snapshot", "source_file": None, "source_line": None}  # fmt: skip
    for quota_type in ("producer_byte_rate", "consumer_byte_rate"):
        everyone = {"quota_user": DEFAULT, "quota_client_id": DEFAULT, "bound": PLENTY}
        yield before | everyone | {"quota_type": quota_type}
    for client in _throttled(traffic):
        entity = {"quota_user": users[client], "quota_client_id": ids[client]}
        bound = _bound(client, traffic)
        yield before | entity | {"quota_type": "producer_byte_rate", "bound": bound}
