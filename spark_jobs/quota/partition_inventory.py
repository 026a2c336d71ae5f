"""How many partitions each topic has, followed through the mutations in the log.

CreateTopics spends the partitions of the topic, CreatePartitions the added ones, DeleteTopics the
topic's (Kafka: ``ReplicationControlManager.createTopic``/``createPartitions``,
``ControllerApis.deleteTopics`` through ``ControllerMutationQuota.record``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_jobs.quota.apis import APIS

CREATE_TOPICS = "CREATE_TOPICS"
CREATE_PARTITIONS = "CREATE_PARTITIONS"
DELETE_TOPICS = "DELETE_TOPICS"
MUTATION_APIS = (CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS)

NO_ERROR = 0
THROTTLING_QUOTA_EXCEEDED = 89
DECIDED_ERRORS = frozenset({NO_ERROR, THROTTLING_QUOTA_EXCEEDED})
"""Any other error comes before the quota is asked: such a topic is never charged (KIP-599)."""
STRICT_SINCE = {api.name: api.strict_since for api in APIS.values() if api.strict_since is not None}


def is_strict(api_name: str, api_version: int) -> bool:
    """Return True if this request version is refused, not muted, over the quota (KIP-599).

    >>> is_strict("CREATE_TOPICS", 5), is_strict("CREATE_TOPICS", 6)
    (False, True)
    """
    return api_version >= STRICT_SINCE[api_name]


@dataclass(slots=True)
class PartitionInventory:
    """Partitions per topic as the controller knows them at the replayed moment."""

    partitions: dict[str, int] = field(default_factory=dict)

    def copy(self) -> PartitionInventory:
        """Return an independent copy of the inventory."""
        return PartitionInventory(dict(self.partitions))

    def cost(self, api_name: str, topic: str, stated_partitions: int | None) -> int | None:
        """Return the partitions a mutation spends, or None where the log cannot tell.

        ``stated_partitions`` is the topic's count in CreateTopics, the new total in
        CreatePartitions, and absent in DeleteTopics.
        """
        if api_name == CREATE_TOPICS:
            return stated_partitions
        held = self.partitions.get(topic)
        if api_name == DELETE_TOPICS or held is None or stated_partitions is None:
            return held if api_name == DELETE_TOPICS else None
        # Fewer or as many are refused as invalid before the quota is asked: ``held`` is wrong then.
        return stated_partitions - held if stated_partitions > held else None

    def apply(self, api_name: str, topic: str, stated_partitions: int | None) -> None:
        """Take over a mutation the controller carried out.

        A topic created with the broker's default, which no line states, is not known any more.
        """
        if api_name == DELETE_TOPICS or stated_partitions is None:
            self.partitions.pop(topic, None)
        else:
            self.partitions[topic] = stated_partitions
