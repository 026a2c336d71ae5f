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
REQUEST_TIMED_OUT = 7
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


Process = tuple[int, int]
"""A broker and when it started (ms): what decides until it ends."""


@dataclass(slots=True)
class PartitionInventory:
    """Partitions per topic as the controller knows them at the replayed moment.

    A controller that stops loses its last lines, and clients try again what was refused: a topic
    refused more partitions by a process that has ended may have got them after all.
    """

    partitions: dict[str, int] = field(default_factory=dict)
    refused_by: dict[str, Process] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)

    def copy(self) -> PartitionInventory:
        """Return an independent copy of the inventory."""
        return PartitionInventory({**self.partitions}, {**self.refused_by}, {*self.doubted})

    def known(self) -> dict[str, int]:
        """Return the partitions of the topics that have so many for sure."""
        return {topic: n for topic, n in self.partitions.items() if topic not in self.doubted}

    def cost(self, api_name: str, topic: str, stated_partitions: int | None) -> int | None:
        """Return the partitions a mutation spends, or None where the log cannot tell.

        ``stated_partitions`` is the topic's count in CreateTopics, the new total in
        CreatePartitions, and absent in DeleteTopics.
        """
        if api_name == CREATE_TOPICS:
            return stated_partitions
        held = self.partitions.get(topic)
        if api_name == DELETE_TOPICS:
            return None if topic in self.doubted else held
        if held is None or stated_partitions is None:
            return None
        # Fewer or as many are refused as invalid before the quota is asked: ``held`` is wrong then.
        return stated_partitions - held if stated_partitions > held else None

    def apply(self, api_name: str, topic: str, stated_partitions: int | None) -> None:
        """Take over a mutation the controller carried out.

        A topic created with the broker's default, which no line states, is not known any more.
        """
        self.refused_by.pop(topic, None)
        self.doubted.discard(topic)
        if api_name == DELETE_TOPICS or stated_partitions is None:
            self.partitions.pop(topic, None)
        else:
            self.partitions[topic] = stated_partitions

    def refuse(self, api_name: str, topic: str, process: Process) -> None:
        """Take over that a controller's process refused a mutation by its quota."""
        if api_name == CREATE_PARTITIONS:
            self.refused_by[topic] = process

    def hand_over(self, process: Process) -> None:
        """Take over that it is this process that decides now: what others refused is in doubt."""
        ended = [topic for topic, by in self.refused_by.items() if by != process]
        self.doubted.update(ended)
        for topic in ended:
            del self.refused_by[topic]
