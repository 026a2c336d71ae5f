"""Quotas of topics, split over partitions, rejected by KIP-13.

Source: KIP-13, Rejected Alternatives, Quota Distribution, B.

Decided where the document is silent, beside kip13_topic's list:

- Multiplied first: quota x leaders / partitions rounds once.
- A topic whose partitions and leaders nobody told of, or that the broker leads nothing of (it will
  answer that it is not the leader), has no share there: its bytes are neither counted nor held up.
- Counts that a later notice leaves out stay as they were. A share holds from the notice on, for
  what was counted before too.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.whatif.policies.change import Change, TopicAdded, TopicRemoved
from spark_jobs.whatif.policies.config_error import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13_topic import Kip13Topic
from spark_jobs.whatif.policies.request import PolicyRequest


def broker_share(quota: float, leaders: int, partitions: int) -> float:
    """Return the part of a topic's quota that a broker gets which leads so many partitions.

    >>> broker_share(8, leaders=3, partitions=8)
    3.0
    """
    return quota * leaders / partitions


class Kip13TopicPartition(Kip13Topic):
    """A topic's quota is split equally over its partitions, to where they are led.

    Document: KIP-13.
    """

    name = "kip13_topic_partition"
    title = "KIP-13 Quotas, rejected: topic, split over its partitions"

    def __init__(self, config: Mapping[str, object]) -> None:
        self._counts: dict[tuple[int, str], tuple[int | None, int | None]] = {}
        super().__init__(config)

    def observe(self, change: Change) -> None:
        """Take notice of partitions and leaders too. Raises PolicyConfigError: impossible ones."""
        super().observe(change)
        if isinstance(change, TopicAdded):
            self._count(change)
        elif isinstance(change, TopicRemoved):
            self._counts.pop((change.broker_id, change.topic), None)

    def _bound(self, request: PolicyRequest, topic: str) -> float | None:
        partitions, leaders = self._counts.get((request.broker_id, topic), (None, None))
        if not partitions or not leaders:
            return None
        quota = self.settings.bounds[request.api_name].of(topic)
        return broker_share(quota, leaders, partitions)

    def _count(self, change: TopicAdded) -> None:
        key = (change.broker_id, change.topic)
        partitions, leaders = self._counts.get(key, (None, None))
        partitions = partitions if change.partitions is None else change.partitions
        leaders = leaders if change.leaders is None else change.leaders
        rule = ""
        if partitions is not None and partitions < 1:
            rule = "a topic has at least 1 partition."
        elif leaders is not None and (leaders < 0 or leaders > (partitions or leaders)):
            rule = "a broker leads 0 of a topic's partitions, or some, or all of them."
        if rule:
            found = f"{leaders} of {partitions} partitions"
            where = f"topic {change.topic} on broker {change.broker_id}"
            raise PolicyConfigError(self.name, where, found, rule)
        self._counts[key] = (partitions, leaders)
