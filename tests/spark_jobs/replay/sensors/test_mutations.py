"""Which partitions a mutation spends, and where it is decided."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.kernels import CHARGES_MISSING, OTHER_BUCKET, SAME_BUCKET
from spark_jobs.quota.partition_inventory import PartitionInventory
from spark_jobs.replay.sensors.mutations import MUTATION_COLUMNS, expand_mutations, mutation_lines
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.request_rows import quota, requests, resolutions

MUTATIONS = {"quota_type": "controller_mutation_rate"}


def mutation(
    api_name: str, *topics: tuple[str, int | None, int], at_ms: int = 2, **columns: Any
) -> dict[str, Any]:
    named = [{"topic": t, "partitions": p, "error_code": e} for t, p, e in topics]
    estimate = {"recorded_estimate_us": (NOON_MS + at_ms) * 1000}
    version = {"CREATE_TOPICS": 7, "CREATE_PARTITIONS": 3, "DELETE_TOPICS": 6}[api_name]
    defaults = {"api_name": api_name, "api_version": version, "is_forwarded": True}
    defaults["listener"] = "CONTROLLER" if columns.get("is_forwarded", True) else "PLAINTEXT"
    return defaults | {"mutations": named, "validate_only": False} | estimate | columns


def expand(
    *rows: dict[str, Any],
    inventory: PartitionInventory | None = None,
    uses_zookeeper: bool = False,
    quotas: tuple[dict[str, Any], ...] = (quota(3.0, **MUTATIONS),),
) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([requests(*rows)]).select(list(MUTATION_COLUMNS))
    held = inventory if inventory is not None else PartitionInventory()
    lines = mutation_lines(
        table, controller_listeners=frozenset({"CONTROLLER"}), uses_zookeeper=uses_zookeeper
    )
    return expand_mutations(
        lines, held, resolutions(*quotas), uses_zookeeper=uses_zookeeper
    ).to_pylist()


def test_each_topic_is_one_amount_in_the_order_of_the_request() -> None:
    found = expand(mutation("CREATE_TOPICS", ("a", 3, 0), ("b", 4, 89)))
    told = [(a["resource"], a["resource_index"], a["amount"], a["logged_admitted"]) for a in found]
    assert told == [("a", 0, 3.0, True), ("b", 1, 4.0, False)]
    assert all(a["is_strict"] and a["bound"] == 3.0 for a in found)


def test_the_value_until_the_last_change_is_told_however_briefly_it_held() -> None:
    held = ((4.0, 0, 50), (1.0, 50, 60), (2.0, 60, 90_000))
    quotas = [
        quota(
            bound, valid_from_ms=NOON_MS + from_ms, valid_until_ms=NOON_MS + until_ms, **MUTATIONS
        )
        for bound, from_ms, until_ms in held
    ]
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 0), at_ms=2),
        mutation("CREATE_TOPICS", ("b", 3, 0), at_ms=90),
        quotas=tuple(quotas),
    )
    told = [(a["bound"], a["bound_until"]) for a in found]
    assert told[1] == (2.0, 1.0)
    assert told[0][0] == 4.0
    assert math.isnan(told[0][1])


@pytest.mark.parametrize("left", [4.0, None])
def test_one_that_a_change_has_sent_to_another_sensor_is_told_with_the_quota_that_it_left(
    left: float | None,
) -> None:
    """A user has a quota from 50 ms on; until then that of her client-id held, or none."""
    by_client_id = {"quota_user": None, "quota_client_id": "<default>"}
    own = quota(2.0, valid_from_ms=NOON_MS + 50, **MUTATIONS)
    everybody = quota(left or 4.0, **MUTATIONS, **by_client_id)
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 0), at_ms=2),
        mutation("CREATE_TOPICS", ("b", 3, 0), at_ms=90),
        quotas=(everybody, own) if left else (own,),
    )
    assert (found[-1]["has_joined"], found[-1]["bound"]) == (True, 2.0)
    assert found[-1]["bound_left"] == pytest.approx(left or math.nan, nan_ok=True)


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


def test_with_zookeeper_the_brokers_line_is_the_decision() -> None:
    create = mutation("CREATE_TOPICS", ("a", 3, 0), is_forwarded=False)
    (found,) = expand(create, uses_zookeeper=True)
    assert found["bucket_gap"] == SAME_BUCKET


def test_topics_that_a_broker_creates_itself_have_partitions_and_are_charged_to_it() -> None:
    inventory = PartitionInventory()
    by_broker = {"is_forwarded": False, "listener": "CONTROLLER", "user": "kafka", "client_id": "2"}
    every_user = quota(3.0, **MUTATIONS | {"quota_user": "<default>"})
    create = mutation("CREATE_TOPICS", ("__consumer_offsets", 50, 0), **by_broker)
    (found,) = expand(create, inventory=inventory, quotas=(every_user,))
    assert inventory.partitions == {"__consumer_offsets": 50}
    assert (found["quota_user"], found["amount"]) == ("kafka", 50.0)
    assert (found["is_strict"], found["bucket_gap"]) == (True, SAME_BUCKET)


def test_a_mutation_that_only_a_broker_tells_of_moves_the_inventory_and_may_not_be_judged() -> None:
    inventory = PartitionInventory()
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 0), is_forwarded=False, broker_id=2, at_ms=1),
        mutation("DELETE_TOPICS", ("a", None, 0), at_ms=2),
        mutation("DELETE_TOPICS", ("b", None, 0), at_ms=3),
        inventory=inventory,
    )
    assert [(a["broker_id"], a["bucket_gap"]) for a in found] == [
        (2, OTHER_BUCKET),
        (1, CHARGES_MISSING),
        (1, SAME_BUCKET),
    ]
    assert [a["amount"] for a in found[:2]] == [3.0, 3.0]
    assert inventory.partitions == {}


def test_a_refusal_that_only_a_broker_tells_of_was_charged_to_nobody() -> None:
    found = expand(
        mutation("CREATE_TOPICS", ("a", 3, 89), is_forwarded=False, broker_id=2, at_ms=1),
        mutation("CREATE_TOPICS", ("b", 3, 0), at_ms=2),
    )
    assert [a["bucket_gap"] for a in found] == [OTHER_BUCKET, SAME_BUCKET]


def test_a_charge_of_another_controller_is_forgotten_when_no_such_sensor_is_left() -> None:
    told = mutation("CREATE_TOPICS", ("a", 3, 0), is_forwarded=False, broker_id=2, at_ms=0)

    def gap(at_ms: int) -> int:
        return expand(told, mutation("CREATE_TOPICS", ("b", 3, 0), at_ms=at_ms))[-1]["bucket_gap"]

    assert gap(EXPIRED_AFTER_MS) == CHARGES_MISSING
    assert gap(EXPIRED_AFTER_MS + 1) == SAME_BUCKET


def test_a_topic_of_the_brokers_default_partitions_is_not_known_any_more() -> None:
    inventory = PartitionInventory({"a": 3})
    expand(mutation("CREATE_TOPICS", ("a", None, 0)), inventory=inventory)
    assert inventory.partitions == {}


def test_with_zookeeper_or_in_a_deletion_what_was_refused_came_after_what_was_admitted() -> None:
    inventory = PartitionInventory({"a": 9, "b": 2, "c": 5})
    topics = [("a", None, 89), ("b", None, 0), ("c", None, 0)]
    deleted = expand(mutation("DELETE_TOPICS", *topics), inventory=inventory)
    assert [a["resource"] for a in deleted] == ["b", "c", "a"]
    create = mutation("CREATE_TOPICS", ("a", 1, 89), ("b", 2, 0), is_forwarded=False)
    assert [a["resource"] for a in expand(create, uses_zookeeper=True)] == ["b", "a"]
    assert [a["resource"] for a in expand(create | {"is_forwarded": True})] == ["a", "b"]


def test_with_zookeeper_what_is_only_validated_costs_nothing() -> None:
    create = mutation("CREATE_TOPICS", ("a", 3, 0), validate_only=True, is_forwarded=False)
    assert expand(create, uses_zookeeper=True) == []
    assert len(expand(create | {"is_forwarded": True})) == 1


def test_with_zookeeper_it_is_recorded_in_the_handler_with_kraft_until_its_answer() -> None:
    times = {"recorded_earliest_ms": NOON_MS, "recorded_latest_ms": NOON_MS + 90}
    create = mutation("CREATE_TOPICS", ("a", 3, 0), remote_time_us=60_000, **times)
    assert [a["latest_ms"] for a in expand(create)] == [NOON_MS + 90]
    in_handler = expand(create | {"is_forwarded": False}, uses_zookeeper=True)
    assert [a["latest_ms"] for a in in_handler] == [NOON_MS + 30]


def test_an_older_version_is_permissive() -> None:
    (found,) = expand(mutation("CREATE_TOPICS", ("a", 3, 0), api_version=5))
    assert not found["is_strict"]


def test_no_mutation_is_no_amount() -> None:
    table = pa.Table.from_batches([requests({})]).select(list(MUTATION_COLUMNS))
    assert mutation_lines(table) == []
    found = expand_mutations([], PartitionInventory(), resolutions(quota(3.0, **MUTATIONS)))
    assert found.num_rows == 0
