"""Quota changes from the request log: ALTER_CLIENT_QUOTAS requests, each change counted once.

With KRaft a broker forwards the request to the active controller, and both log it: the
controller's line has ``isForwarded: true`` and carries the client's own client-id and correlation
id (seen in logs of 3.3, 3.7 and 4.1). The controller's line is kept: its answer is the nearest
thing in a request log to the moment the change was committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.quota.codes import QUOTA_TYPES

APPLIED_WITHIN_MS = 50
"""A broker applies a change when it has read the metadata record: 1 to 32 ms after the
controller's answer in the timed capture of 4.1.0, up to tens of ms in others."""

SAME_REQUEST_WITHIN_MS = 10_000
"""Two lines of one request are at most this far apart; longer ones have timed out twice over."""

Row = Mapping[str, Any]


def logged_alterations(rows: Iterable[Row]) -> list[QuotaEvent]:
    """Return the quota changes of rows of ``tables.REQUESTS`` that alter client quotas.

    Needed of each row: quota_alterations, client_id, correlation_id, is_forwarded, log_time_ms,
    remote_time_us, response_queue_time_us, send_time_us, source_file, source_line; validate_only
    and error_codes where known. A request that was only validated, or refused as a whole, changes
    nothing. Values set again are kept: only all sources together tell what was in force.

    A change took effect between the end of the handler (the record was not yet committed) and
    ``APPLIED_WITHIN_MS`` after the response was complete.
    """
    events = [
        event
        for row in _counted_once([row for row in rows if _changes_something(row)])
        for event in _events(row)
    ]
    return sorted(events, key=lambda e: (e.latest_ms, e.source_file or "", e.source_line or 0))


def _changes_something(row: Row) -> bool:
    error_codes = row.get("error_codes") or ()
    refused = len(error_codes) > 0 and all(error_codes)
    return bool(row["quota_alterations"]) and not row.get("validate_only") and not refused


def _counted_once(rows: Iterable[Row]) -> list[Row]:
    """Return ``rows`` without the receiving broker's line where the controller's is there."""
    requests: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        requests[_request_key(row)].append(row)
    kept: list[Row] = []
    for lines in requests.values():
        forwarded = [row for row in lines if row["is_forwarded"]]
        received = [row for row in lines if not row["is_forwarded"]]
        for line in sorted(forwarded, key=_time_key):
            twin = min(received, key=lambda row: _distance_ms(row, line), default=None)
            if twin is not None and _distance_ms(twin, line) <= SAME_REQUEST_WITHIN_MS:
                received.remove(twin)
        kept += forwarded + received
    return kept


def _request_key(row: Row) -> tuple[Any, ...]:
    changes = (
        (a["quota_type"], a["quota_user"], a["quota_client_id"], a["bound"])
        for a in row["quota_alterations"]
    )
    return row["client_id"], row["correlation_id"], frozenset(changes)


def _time_key(row: Row) -> tuple[int, str, int]:
    return row["log_time_ms"], row["source_file"], row["source_line"]


def _distance_ms(row: Row, other: Row) -> int:
    return abs(int(row["log_time_ms"]) - int(other["log_time_ms"]))


def _events(row: Row) -> Iterable[QuotaEvent]:
    # The line's time is when the response had been sent; fields are cut to microseconds.
    complete_us = row["log_time_ms"] * 1000 - row["send_time_us"] - row["response_queue_time_us"]
    for alteration in row["quota_alterations"]:
        if alteration["quota_type"] not in QUOTA_TYPES:
            continue
        yield QuotaEvent(
            quota_type=alteration["quota_type"],
            quota_user=alteration["quota_user"],
            quota_client_id=alteration["quota_client_id"],
            bound=alteration["bound"],
            broker_id=None,
            earliest_ms=(complete_us - row["remote_time_us"]) // 1000,
            latest_ms=complete_us // 1000 + APPLIED_WITHIN_MS,
            source="log",
            source_file=row["source_file"],
            source_line=row["source_line"],
        )
