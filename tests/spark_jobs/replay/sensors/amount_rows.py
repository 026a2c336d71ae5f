"""Batches of amounts, and what comes out of a sensor that gathers them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.sensors.aligned_rows import OpenSensor
from spark_jobs.replay.sensors.amounts import AMOUNTS
from tests.builders.tables_builder import NOON_MS


def nothing_recorded(
    *, samples: int = 11, profile: RateProfile = RateProfile.RATE_3_8
) -> SensorStates:
    """Return one sensor of windows of a second."""
    return SensorStates.allocate([profile], [samples], [1000])


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
        "behaviour": RECORD,
        "is_strict": False,
        "bound": 1000.0,
        "known_for_ms": 100_000,
        "change_distance_ms": 100_000,
        "has_request_bound": False,
        "logged_throttle_time_ms": 0,
        "logged_admitted": True,
        "bucket_gap": 0,
        **{name: NOON_MS + time for name, time in times.items()},
    } | columns


def batch_of(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=AMOUNTS)


def cut(batch: pa.RecordBatch, cuts: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``batch`` in batches that end at ``cuts``, none of them empty."""
    inside = {at for at in cuts if 0 < at < len(batch)}
    for begin, end in itertools.pairwise([0, *sorted(inside), len(batch)]):
        yield batch.slice(begin, end - begin)


def gathered(sensor: OpenSensor, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return all that ``sensor`` yields for ``batches``."""
    found = [out for batch in batches for out in sensor.take(batch)]
    return [*found, *sensor.flush()]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


_TIMES = (
    "log_time_ms", "recorded_at_ms", "earliest_ms", "latest_ms", "likely_from_ms",
    "response_earliest_ms", "response_latest_ms",
)  # fmt: skip
