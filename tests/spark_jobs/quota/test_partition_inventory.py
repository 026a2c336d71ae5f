from __future__ import annotations

import pytest

from spark_jobs.quota.partition_inventory import PartitionInventory, is_strict


def test_create_topics_spends_the_partitions_of_the_topic() -> None:
    assert PartitionInventory().cost("CREATE_TOPICS", "t", 80) == 80


def test_create_partitions_spends_only_the_added_ones() -> None:
    inventory = PartitionInventory({"t": 3})
    assert inventory.cost("CREATE_PARTITIONS", "t", 5) == 2


def test_delete_topics_spends_what_the_topic_had() -> None:
    inventory = PartitionInventory()
    inventory.apply("CREATE_TOPICS", "t", 3)
    inventory.apply("CREATE_PARTITIONS", "t", 7)
    assert inventory.cost("DELETE_TOPICS", "t", None) == 7
    inventory.apply("DELETE_TOPICS", "t", None)
    assert inventory.cost("DELETE_TOPICS", "t", None) is None


def test_a_topic_that_was_never_seen_has_an_unknown_cost() -> None:
    inventory = PartitionInventory()
    assert inventory.cost("DELETE_TOPICS", "t", None) is None
    assert inventory.cost("CREATE_PARTITIONS", "t", 5) is None
    assert inventory.cost("CREATE_TOPICS", "t", None) is None


def test_a_topic_refused_more_partitions_by_a_process_that_ended_may_have_them() -> None:
    inventory = PartitionInventory({"t": 3, "other": 4})
    inventory.refuse("CREATE_PARTITIONS", "t", (1, 100))
    inventory.refuse("CREATE_TOPICS", "other", (1, 100))
    inventory.hand_over((1, 100))
    assert inventory.copy().cost("DELETE_TOPICS", "t", None) == 3
    inventory.hand_over((1, 200))
    assert inventory.copy().cost("DELETE_TOPICS", "t", None) is None
    assert inventory.cost("DELETE_TOPICS", "other", None) == 4
    assert inventory.known() == {"other": 4}
    # Tried again it adds as many, and then there is no doubt any more.
    assert inventory.cost("CREATE_PARTITIONS", "t", 5) == 2
    inventory.apply("CREATE_PARTITIONS", "t", 5)
    inventory.hand_over((1, 300))
    assert inventory.cost("DELETE_TOPICS", "t", None) == 5


@pytest.mark.parametrize(
    ("api_name", "first_strict"),
    [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)],
)
def test_strict_versions_are_those_that_can_say_why_they_refuse(
    api_name: str, first_strict: int
) -> None:
    assert is_strict(api_name, first_strict)
    assert not is_strict(api_name, first_strict - 1)


def test_partitions_that_are_there_already_are_never_charged_so_the_inventory_is_wrong() -> None:
    inventory = PartitionInventory({"t": 5})
    assert inventory.cost("CREATE_PARTITIONS", "t", 5) is None
    assert inventory.cost("CREATE_PARTITIONS", "t", 4) is None
