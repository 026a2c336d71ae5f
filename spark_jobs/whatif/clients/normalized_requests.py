"""Logged requests as policies see them, and as the connections of clients.

Which lines are passed in is the caller's choice.

A KRaft broker forwards a mutation, so two lines tell of it: the controller's decides. Where both
are passed in, both become requests.

What one line says of its topics: record bytes of a produce or fetch, partitions of a mutation as
they follow from the mutations before it. A produce's error codes come as a set; they are taken for
its topics' where none of them is a success, for else nothing tells which topic failed.

A fetch that its broker throttled was answered with nothing. What it had tried to read is in no log;
where the audit did not find it, the size is unknown.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_jobs.quota.partition_inventory import (
    DECIDED_ERRORS,
    MUTATION_APIS,
    NO_ERROR,
    THROTTLING_QUOTA_EXCEEDED,
    PartitionInventory,
)
from spark_jobs.whatif.clients.client_log import US_PER_MS, LoggedRequest, in_sending_order
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

Row = Mapping[str, Any]

NORMALIZED_COLUMNS = (
    "broker_id", "recorded_estimate_us", "connection", "api_name", "api_version", "user",
    "client_id", "listener", "acks", "is_replica", "request_bytes", "response_bytes",
    "handler_time_us", "error_codes", "topics", "mutations", "validate_only",
)  # fmt: skip
"""The columns of ``tables.REQUESTS`` that a row must have."""

ROWS_AT_ONCE = 200
"""Made of Arrow's columns together, and into requests: one by one is slower, and so are thousands,
which outlive Python's young garbage."""
UNANSWERED = -1
"""Kafka's UNKNOWN_SERVER_ERROR, for a mutation whose answer is not in the log."""
_AMOUNT_COLUMN = {
    "PRODUCE": "request_bytes",
    "FETCH": "response_bytes",
    "SHARE_FETCH": "response_bytes",
}


def normalized_requests(
    rows: Iterable[pa.RecordBatch] | Iterable[Row],
    controller_listeners: frozenset[str] = frozenset(),
    inventory: PartitionInventory | None = None,
) -> Iterator[PolicyRequest]:
    """Yield the request of each row, in their order.

    ``rows`` have NORMALIZED_COLUMNS and come in the order of their times; what arrived on one of
    ``controller_listeners`` is flagged as a replica's. ``inventory`` is carried forward in place,
    up to ROWS_AT_ONCE rows ahead; without one no mutation's partitions are known.
    """
    each = rows_of(rows)
    while some := list(islice(each, ROWS_AT_ONCE)):
        yield from [normalized_request(row, controller_listeners, inventory) for row in some]


def rows_of(rows: Iterable[pa.RecordBatch] | Iterable[Row]) -> Iterator[Row]:
    """Yield each row, those of batches made as they are asked for."""
    for each in rows:
        if isinstance(each, pa.RecordBatch):
            for first in range(0, each.num_rows, ROWS_AT_ONCE):
                yield from each.slice(first, ROWS_AT_ONCE).to_pylist()
        else:
            yield each


def normalized_request(
    row: Row,
    controller_listeners: frozenset[str] = frozenset(),
    inventory: PartitionInventory | None = None,
) -> PolicyRequest:
    """Return the request of one row; see :func:`normalized_requests`.

    The amount of a mutation is the sum of its topics', without those that failed for a reason of
    their own.
    """
    api_name = row["api_name"]
    if api_name in MUTATION_APIS:
        topics = _mutation_parts(row, inventory)
        amount = float(sum(part.amount for part in topics if not part.other_error_code))
    else:
        topics = _byte_parts(row)
        amount = _number(row[_AMOUNT_COLUMN[api_name]]) if api_name in _AMOUNT_COLUMN else math.nan
    return PolicyRequest(
        at_ms=row["recorded_estimate_us"] // 1000,
        broker_id=row["broker_id"],
        connection=row["connection"],
        api_name=api_name,
        api_version=row["api_version"],
        user=row["user"],
        client_id=row["client_id"],
        amount=amount,
        handler_time_us=row["handler_time_us"],
        acks=row["acks"],
        is_replica=row["is_replica"] or row["listener"] in controller_listeners,
        validate_only=bool(row["validate_only"]),
        topics=topics,
    )


def _byte_parts(row: Row) -> tuple[TopicPart, ...]:
    codes = row["error_codes"] if row["api_name"] == "PRODUCE" else None
    other_error = min(codes) if codes and NO_ERROR not in codes else NO_ERROR
    return tuple(
        [
            TopicPart(one["topic"] or "", _number(one["records_bytes"]), other_error)
            for one in row["topics"] or ()
        ]
    )


def _mutation_parts(row: Row, inventory: PartitionInventory | None) -> tuple[TopicPart, ...]:
    """Return the topics in the request's order; those that were created or not move on.

    A topic that the broker refused for its quota stays as it was: its client tries again later.
    """
    api_name, parts = row["api_name"], []
    for mutation in row["mutations"] or ():
        topic, stated = mutation["topic"] or "", mutation["partitions"]
        error = UNANSWERED if mutation["error_code"] is None else mutation["error_code"]
        cost = None if inventory is None else inventory.cost(api_name, topic, stated)
        other_error = NO_ERROR if error in DECIDED_ERRORS else error
        parts.append(TopicPart(topic, _number(cost), other_error))
        if inventory is not None and error == NO_ERROR and not row["validate_only"]:
            inventory.apply(api_name, topic, stated)
    return tuple(parts)


def _number(found: float | None) -> float:
    return math.nan if found is None else float(found)


CONNECTION_COLUMNS = (
    *NORMALIZED_COLUMNS, "log_time_ms", "source_file", "source_line", "total_time_us",
    "throttle_time_ms", "is_forwarded",
)  # fmt: skip
"""The columns of ``tables.REQUESTS`` that a row must have."""


def logged_connections(
    rows: Iterable[Row],
    controller_listeners: frozenset[str] = frozenset(),
    inventory: PartitionInventory | None = None,
) -> dict[str, list[LoggedRequest]]:
    """Return each client connection's requests in the order of their arrival.

    ``rows`` have CONNECTION_COLUMNS and come in the order of their times; see
    :func:`normalized_requests`. Replicas, controllers and
    requests that a broker forwarded are no clients, and left out.
    """
    lines = defaultdict[str, list[tuple[tuple[int, str, int], LoggedRequest]]](list)
    for row in rows:
        is_inside = row["is_replica"] or row["listener"] in controller_listeners
        if is_inside or row["is_forwarded"]:
            continue
        place = (row["log_time_ms"], row["source_file"], row["source_line"])
        logged = logged_request(row, controller_listeners, inventory)
        lines[f"{row['broker_id']} {row['connection']}"].append((place, logged))
    return {
        key: in_sending_order([logged for _, logged in sorted(of_one, key=lambda line: line[0])])
        for key, of_one in lines.items()
    }


def logged_request(
    row: Row,
    controller_listeners: frozenset[str] = frozenset(),
    inventory: PartitionInventory | None = None,
) -> LoggedRequest:
    """Return the request of one row with its times.

    Its line was written when its answer had been sent; a throttle is in none of the times.
    """
    return LoggedRequest(
        normalized_request(row, controller_listeners, inventory),
        arrived_us=row["log_time_ms"] * US_PER_MS - row["total_time_us"],
        service_us=row["total_time_us"],
        throttle_time_ms=row["throttle_time_ms"],
        is_refused=_is_refused(row),
    )


def _is_refused(row: Row) -> bool:
    if row["api_name"] not in MUTATION_APIS or not row["mutations"]:
        return False
    return all(mutation["error_code"] == THROTTLING_QUOTA_EXCEEDED for mutation in row["mutations"])
