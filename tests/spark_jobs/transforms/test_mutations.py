"""Which partitions a mutation spends, and where it is decided."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.transforms.mutations import MUTATION_COLUMNS, expand_mutations
from tests.spark_jobs.transforms.request_rows import quota, requests, resolutions
from tests.tables_builder import NOON_MS

MUTATIONS = {"quota_type": "controller_mutation_rate"}


def mutation(
    api_name: str, *topics: tuple[str, int | None, int], at_ms: int = 2, **columns: Any
) -> dict[str, Any]:
    named = [{"topic": t, "partitions": p, "error_code": e} for t, p, e in topics]
    estimate = {"recorded_estimate_us": (NOON_MS + at_ms) * 1000}
    version = {"CREATE_TOPICS": 7, "CREATE_PARTITIONS": 3, "DELETE_TOPICS": 6}[api_name]
    defaults = {"api_name": api_name, "api_version": version, "is_forwarded": True}
    return defaults | {"mutations": named, "validate_only": False} | estimate | columns


def expand(
    *rows: dict[str, Any], inventory: PartitionInventory | None = None
) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([requests(*rows)]).select(list(MUTATION_COLUMNS))
    held = inventory if inventory is not None else PartitionInventory()
    return expand_mutations(table, held, resolutions(quota(3.0, **MUTATIONS))).to_pylist()


def test_each_topic_is_one_amount_in_the_order_of_the_request() -> None:
    found = expand(mutation("CREATE_TOPICS", ("a", 3, 0), ("b", 4, 89)))
    told = [(a["resource"], a["resource_index"], a["amount"], a["logged_admitted"]) for a in found]
    assert told == [("a", 0, 3.0, True), ("b", 1, 4.0, False)]
    assert all(a["is_strict"] and a["bound"] == 3.0 for a in found)


def test_added_and_deleted_partitions_cost_what_the_topic_had() -> None:
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 0), at_ms=1),
        mutation("CREATE_PARTITIONS", ("a", 5, 0), at_ms=2),
        mutation("DELETE_TOPICS", ("a", None, 0), at_ms=3),
        mutation("DELETE_TOPICS", ("a", None, 89), at_ms=4),
    )
    amounts = [a["amount"] for a in found]
    assert amounts[:3] == [3.0, 2.0, 5.0]
    assert math.isnan(amounts[3])


def test_a_refused_or_merely_validated_mutation_leaves_the_topic_as_it_was() -> None:
    inventory = PartitionInventory({"a": 3})
    expand(
        mutation("CREATE_PARTITIONS", ("a", 9, 89)),
        mutation("CREATE_PARTITIONS", ("a", 9, 0), at_ms=3, validate_only=True),
        inventory=inventory,
    )
    assert inventory.partitions == {"a": 3}


def test_a_topic_that_failed_its_validation_is_not_charged() -> None:
    topic_already_exists = 36
    assert expand(mutation("CREATE_TOPICS", ("a", 3, topic_already_exists))) == []


def test_the_controllers_line_counts_and_the_brokers_own_does_not() -> None:
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 0), is_forwarded=False, broker_id=2),
        mutation("CREATE_TOPICS", ("a", 3, 0), broker_id=1),
    )
    assert [a["broker_id"] for a in found] == [1]


def test_without_forwarding_the_brokers_line_is_the_decision() -> None:
    found = expand(mutation("CREATE_TOPICS", ("a", 3, 0), is_forwarded=False))
    assert len(found) == 1


def test_an_older_version_is_permissive() -> None:
    (found,) = expand(mutation("CREATE_TOPICS", ("a", 3, 0), api_version=5))
    assert not found["is_strict"]


def test_no_mutation_is_no_amount() -> None:
    table = pa.Table.from_batches([requests({})]).select(list(MUTATION_COLUMNS))
    found = expand_mutations(table, PartitionInventory(), resolutions(quota(3.0, **MUTATIONS)))
    assert found.num_rows == 0
