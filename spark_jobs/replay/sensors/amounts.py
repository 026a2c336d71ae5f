"""Requests → the amounts of time that their brokers recorded on request quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.request_time import PERCENT_PER_US, network_time_max_us, record_interval_ms
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable, ResolvedRows
from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.warehouse.tables import BOOL, F64, I8, I16, I32, I64, STR

AMOUNTS = pa.schema(
    [
        ("broker_id", I32),
        ("quota_type", STR),
        ("quota_user", STR),
        ("quota_client_id", STR),
        ("order_us", I64),
        ("source_file", STR),
        ("source_line", I64),
        ("resource_index", I32),
        ("resource", STR),
        ("connection", STR),
        ("correlation_id", I32),
        ("api_name", STR),
        ("api_version", I16),
        ("user", STR),
        ("client_id", STR),
        ("quota_level", STR),
        ("log_time_ms", I64),
        ("recorded_at_ms", I64),
        ("earliest_ms", I64),  # the request's admissible record times
        ("latest_ms", I64),
        ("restart_ms", I64),  # the start of the broker's life the row is of, 0: not known
        ("amount", F64),
        ("behaviour", I8),
        ("is_strict", BOOL),
        ("bound", F64),
        ("known_for_ms", I64),
        ("change_distance_ms", I64),
        ("has_request_bound", BOOL),
        ("logged_throttle_time_ms", I32),
        ("logged_admitted", BOOL),
        # Requests that may be missing from what the rate rests on, and their size together at
        # most, in the sensor's unit; null: not looked for.
        ("lost_requests", I32),
        ("lost_bytes_max", F64),
        # What the request quota counts once the response was sent, at most; null: other quotas.
        ("unlogged_amount_max", F64),
        # When the throttle in the response was computed; null: other quotas than mutations.
        ("response_earliest_ms", I64),
        ("response_latest_ms", I64),
        # Whether the replayed bucket is the one that decided (kernels.SAME_BUCKET and so on); null:
        # other quotas than mutations.
        ("bucket_gap", I8),
    ]
)
# Amounts of a sensor are recorded in this order; the rest of the key makes it total.
LINE_ORDER = ("order_us", "source_file", "source_line")
RECORD_ORDER = (*LINE_ORDER, "resource_index")

_LINE_COLUMNS = (
    "broker_id",
    "source_file",
    "source_line",
    "connection",
    "correlation_id",
    "api_name",
    "api_version",
    "user",
    "client_id",
    "log_time_ms",
)
REQUEST_COLUMNS = (
    *_LINE_COLUMNS,
    "listener", "is_forwarded", "is_replica", "acks", "throttle_time_ms", "handler_time_us",
    "remote_time_us", "response_queue_time_us", "send_time_us", "request_bytes",
    "recorded_estimate_us", "recorded_earliest_ms", "recorded_latest_ms",
)  # fmt: skip

# Requests between brokers are exempt from the request quota (KafkaApis: authorizeClusterOperation
# followed by sendResponseExemptThrottle).
EXEMPT_APIS = (
    "LEADER_AND_ISR", "ALTER_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN",
    "WRITE_TXN_MARKERS", "ALTER_PARTITION", "ALLOCATE_PRODUCER_IDS", "BROKER_HEARTBEAT",
    "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION", "UNREGISTER_BROKER", "ENVELOPE", "VOTE",
    "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "FETCH_SNAPSHOT", "UPDATE_RAFT_VOTER",
)  # fmt: skip

AmountBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def expand_request_times(
    resolutions: ResolutionTable,
    controller_listeners: frozenset[str],
    broker_log: BrokerLog | None = None,
    lost: LostRequests | None = None,
    read_us: Mapping[int, float] | None = None,
) -> AmountBatches:
    """Return the ``mapInArrow`` function that turns request batches into request-time amounts.

    The batches have REQUEST_COLUMNS. ``read_us`` is the longest read of a small request per broker
    (``request_time.read_time_us``).
    """
    log = broker_log or BrokerLog()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _expand(batch, resolutions, controller_listeners, log, lost, read_us or {})

    return run


def _expand(
    batch: pa.RecordBatch,
    resolutions: ResolutionTable,
    controller_listeners: frozenset[str],
    broker_log: BrokerLog,
    lost: LostRequests | None,
    read_us: Mapping[int, float],
) -> pa.RecordBatch:
    index = ClientIndex.of(batch)
    at_ms = batch["recorded_estimate_us"].to_numpy() // 1000
    on_client_listener = ~np.isin(
        np.asarray(batch["listener"].to_pylist(), object), list(controller_listeners)
    )
    from_client = on_client_listener & ~bools(batch["is_replica"]) & ~bools(batch["is_forwarded"])
    request = resolutions.resolve(QuotaType.REQUEST_PERCENTAGE, index, at_ms)
    api_name = np.asarray(batch["api_name"].to_pylist(), object)
    without_response = (api_name == "PRODUCE") & (floats(batch["acks"]) == 0)
    return _amounts(
        batch, QuotaType.REQUEST_PERCENTAGE, request, broker_log, lost,
        rows=from_client & ~np.isin(api_name, EXEMPT_APIS) & ~without_response & request.is_enabled,
        # Percent of one second: nanoseconds times 1e-7 (ClientRequestQuotaManager).
        amount=batch["handler_time_us"].to_numpy() * 1000 * 1e-7,
        behaviour=np.full(len(batch), RECORD, np.int8),
        has_request_bound=~np.isnan(request.bound) & request.is_enabled,
        own=_request_time_columns(batch, read_us),
    )  # fmt: skip


def _request_time_columns(batch: pa.RecordBatch, read_us: Mapping[int, float]) -> dict[str, object]:
    """Return when and how much more of each request the request quota counts."""
    acks = floats(batch["acks"])
    earliest_ms, latest_ms = record_interval_ms(
        batch["log_time_ms"].to_numpy(),
        batch["remote_time_us"].to_numpy(),
        batch["response_queue_time_us"].to_numpy(),
        batch["send_time_us"].to_numpy(),
        completes_in_handler=(acks == 0) | (acks == 1),
    )
    brokers, broker = np.unique(batch["broker_id"].to_numpy(), return_inverse=True)
    later_us = network_time_max_us(
        batch["send_time_us"].to_numpy(),
        floats(batch["request_bytes"]),
        np.array([read_us.get(b, 0.0) for b in brokers.tolist()])[broker],
    )
    estimate_ms = batch["recorded_estimate_us"].to_numpy() // 1000
    return {
        "recorded_at_ms": np.clip(estimate_ms, earliest_ms, latest_ms),
        "earliest_ms": earliest_ms,
        "latest_ms": latest_ms,
        "unlogged_amount_max": later_us * PERCENT_PER_US,
    }


def _amounts(
    batch: pa.RecordBatch,
    quota_type: QuotaType,
    resolved: ResolvedRows,
    broker_log: BrokerLog,
    lost: LostRequests | None,
    *,
    rows: np.ndarray,
    amount: np.ndarray,
    behaviour: np.ndarray,
    has_request_bound: np.ndarray,
    own: Mapping[str, object] | None = None,
) -> pa.RecordBatch:
    """Return the amounts of ``rows`` on one quota; ``own`` has columns that only it needs."""
    at_ms = batch["recorded_estimate_us"].to_numpy() // 1000
    latest_ms = batch["recorded_latest_ms"].to_numpy()
    lives = broker_log.lives(batch["broker_id"].to_numpy(), latest_ms)
    n = len(batch)
    columns: dict[str, object] = {name: batch[name] for name in _LINE_COLUMNS}
    columns |= {
        "quota_type": pa.array([str(quota_type)] * n, STR) if n else pa.array([], STR),
        "quota_user": resolved.quota_user,
        "quota_client_id": resolved.quota_client_id,
        "quota_level": resolved.quota_level,
        "order_us": batch["recorded_estimate_us"],
        "resource_index": np.zeros(n, np.int32),
        "resource": pa.nulls(n, STR),
        "recorded_at_ms": at_ms,
        "earliest_ms": batch["recorded_earliest_ms"],
        "latest_ms": latest_ms,
        "restart_ms": lives.restart_ms,
        "amount": amount,
        "behaviour": behaviour,
        "is_strict": np.zeros(n, bool),
        "bound": resolved.bound,
        "known_for_ms": lives.known_for_ms(at_ms, resolved.known_from_ms),
        "change_distance_ms": np.minimum(
            at_ms - resolved.changed_at_ms, resolved.changes_at_ms - at_ms
        ),
        "has_request_bound": has_request_bound,
        "logged_throttle_time_ms": batch["throttle_time_ms"],
        "logged_admitted": np.ones(n, bool),
    }
    earliest_ms = batch["recorded_earliest_ms"].to_numpy()
    columns |= _lost_columns(lost, quota_type, batch["broker_id"], resolved, earliest_ms, latest_ms)
    columns |= own or {}
    full = pa.RecordBatch.from_arrays(
        [
            as_column(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type)
            for f in AMOUNTS
        ],
        schema=AMOUNTS,
    )
    return full.filter(pa.array(rows))


def _lost_columns(
    lost: LostRequests | None,
    quota_type: QuotaType,
    broker_id: pa.Array,
    resolved: ResolvedRows,
    earliest_ms: np.ndarray,
    latest_ms: np.ndarray,
) -> dict[str, object]:
    if lost is None:
        return {
            "lost_requests": pa.nulls(len(broker_id), I32),
            "lost_bytes_max": pa.nulls(len(broker_id), F64),
        }
    requests, size_max = lost.of_amounts(
        quota_type,
        broker_id,
        resolved.quota_user,
        resolved.quota_client_id,
        earliest_ms,
        latest_ms,
    )
    return {"lost_requests": requests, "lost_bytes_max": size_max}


def as_column(values: object, kind: pa.DataType) -> pa.Array:
    """Return ``values`` (an Arrow array or anything ``pa.array`` takes) as an array of ``kind``."""
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def bools(column: pa.Array) -> np.ndarray:
    """Return an Arrow column of booleans as an array."""
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


def floats(column: pa.Array) -> np.ndarray:
    """Return an Arrow column of numbers as an array of doubles, nulls as NaN."""
    return np.asarray(pc.cast(column, F64).to_numpy(zero_copy_only=False))
