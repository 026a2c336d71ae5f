from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.warehouse.tables import REQUESTS
from spark_jobs.whatif.clients.normalized_requests import (
    NORMALIZED_COLUMNS,
    ROWS_AT_ONCE,
    UNANSWERED,
    normalized_request,
    normalized_requests,
)
from spark_jobs.whatif.policies.request import TopicPart
from tests.builders.tables_builder import NOON_MS, row


def mutation(topic: str, partitions: int | None, error_code: int | None = 0) -> dict[str, Any]:
    return {"topic": topic, "partitions": partitions, "error_code": error_code}


def mutating(api_name: str, *mutations: dict[str, Any], **others: Any) -> dict[str, Any]:
    return row("requests", api_name=api_name, mutations=list(mutations), topics=None, **others)


def test_a_produce_has_the_bytes_of_its_request_and_the_record_bytes_of_its_topics() -> None:
    found = normalized_request(row("requests"))
    assert (found.at_ms, found.broker_id, found.amount) == (NOON_MS + 2, 1, 100_000.0)
    assert found.topics == (TopicPart("orders", 99_900.0),)
    assert (found.acks, found.handler_time_us, found.is_replica) == (-1, 1_000, False)


@pytest.mark.parametrize("api_name", ["FETCH", "SHARE_FETCH"])
def test_a_fetch_has_the_bytes_of_its_response(api_name: str) -> None:
    found = normalized_request(row("requests", api_name=api_name, response_bytes=77))
    assert found.amount == 77.0


def test_a_size_that_the_log_does_not_have_is_not_a_number() -> None:
    unknown = row("requests", request_bytes=None, topics=[{"topic": None, "records_bytes": None}])
    found = normalized_request(unknown)
    assert math.isnan(found.amount)
    assert math.isnan(found.topics[0].amount)
    assert math.isnan(normalized_request(row("requests", api_name="METADATA")).amount)


def test_the_record_time_is_cut_to_milliseconds() -> None:
    assert normalized_request(row("requests", recorded_estimate_us=5_999)).at_ms == 5


@pytest.mark.parametrize(
    ("codes", "error"), [([0], 0), ([0, 10], 0), ([10], 10), ([10, 87], 10), (None, 0), ([], 0)]
)
def test_an_error_is_the_topics_where_no_partition_succeeded(
    codes: list[int] | None, error: int
) -> None:
    found = normalized_request(row("requests", error_codes=codes))
    assert found.topics[0].other_error_code == error


def test_an_error_of_a_fetch_keeps_nothing_from_being_read() -> None:
    fetch = row("requests", api_name="FETCH", error_codes=[3])
    assert normalized_request(fetch).topics[0].other_error_code == 0


def test_replicas_and_what_arrives_on_a_controllers_listener_are_flagged() -> None:
    listeners = frozenset({"CONTROLLER"})
    assert normalized_request(row("requests", is_replica=True)).is_replica
    assert normalized_request(row("requests", listener="CONTROLLER"), listeners).is_replica
    assert not normalized_request(row("requests"), listeners).is_replica


def test_mutations_cost_what_follows_from_those_before_them() -> None:
    rows = [
        mutating("CREATE_TOPICS", mutation("a", 4)),
        mutating("CREATE_PARTITIONS", mutation("a", 10)),
        mutating("DELETE_TOPICS", mutation("a", None), mutation("b", None)),
    ]
    inventory = PartitionInventory({"b": 3})
    found = list(normalized_requests(rows, inventory=inventory))
    assert [request.amount for request in found] == [4.0, 6.0, 13.0]
    assert inventory.partitions == {}


def test_a_topic_refused_for_the_quota_is_asked_for_and_does_not_come_to_be() -> None:
    inventory = PartitionInventory()
    found = normalized_request(
        mutating("CREATE_TOPICS", mutation("a", 4, 89), mutation("b", 2, 36)), inventory=inventory
    )
    assert found.topics == (TopicPart("a", 4.0), TopicPart("b", 2.0, 36))
    assert found.amount == 4.0
    assert inventory.partitions == {}


def test_what_is_only_validated_does_not_come_to_be() -> None:
    inventory = PartitionInventory()
    asked = mutating("CREATE_TOPICS", mutation("a", 4), validate_only=True)
    found = normalized_request(asked, inventory=inventory)
    assert found.validate_only
    assert inventory.partitions == {}


def test_a_mutation_without_an_answer_in_the_log_failed() -> None:
    found = normalized_request(mutating("CREATE_TOPICS", mutation("a", 4, None)))
    assert found.topics[0].other_error_code == UNANSWERED


def test_partitions_that_nothing_tells_are_not_a_number() -> None:
    found = normalized_request(
        mutating("DELETE_TOPICS", mutation("a", None)), inventory=PartitionInventory()
    )
    assert math.isnan(found.amount)


def test_arrow_batches_and_rows_are_read_alike() -> None:
    rows = [row("requests"), mutating("CREATE_TOPICS", mutation("a", 4))]
    table = pa.Table.from_pylist(rows, schema=REQUESTS).select(NORMALIZED_COLUMNS)
    inventories = PartitionInventory(), PartitionInventory()
    batches = table.to_batches(max_chunksize=1)
    from_batches = list(normalized_requests(batches, inventory=inventories[0]))
    assert from_batches == list(normalized_requests(rows, inventory=inventories[1]))


def test_long_batches_are_read_whole_and_in_order() -> None:
    schema = pa.schema([REQUESTS.field(name) for name in NORMALIZED_COLUMNS])
    times_us = [1_000 * i for i in range(2 * ROWS_AT_ONCE + 1)]
    lines = [row("requests", recorded_estimate_us=time_us) for time_us in times_us]
    picked = [{name: line[name] for name in NORMALIZED_COLUMNS} for line in lines]
    long, short = (pa.RecordBatch.from_pylist(part, schema=schema) for part in (picked, picked[:3]))
    found = [request.at_ms for request in normalized_requests([long, short])]
    assert found == [*range(2 * ROWS_AT_ONCE + 1), 0, 1, 2]
