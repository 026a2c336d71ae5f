"""Batches of logged requests for the transforms' tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.resolve.timeline.resolution import QuotaTimeline
from spark_jobs.warehouse.tables import REQUESTS
from tests.builders.tables_builder import NOON_MS, row


def requests(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of valid produce requests, each with the given columns replaced."""
    filled = [row("requests", **{"source_line": i, **r}) for i, r in enumerate(rows, start=1)]
    return pa.RecordBatch.from_pylist(filled, schema=REQUESTS)


def quota(bound: float, **columns: Any) -> dict[str, Any]:
    """Return a row of quota_changes: a producer quota of user alice from noon on."""
    entity = {"quota_type": "producer_byte_rate", "quota_user": "alice", "quota_client_id": None}
    held = {"bound": bound, "broker_id": None, "valid_from_ms": NOON_MS, "valid_until_ms": None}
    return entity | held | {"source": "log"} | columns


def resolutions(*quotas: dict[str, Any], log_starts_ms: int = NOON_MS) -> ResolutionTable:
    """Return the lookup over ``quotas``, with brokers 1 and 2 logging since ``log_starts_ms``."""
    timeline = QuotaTimeline.of_rows(quotas)
    return ResolutionTable(timeline, {1: log_starts_ms, 2: log_starts_ms})
