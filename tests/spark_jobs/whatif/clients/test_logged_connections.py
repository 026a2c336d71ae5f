from __future__ import annotations

from typing import Any

from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.warehouse.tables import REQUESTS
from spark_jobs.whatif.clients.normalized_requests import (
    CONNECTION_COLUMNS,
    logged_connections,
    logged_request,
)
from tests.builders.tables_builder import NOON_MS, row


def line(source_line: int = 1, **others: Any) -> dict[str, Any]:
    return row("requests", source_line=source_line, **others)


def creating(*mutations: tuple[str, int], **others: Any) -> dict[str, Any]:
    listed = [{"topic": t, "partitions": 3, "error_code": code} for t, code in mutations]
    return line(api_name="CREATE_TOPICS", mutations=listed, topics=None, **others)


def test_its_columns_are_of_the_contract() -> None:
    assert set(CONNECTION_COLUMNS) <= set(REQUESTS.names)


def test_a_request_arrived_its_total_time_before_its_line_was_written() -> None:
    found = logged_request(
        line(
            log_time_ms=NOON_MS + 9,
            recorded_estimate_us=(NOON_MS + 4) * 1000,
            total_time_us=7_500,
            request_queue_time_us=1_000,
            handler_time_us=2_000,
            remote_time_us=3_000,
            throttle_time_ms=80,
        )
    )
    assert found.arrived_us == NOON_MS * 1000 + 1_500
    assert (found.until_decided_us, found.service_us, found.throttle_time_ms) == (2_500, 7_500, 80)


def test_connections_of_two_brokers_are_two_though_they_are_called_the_same() -> None:
    found = logged_connections([line(), line(broker_id=2)])
    assert [len(one) for one in found.values()] == [1, 1]


def test_replicas_controllers_and_forwarded_requests_are_no_clients() -> None:
    rows = [
        line(is_replica=True),
        line(is_forwarded=True),
        line(listener="CONTROLLER"),
    ]
    assert logged_connections(rows, frozenset({"CONTROLLER"})) == {}


def test_a_connections_requests_are_in_the_order_of_their_lines() -> None:
    later = line(2, log_time_ms=NOON_MS, total_time_us=9_000, correlation_id=2)
    earlier = line(1, log_time_ms=NOON_MS, total_time_us=1_000, correlation_id=1)
    (found,) = logged_connections([later, earlier]).values()
    assert [one.arrived_us for one in found] == [(NOON_MS - 1) * 1000] * 2
    assert [one.service_us for one in found] == [1_000, 9_000]


def test_a_mutation_is_refused_where_all_of_its_topics_are_for_their_quota() -> None:
    assert logged_request(creating(("a", 89), ("b", 89))).is_refused
    assert not logged_request(creating(("a", 89), ("b", 0))).is_refused
    assert not logged_request(creating()).is_refused
    assert not logged_request(line()).is_refused


def test_mutations_have_their_partitions_as_they_follow_from_those_before() -> None:
    rows = [
        creating(("a", 0)),
        line(2, api_name="DELETE_TOPICS", topics=None,
             mutations=[{"topic": "a", "partitions": None, "error_code": 0}]),
    ]  # fmt: skip
    (found,) = logged_connections(rows, inventory=PartitionInventory({})).values()
    assert [one.request.amount for one in found] == [3, 3]
