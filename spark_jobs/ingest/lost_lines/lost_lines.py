"""Requests that are missing from a request log, told by gaps in the clients' correlation ids.

A gap says how many requests are missing, and between which moments each broker could have recorded
them. Not every gap is a lost line: some ids are never sent, or never logged (see
:data:`TELEMETRY_WITHIN_IDS`, :data:`SIGN_IN_IDS_MAX`), and the requests to a broker whose log is
not in the archive are all missing (:data:`OTHER_BROKER_SHARE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.ingest.lost_lines.client_counters import Connections, counters_of, unwrapped
from spark_jobs.ingest.lost_lines.gap_spans import (
    API_VERSIONS,
    FETCH,
    JAVA_WITH_TELEMETRY,
    OTHER_SOFTWARE,
    PRODUCE,
    SHARE_FETCH,
    ClientLines,
    GapSpans,
    Span,
    muted_for_ms,
)
from spark_jobs.quota.apis import APIS

LOST_LINES, NEVER_READ, OTHER_BROKER = "lost_lines", "never_read", "other_broker"
"""Why requests are missing: lines were lost; or their connection was closed before its broker read
them, which had muted it for a throttle, or stopped; or a broker's log is not in the archive."""

TELEMETRY_WITHIN_IDS = 64
"""A Java client of 3.7 or later uses up one of its first ids for a telemetry request (KIP-714)
that it cannot send, as brokers without a telemetry plugin do not offer it (``NetworkClient``:
``doSend``, ``UnsupportedVersionException``)."""

SIGN_IN_IDS_MAX = 5
"""Libraries that count their SASL requests use this many ids ahead of a connection's first line.
Brokers do not log those; Java takes other ids for them (``SaslClientAuthenticator``)."""

RESERVED_IDS = ((1 << 31) - 8, 1 << 31)
"""Ids [from, until) that Java never gives to a request of the log."""

OTHER_BROKER_SHARE, OTHER_BROKER_IDS_MIN = 0.2, 100
"""Where a counter misses more than this share of so many ids, the archive lacks a broker."""

# What brokers and controllers tell each other is nobody's client.
_OF_BROKERS = [api.key for api in APIS.values() if api.is_between_brokers]
_GAPS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Gap:
    """Requests missing between two correlation ids of one client instance.

    Each field is the column of ``tables.LOG_GAPS`` of its name.
    ``connection`` is the code of the only one it can have been, else None; the largest sizes are
    those of the instance's requests, None where it never sent any of that kind.
    """

    correlation_id_before: int
    correlation_id_after: int
    missing: int
    cause: str
    connection: int | None
    places: tuple[Span, ...]
    request_bytes_max: int | None
    response_bytes_max: int | None
    handler_time_us_max: int


def gaps_of(lines: ClientLines, down: Sequence[Span] = ()) -> list[Gap]:
    """Return the gaps in the ids of one (user, client-id), its instances told apart.

    ``down``: when brokers were, between two starts.
    """
    if not len(lines.correlation_id):
        return []
    lines, ids, connection = _in_order(lines)
    _, host = np.unique(lines.host, return_inverse=True)
    joined = Connections(
        connection=connection,
        host=host.ravel(),
        software=lines.software,
        correlation_id=ids,
        is_opening=lines.api_key == API_VERSIONS,
        is_answered=lines.is_answered,
        received_ms=lines.received_ms,
        sent_from_ms=lines.received_ms - muted_for_ms(lines, connection),
        free_at_ms=lines.free_at_ms,
    )
    counter = counters_of(joined)[connection]
    order = np.lexsort((ids, counter))
    starts = np.flatnonzero(np.diff(counter[order], prepend=-1))
    gaps: list[Gap] = []
    for rows in np.split(order, starts[1:]):
        has_holes = ids[rows[-1]] - ids[rows[0]] + 1 > len(rows)
        if has_holes and not np.isin(lines.api_key[rows], _OF_BROKERS).any():
            gaps += _gaps_of_counter(lines.take(rows), ids[rows], connection[rows], down)
    return gaps


def _in_order(lines: ClientLines) -> tuple[ClientLines, np.ndarray, np.ndarray]:
    """Return the lines, each request once, by connection and id; their ids and connections."""
    _, connection = np.unique(lines.connection, return_inverse=True)
    connection = connection.ravel()
    ids = unwrapped(lines.correlation_id)
    order = np.lexsort((ids, connection))
    again = (np.diff(ids[order], prepend=ids.min() - 1) == 0) & (
        np.diff(connection[order], prepend=-1) == 0
    )
    order = order[~again]
    return lines.take(order), ids[order], connection[order]


def _gaps_of_counter(
    lines: ClientLines, ids: np.ndarray, connection: np.ndarray, down: Sequence[Span]
) -> list[Gap]:
    """Return the gaps of one counter, whose lines are in the order of their ids."""
    before = np.flatnonzero(np.diff(ids) > 1)
    first_of_connection = np.zeros(len(ids), bool)
    first_of_connection[np.unique(connection, return_index=True)[1]] = True
    missing = _lost(lines, ids, before, first_of_connection)
    before, missing = before[missing > 0], missing[missing > 0]
    if not len(before):
        return []
    spans, sizes = GapSpans(lines, ids, connection), _sizes(lines)
    blocks = np.split(before, range(_GAPS_AT_ONCE, len(before), _GAPS_AT_ONCE))
    found = [each for block in blocks for each in spans.of(block)]
    never_read = spans.were_never_read(before, missing)
    # What was under way to a broker that stopped was not read, nor what a client tried meanwhile.
    never_read |= [any(p.meets(d) for p in places for d in down) for places, _ in found]
    left_out = OTHER_BROKER if _is_elsewhere(before, missing, never_read, len(ids)) else LOST_LINES
    return [
        Gap(
            correlation_id_before=int(lines.correlation_id[row]),
            correlation_id_after=int(lines.correlation_id[row + 1]),
            missing=int(missing[i]),
            cause=NEVER_READ if never_read[i] else left_out,
            connection=only,
            places=places,
            **sizes,
        )
        for i, (row, (places, only)) in enumerate(zip(before, found, strict=True))
    ]


def _is_elsewhere(
    before: np.ndarray, missing: np.ndarray, never_read: np.ndarray, seen: int
) -> bool:
    """Return True if so much is missing that a broker's log is, of ``seen`` ids.

    Where requests were never read, ids say nothing of it.
    """
    seen_before = np.diff(before, prepend=-1)
    seen_before[-1] += seen - 1 - before[-1]
    seen_there, missing_there = seen_before[~never_read].sum(), missing[~never_read].sum()
    share = missing_there / max(seen_there + missing_there, 1)
    return bool(share > OTHER_BROKER_SHARE and seen_there >= OTHER_BROKER_IDS_MIN)


def _lost(
    lines: ClientLines, ids: np.ndarray, before: np.ndarray, first_of_connection: np.ndarray
) -> np.ndarray:
    """Return the number of requests lost after each row of ``before``."""
    low, high = ids[before], ids[before + 1]
    reserved_from, reserved_until = RESERVED_IDS
    reserved = np.minimum(high, reserved_until) - np.maximum(low + 1, reserved_from)
    missing: np.ndarray = high - low - 1 - np.maximum(reserved, 0)
    java = int(lines.java.max())
    if java == OTHER_SOFTWARE:
        signing_in = first_of_connection[before + 1] & (missing <= SIGN_IN_IDS_MAX)
        missing[signing_in] = 0
        return missing
    is_from_start = 0 <= ids[0] < 3
    if java == JAVA_WITH_TELEMETRY and is_from_start:
        unsent = np.flatnonzero((missing == 1) & (low < TELEMETRY_WITHIN_IDS))[:1]
        missing[unsent] = 0
    return missing


def _sizes(lines: ClientLines) -> dict[str, Any]:
    produced = lines.request_bytes[lines.api_key == PRODUCE]
    fetched = lines.response_bytes[np.isin(lines.api_key, (FETCH, SHARE_FETCH))]
    return {
        "request_bytes_max": _largest(produced),
        "response_bytes_max": _largest(fetched),
        "handler_time_us_max": int(lines.handler_time_us.max()),
    }


def _largest(sizes: np.ndarray) -> int | None:
    known = sizes[~np.isnan(sizes)]
    return int(known.max()) if len(known) else None
