"""Controller mutations → amounts: one per topic, in the order the controller met them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.judge.mutation_throttle import response_interval_ms
from spark_jobs.quota.partition_inventory import (
    MUTATION_APIS,
    THROTTLING_QUOTA_EXCEEDED,
    PartitionInventory,
    is_strict,
)
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.tables import BOOL, F64, I32, I64
from spark_jobs.transforms.amounts import AMOUNTS
from spark_jobs.transforms.broker_log import BrokerLog
from spark_jobs.transforms.resolution_table import ClientIndex, ResolutionTable

NO_ERROR = 0
MUTATION_COLUMNS = (
    "broker_id", "source_file", "source_line", "connection", "correlation_id", "api_name",
    "api_version", "user", "client_id", "is_forwarded", "log_time_ms", "recorded_estimate_us",
    "recorded_earliest_ms", "recorded_latest_ms", "response_queue_time_us", "send_time_us",
    "throttle_time_ms", "mutations", "validate_only",
)  # fmt: skip


def expand_mutations(
    requests: pa.Table,
    inventory: PartitionInventory,
    resolutions: ResolutionTable,
    broker_log: BrokerLog | None = None,
) -> pa.Table:
    """Return the amounts (schema AMOUNTS) of all mutation requests of one cluster and day.

    ``requests`` has MUTATION_COLUMNS; ``inventory`` is carried forward in place. With KRaft the
    controller decides, so its forwarded lines count and the brokers' own lines are twins.
    """
    rows = [r for r in requests.to_pylist() if r["api_name"] in MUTATION_APIS]
    rows = _where_decided(rows)
    rows.sort(key=lambda r: (r["recorded_estimate_us"], r["source_file"], r["source_line"]))
    amounts = [a for r in rows for a in _amounts_of(r, inventory)]
    return _resolve(amounts, resolutions, broker_log or BrokerLog())


def _where_decided(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    forwarded = [r for r in rows if r["is_forwarded"]]
    return forwarded or rows


def _amounts_of(row: Mapping[str, Any], inventory: PartitionInventory) -> Iterator[dict[str, Any]]:
    api_name = row["api_name"]
    response_earliest_ms, response_latest_ms = response_interval_ms(
        row["log_time_ms"], row["response_queue_time_us"], row["send_time_us"]
    )
    for position, mutation in enumerate(row["mutations"] or ()):
        topic, stated, error = mutation["topic"], mutation["partitions"], mutation["error_code"]
        # A topic that failed its validation is never charged (KIP-599).
        if error not in (NO_ERROR, THROTTLING_QUOTA_EXCEEDED):
            continue
        cost = inventory.cost(api_name, topic, stated)
        if error == NO_ERROR and not row["validate_only"]:
            inventory.apply(api_name, topic, stated)
        yield {
            **{name: row[name] for name in AMOUNTS.names if name in row},
            "quota_type": str(QuotaType.CONTROLLER_MUTATION_RATE),
            "order_us": row["recorded_estimate_us"],
            "resource_index": position,
            "resource": topic,
            "recorded_at_ms": row["recorded_estimate_us"] // 1000,
            "earliest_ms": row["recorded_earliest_ms"],
            "latest_ms": row["recorded_latest_ms"],
            "likely_from_ms": row["recorded_earliest_ms"],
            "amount": float("nan") if cost is None else float(cost),
            "behaviour": RECORD,
            "is_strict": is_strict(api_name, row["api_version"]),
            "response_earliest_ms": int(response_earliest_ms),
            "response_latest_ms": int(response_latest_ms),
            "logged_throttle_time_ms": row["throttle_time_ms"],
            "logged_admitted": error == NO_ERROR,
        }


def _resolve(
    amounts: Iterable[dict[str, Any]], resolutions: ResolutionTable, broker_log: BrokerLog
) -> pa.Table:
    listed = list(amounts)
    known = pa.schema([f for f in AMOUNTS if not listed or f.name in listed[0]])
    table = pa.Table.from_pylist(listed, schema=known)
    if not listed:
        return table
    (batch,) = table.combine_chunks().to_batches()
    at_ms = batch["recorded_at_ms"].to_numpy()
    found = resolutions.resolve(QuotaType.CONTROLLER_MUTATION_RATE, ClientIndex.of(batch), at_ms)
    request = resolutions.resolve(QuotaType.REQUEST_PERCENTAGE, ClientIndex.of(batch), at_ms)
    lives = broker_log.lives(batch["broker_id"].to_numpy(), at_ms)
    resolved = {
        # A refusal's delay is counted from a clock reading of its own: no record tells it apart.
        "recorded_logged_ms": pa.nulls(len(batch), I64),
        "restart_ms": pa.array(lives.restart_ms),
        # A lost mutation is told by its twin on the controller or the broker, not by gaps.
        "lost_requests": pa.nulls(len(batch), I32),
        "lost_bytes_max": pa.nulls(len(batch), F64),
        "has_request_bound": pa.array(~np.isnan(request.bound) & request.is_enabled),
        "unlogged_amount_max": pa.nulls(len(batch), F64),
        "request_bytes": pa.nulls(len(batch), I64),
        "fetch_max_bytes": pa.nulls(len(batch), I64),
        "has_records": pa.nulls(len(batch), BOOL),
        "quota_user": found.quota_user,
        "quota_client_id": found.quota_client_id,
        "quota_level": found.quota_level,
        "bound": pa.array(found.bound),
        "known_for_ms": pa.array(lives.known_for_ms(at_ms, found.known_from_ms)),
        "change_distance_ms": pa.array(
            np.minimum(at_ms - found.changed_at_ms, found.changes_at_ms - at_ms)
        ),
    }
    columns = [resolved[f.name] if f.name in resolved else batch[f.name] for f in AMOUNTS]
    full = pa.Table.from_arrays(
        [c.cast(f.type) for c, f in zip(columns, AMOUNTS, strict=True)], schema=AMOUNTS
    )
    return full.filter(pa.array(found.is_enabled))
