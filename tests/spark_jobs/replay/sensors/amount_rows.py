"""Batches of amounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spark_jobs.replay.sensors.amounts import AMOUNTS
from tests.builders.tables_builder import NOON_MS


def amount(at_ms: int, value: float, **columns: Any) -> dict[str, Any]:
    """Return a row of AMOUNTS, ``at_ms`` after noon; times among ``columns`` are since noon too."""
    times = {name: columns.pop(name, at_ms) for name in _TIMES}
    return {
        "broker_id": 1,
        "quota_type": "producer_byte_rate",
        "quota_user": "alice",
        "quota_client_id": "",
        "order_us": (NOON_MS + at_ms) * 1000,
        "source_file": "f",
        "source_line": 1,
        "resource_index": 0,
        "connection": "c",
        "correlation_id": 1,
        "api_name": "PRODUCE",
        "api_version": 11,
        "user": "alice",
        "quota_level": "user",
        "restart_ms": 0,
        "amount": value,
        "is_atomic": True,
        "is_order_open": False,
        "is_strict": False,
        "bound": 1000.0,
        "known_for_ms": 100_000,
        "since_change_ms": 100_000,
        "change_distance_ms": 100_000,
        "has_request_bound": False,
        "logged_throttle_time_ms": 0,
        "logged_admitted": True,
        "bucket_gap": 0,
        **{name: NOON_MS + time for name, time in times.items()},
    } | columns


def batch_of(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=AMOUNTS)


_TIMES = (
    "log_time_ms", "recorded_at_ms", "earliest_ms", "latest_ms", "likely_from_ms",
    "response_earliest_ms", "response_latest_ms",
)  # fmt: skip
