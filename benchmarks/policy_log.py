"""A day's requests in small: made up, the same for the same seed, as what-if reads them.

Batch after batch in the order of time, so that a log of any length needs the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.quota.partition_inventory import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    STRICT_SINCE,
)
from spark_jobs.warehouse.tables import MUTATION, REQUESTS, TOPIC_BYTES
from spark_jobs.whatif.clients.normalized_requests import CONNECTION_COLUMNS

SCHEMA = pa.schema([REQUESTS.field(name) for name in CONNECTION_COLUMNS])
SEED = 20261121
BATCH_ROWS = 10_000
START_US = 1_700_000_000_123_000
BROKERS = (1, 2, 3)
TOPICS = tuple(f"topic-{i}" for i in range(12))
BYTE_CLIENTS, BYTE_GAP_US = 200, 5_000
MUTATION_CLIENTS, MUTATION_GAP_US = 60, 50_000
# The topics that mutations create, extend and delete in turn.
MUTATED_TOPICS = 1_000
# No request is larger than its client's bound lets through in one window: a fetch that is would be
# taken back and asked for again for ever.
PART_BYTES_MAX = 300_000

Ints = npt.NDArray[np.int64]
Columns = dict[str, Any]


def byte_batches(rows: int, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield produces and fetches of 1 to 3 topics; each client does one of the two."""
    return _batches(rows, batch_rows, BYTE_CLIENTS, BYTE_GAP_US, _byte_columns)


def mutation_batches(rows: int, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield requests that create 1 to 3 topics, add partitions to them, and delete them."""
    return _batches(rows, batch_rows, MUTATION_CLIENTS, MUTATION_GAP_US, _mutation_columns)


def _batches(
    rows: int,
    batch_rows: int,
    clients: int,
    gap_us: int,
    columns_of: Callable[[np.random.Generator, Ints, Ints], Columns],
) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(SEED)
    # Zipf: the n-th client sends 1/n of what the first does.
    share = 1 / np.arange(1, clients + 1)
    names = np.array([f"client-{i}" for i in range(clients)])
    users = np.array([f"user-{i % (clients // 4)}" for i in range(clients)])
    now_us = START_US
    for first in range(0, rows, batch_rows):
        n = min(batch_rows, rows - first)
        client = rng.choice(clients, n, p=share / share.sum())
        at_us = now_us + np.cumsum(rng.exponential(gap_us, n).astype(np.int64))
        now_us = int(at_us[-1])
        handler_us = rng.exponential(800, n).astype(np.int64) + 50
        nothing = np.zeros(n, np.int64)
        columns = {
            "recorded_estimate_us": at_us // 1000 * 1000,
            # Decided on when handled, and answered at once: a broker without quotas.
            "log_time_ms": at_us // 1000,
            "total_time_us": handler_us,
            "request_queue_time_us": nothing,
            "handler_time_us": handler_us,
            "remote_time_us": nothing,
            "throttle_time_ms": nothing,
            "source_file": ["kafka-request.log"] * n,
            "source_line": np.arange(first, first + n),
            "user": users[client],
            "client_id": names[client],
            "listener": ["PLAINTEXT"] * n,
            "is_replica": np.zeros(n, np.bool_),
            "is_forwarded": np.zeros(n, np.bool_),
            **columns_of(rng, client, np.arange(first, first + n)),
        }
        columns["connection"] = [
            f"10.0.0.{b}:9092-10.1.0.1:{40_000 + c}"
            for b, c in zip(columns["broker_id"].tolist(), client.tolist(), strict=True)
        ]
        arrays = [_array(columns.get(field.name), field.type, n) for field in SCHEMA]
        yield pa.record_batch(arrays, schema=SCHEMA)


def _byte_columns(rng: np.random.Generator, client: Ints, position: Ints) -> Columns:
    n = len(client)
    is_produce = client % 2 == 0
    parts = rng.choice([1, 1, 2, 3], n)
    sizes = rng.lognormal(9.5, 1.0, int(parts.sum())).astype(np.int64)
    records_bytes = np.minimum(sizes, PART_BYTES_MAX)
    starts = np.cumsum(parts) - parts
    # Of one request all different: 5 and 12 have no divisor in common.
    first = np.repeat(rng.integers(0, len(TOPICS), n), parts)
    number = np.arange(len(first)) - np.repeat(starts, parts)
    topic = np.array(TOPICS)[(first + 5 * number) % len(TOPICS)]
    size = np.add.reduceat(records_bytes, starts) + 120
    return {
        "broker_id": rng.choice(BROKERS, n),
        "api_name": np.where(is_produce, "PRODUCE", "FETCH"),
        "api_version": np.where(is_produce, 9, 12),
        "acks": pa.array(rng.choice([-1, 1, 1, 0], n), mask=~is_produce),
        "request_bytes": np.where(is_produce, size, 150),
        "response_bytes": np.where(is_produce, 60, size),
        "error_codes": _lists([pa.array(np.zeros(n, np.int16))], np.ones(n, np.int64), pa.int16()),
        "topics": _lists([pa.array(topic), pa.array(records_bytes)], parts, TOPIC_BYTES),
    }


def _mutation_columns(rng: np.random.Generator, client: Ints, position: Ints) -> Columns:
    n = len(client)
    turn, step = np.divmod(position, 3)
    api_name = np.array([CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS])[step]
    # A fifth of the requests has the last version that is held and never refused.
    version = np.array([STRICT_SINCE[name] for name in api_name]) - (rng.random(n) < 0.2)
    parts = 1 + turn % 3
    of_part = np.repeat(np.arange(n), parts)
    number = np.arange(len(of_part)) - np.repeat(np.cumsum(parts) - parts, parts)
    place = (turn[of_part] * 3 + number) % MUTATED_TOPICS
    partitions = 1 + place % 6 + 3 * (step[of_part] == 1)
    stated = pa.array(partitions.astype(np.int32), mask=step[of_part] == 2)
    topic = pa.array([f"topic-{i}" for i in place.tolist()])
    no_error = pa.array(np.zeros(len(of_part), np.int16))
    return {
        "broker_id": np.full(n, BROKERS[0]),
        "api_name": api_name,
        "api_version": version,
        "mutations": _lists([topic, stated, no_error], parts, MUTATION),
        "validate_only": np.zeros(n, np.bool_),
    }


def _lists(columns: list[pa.Array], lengths: Ints, of: pa.DataType) -> pa.Array:
    """Return lists of so many entries each, of values or of structs of the columns."""
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    values = columns[0]
    if isinstance(of, pa.StructType):
        typed = [c.cast(field.type) for c, field in zip(columns, of, strict=True)]
        values = pa.StructArray.from_arrays(typed, fields=list(of))
    return pa.ListArray.from_arrays(ends, values)


def _array(values: Any, kind: pa.DataType, n: int) -> pa.Array:
    if values is None:
        return pa.nulls(n, kind)
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)
