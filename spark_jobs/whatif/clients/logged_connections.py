"""The lines of a log as the connections of clients, with what each request took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from spark_jobs.quota.partition_inventory import (
    MUTATION_APIS,
    THROTTLING_QUOTA_EXCEEDED,
    PartitionInventory,
)
from spark_jobs.whatif.clients.client_log import US_PER_MS, LoggedRequest, in_sending_order
from spark_jobs.whatif.clients.normalized_requests import (
    NORMALIZED_COLUMNS,
    Row,
    normalized_request,
)

CONNECTION_COLUMNS = (
    *NORMALIZED_COLUMNS, "log_time_ms", "source_file", "source_line", "total_time_us",
    "request_queue_time_us", "remote_time_us", "throttle_time_ms", "is_forwarded",
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
    total_us = row["total_time_us"]
    queue_us, handler_us = row["request_queue_time_us"], row["handler_time_us"]
    remote_us = row["remote_time_us"]
    return LoggedRequest(
        normalized_request(row, controller_listeners, inventory),
        arrived_us=row["log_time_ms"] * US_PER_MS - total_us,
        queue_us=queue_us,
        handler_us=handler_us,
        remote_us=remote_us,
        send_us=total_us - queue_us - handler_us - remote_us,
        throttle_time_ms=row["throttle_time_ms"],
        is_refused=_is_refused(row),
    )


def _is_refused(row: Row) -> bool:
    if row["api_name"] not in MUTATION_APIS or not row["mutations"]:
        return False
    return all(mutation["error_code"] == THROTTLING_QUOTA_EXCEEDED for mutation in row["mutations"])
