"""Quota events for tests: one with every field set, changed by name."""

from __future__ import annotations

from typing import Any

from spark_jobs.ingest.quota_sources.events import QuotaEvent


def event(source: str = "server_log", at_ms: int = 0, **fields: Any) -> QuotaEvent:
    """Return an event of alice's producer quota at ``at_ms``; a log's is known to -45…+5 ms."""
    before_ms, after_ms = (5, 50) if source == "log" else (0, 0)
    return QuotaEvent(
        **{
            "quota_type": "producer_byte_rate",
            "quota_user": "alice",
            "quota_client_id": None,
            "bound": 100.0,
            "broker_id": 1 if source == "server_log" else None,
            "earliest_ms": at_ms - before_ms,
            "latest_ms": at_ms + after_ms,
            "source": source,
            "source_file": source,
            "source_line": at_ms,
            **fields,
        }
    )


def snapshot(at_ms: int, **fields: Any) -> QuotaEvent:
    """Return an event of a snapshot taken at ``at_ms``."""
    return event("snapshot", at_ms, earliest_ms=0, **fields)
