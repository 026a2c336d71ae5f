"""A warehouse of made requests: what an ingest of a busy cluster's hour would have written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.made_traffic import (
    DAY,
    PLENTY,
    PROFILE,
    SAMPLES,
    START_MS,
    WINDOW_MS,
    BrokerRows,
    Traffic,
    broker_rows,
)
from spark_jobs.ingest.read_logs import ROW_GROUP_ROWS
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import (
    BROKERS,
    FILES,
    QUOTA_EVENTS,
    REQUESTS,
)
from spark_jobs.warehouse.worker_files import REQUESTS_SEARCHED_BY, layout
from spark_jobs.warehouse.write import write_table

CLUSTER = "made"
REQUESTS_OF_ONE_PROCESS = 500_000
"""Fewer are written sooner than others have started."""


def make_warehouse(folder: Path, traffic: Traffic) -> RunScope:
    """Write the tables that a replay reads, many requests on all cores; return their scope."""
    scope = RunScope(folder, CLUSTER, DAY)
    scope.partition_dir("requests").mkdir(parents=True)
    write = partial(_write_requests, scope, traffic)
    if traffic.requests < REQUESTS_OF_ONE_PROCESS:
        list(map(write, range(traffic.brokers)))
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(write, range(traffic.brokers)))
    brokers = [_broker(broker_id) for broker_id in range(traffic.brokers)]
    write_table(pa.Table.from_pylist(brokers, BROKERS), "brokers", scope)
    files = [_file(broker_id, rows) for broker_id, rows in enumerate(traffic.rows_of_brokers)]
    write_table(pa.Table.from_pylist(files, FILES), "files", scope)
    events = list(_quotas(traffic))
    write_table(pa.Table.from_pylist(events, QUOTA_EVENTS), "quota_events", scope)
    return scope


def _write_requests(scope: RunScope, traffic: Traffic, broker_id: int) -> None:
    """Write one broker's requests as the ingest lays them out."""
    rng = np.random.default_rng([traffic.seed, broker_id, 1])
    path = scope.partition_dir("requests") / f"part-{broker_id:04d}.parquet"
    with pq.ParquetWriter(path, REQUESTS, **layout(REQUESTS, REQUESTS_SEARCHED_BY)) as writer:
        for first, rows in broker_rows(traffic, broker_id).parts(ROW_GROUP_ROWS):
            columns = _columns(broker_id, rows, first, rng, traffic)
            writer.write_table(pa.table([columns[f.name] for f in REQUESTS], schema=REQUESTS))


def _columns(
    broker_id: int, rows: BrokerRows, first: int, rng: np.random.Generator, traffic: Traffic
) -> dict[str, pa.Array]:
    n, client, is_produce, size = len(rows), rows.client, rows.is_produce, rows.size
    users = traffic.users
    connection = [
        f"10.0.{broker_id}.5:9092-10.9.{c % 250}.{c // 250}:{40_000 + c}-{c}"
        for c in range(traffic.clients)
    ]

    def named(names: list[str], codes: np.ndarray) -> pa.Array:
        return pa.array(names).take(pa.array(codes, pa.int32()))

    def same(name: str) -> pa.Array:
        return pa.repeat(name, n)

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
        "log_time_ms": pa.array(rows.written_ms),
        "recorded_earliest_ms": pa.array(rows.recorded_ms - 2),
        "recorded_latest_ms": pa.array(rows.recorded_ms + 1),
        "recorded_estimate_us": pa.array(rows.recorded_ms * 1000),
        "connection": named(connection, client),
        "correlation_id": pa.array(np.arange(first, first + n), pa.int32()),
        "api_key": pa.array(np.where(is_produce, 0, 1), pa.int16()),
        "api_name": named(["PRODUCE", "FETCH"], np.where(is_produce, 0, 1)),
        "api_version": pa.array(np.where(is_produce, 11, 17), pa.int16()),
        "principal": named([f"User:{u}" for u in users], client),
        "user": named(users, client),
        "client_id": named(traffic.client_ids, client),
        "listener": same("SASL_SSL"),
        "is_forwarded": pa.array(np.zeros(n, bool)),
        "acks": pa.array(np.full(n, -1), pa.int16(), mask=~is_produce),
        "is_replica": pa.array(np.zeros(n, bool)),
        "fetch_max_bytes": pa.array(np.full(n, 52_428_800), mask=is_produce),
        "request_bytes": pa.array(np.where(is_produce, size + traffic.overhead_bytes, 90)),
        "request_bytes_known": pa.array(np.ones(n, bool)),
        "response_bytes": pa.array(size, mask=is_produce),
        "total_time_us": pa.array(handler_us + remote_us + queue_us + send_us),
        "request_queue_time_us": pa.array(queue_us),
        "handler_time_us": pa.array(handler_us),
        "remote_time_us": pa.array(remote_us),
        "response_queue_time_us": pa.array(queue_us),
        "send_time_us": pa.array(send_us),
        "throttle_time_ms": pa.array(rows.throttle_ms, pa.int32()),
        "software_name": same("apache-kafka-java"),
        "software_version": same("4.1.0"),
        "error_codes": pa.ListArray.from_arrays(offsets, pa.array(np.zeros(n), pa.int16())),
        "topics": topics,
        "source_file": same(f"broker={broker_id}/kafka-request.log"),
        "source_line": pa.array(np.arange(first + 1, first + n + 1)),
    }


def _broker(broker_id: int) -> dict[str, object]:
    return {
        "broker_id": broker_id, "version": "4.1.0", "version_source": "option",
        "uses_zookeeper": False, "rate_profile": str(PROFILE), "throttle_max_ms": None,
        "newer_than_known": None, "samples": SAMPLES, "window_ms": WINDOW_MS,
        "controller_samples": SAMPLES, "controller_window_ms": WINDOW_MS,
    }  # fmt: skip


def _file(broker_id: int, rows: int) -> dict[str, object]:
    return {
        "source_file": f"broker={broker_id}/kafka-request.log", "broker_id": broker_id,
        "bytes_read": 1_300 * rows, "lines_read": rows, "requests": rows, "quarantined": 0,
        "other": 0, "other_days": 0, "duplicated": 0, "digest": f"{broker_id:032x}",
    }  # fmt: skip


def _quotas(traffic: Traffic) -> Iterator[dict[str, object]]:
    before = {"broker_id": None, "earliest_ms": START_MS - 10**9, "latest_ms": START_MS - 10**9,
              "source": "snapshot", "source_file": None, "source_line": None}  # fmt: skip
    for quota_type in ("producer_byte_rate", "consumer_byte_rate"):
        everyone = {"quota_user": DEFAULT, "quota_client_id": DEFAULT, "bound": PLENTY}
        yield before | everyone | {"quota_type": quota_type}
    for client in traffic.throttled:
        user, client_id = traffic.users[client], traffic.client_ids[client]
        entity = {"quota_user": user, "quota_client_id": client_id}
        bound = traffic.bound(client)
        yield before | entity | {"quota_type": "producer_byte_rate", "bound": bound}
