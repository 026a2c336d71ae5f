"""The thresholds of bytes in: a broker's total, topics' own, and the shares of all other topics.

Source: "Broker side quota (V1)", Low level design 1; :mod:`broker_side_v1` lists
what is decided where it is silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from spark_jobs.quota.java_math import LONG_MAX
from spark_jobs.whatif.policies.kafka_config import TOPIC_NAME, PolicyConfigError, as_whole_number

TOTAL_THRESHOLD = "total.bytes.in.per.sec.threshold"
"""Broker config: bytes per second, the same on every broker."""
TOPIC_THRESHOLD = "bytes.in.per.sec.threshold"
"""Topic config: bytes per second by topic, a table; the page's "bytes.in.threshold" is a misprint.
"""


class BytesInThresholds:
    """The thresholds in force on every broker, after all changes so far.

    >>> thresholds = BytesInThresholds("broker_side_v1", {TOTAL_THRESHOLD: 100})
    >>> thresholds.change({TOPIC_THRESHOLD: {"a": 60, "b": 30}})
    >>> for topic in "abcd":
    ...     thresholds.add_topic(1, topic)
    >>> [thresholds.of(1, topic) for topic in "abcd"]
    [60, 30, 5, 5]
    """

    def __init__(self, policy: str, values: Mapping[str, object]) -> None:
        self._policy = policy
        self._explicit: dict[str, int] = {}
        self._topics: defaultdict[int, set[str]] = defaultdict(set)  # by broker
        self._shares: dict[int, int | None] = {}  # by broker, of the topics as they are
        if values.get(TOTAL_THRESHOLD) is None:
            rule = "there is no default: without a total there is nothing to exceed."
            raise self._error(TOTAL_THRESHOLD, None, rule)
        for topic, found in self._table(values.get(TOPIC_THRESHOLD)).items():
            if found is None:
                rule = "a topic without a value; leave it out, and it has a share."
                raise self._error(TOPIC_THRESHOLD, {topic: found}, rule)
        self.total = 0
        self.change(values)

    def change(self, values: Mapping[str, object]) -> None:
        """Take over thresholds, all of them or, raising PolicyConfigError, none.

        Topics that the table does not name keep theirs; None removes a topic's, and None instead
        of the table removes every one.
        """
        total, explicit = self.total, dict(self._explicit)
        if TOTAL_THRESHOLD in values:
            found = values[TOTAL_THRESHOLD]
            total = self._number(TOTAL_THRESHOLD, found, found)
        if TOPIC_THRESHOLD in values:
            self._change_topics(explicit, values[TOPIC_THRESHOLD])
        if sum(explicit.values()) > total:
            raise self._exceeded(values, sum(explicit.values()), total)
        self.total, self._explicit = total, explicit
        self._shares.clear()

    def add_topic(self, broker_id: int, topic: str) -> None:
        """Count a topic that a broker has from now on, if it had not already."""
        if topic not in self._topics[broker_id]:
            self._topics[broker_id].add(topic)
            self._shares.pop(broker_id, None)

    def remove_topic(self, broker_id: int, topic: str) -> None:
        """Count a topic no more that a broker has no longer."""
        self._topics[broker_id].discard(topic)
        self._shares.pop(broker_id, None)

    def of(self, broker_id: int, topic: str) -> int:
        """Return the threshold of a topic that the broker has: its own, or its share."""
        explicit = self._explicit.get(topic)
        if explicit is not None:
            return explicit
        share = self.share(broker_id)
        assert share is not None, (broker_id, topic)
        return share

    def share(self, broker_id: int) -> int | None:
        """Return the threshold of each topic of a broker without its own, None without such."""
        if broker_id not in self._shares:
            topics = self._topics[broker_id]
            own = [self._explicit[topic] for topic in topics if topic in self._explicit]
            sharing = len(topics) - len(own)
            # A long's division: what is left of it is nobody's.
            self._shares[broker_id] = (self.total - sum(own)) // sharing if sharing else None
        return self._shares[broker_id]

    def _change_topics(self, explicit: dict[str, int], table: object) -> None:
        if table is None:
            explicit.clear()
        for topic, found in self._table(table).items():
            if found is None:
                explicit.pop(topic, None)
            else:
                explicit[topic] = self._number(TOPIC_THRESHOLD, found, {topic: found})

    def _table(self, table: object) -> Mapping[str, object]:
        if table is None:
            return {}
        if not isinstance(table, Mapping):
            rule = "it must be a table of topics with bytes per second, as in {a = 60, b = 30}."
            raise self._error(TOPIC_THRESHOLD, table, rule)
        for topic, found in table.items():
            if not isinstance(topic, str) or TOPIC_NAME.fullmatch(topic) is None:
                rule = f"{topic!r} cannot be the name of a topic."
                raise self._error(TOPIC_THRESHOLD, {topic: found}, rule)
        return table

    def _number(self, key: str, found: object, shown: object) -> int:
        number = as_whole_number(found)
        if number is None or not 0 <= number <= LONG_MAX:
            rule = f"it must be a whole number of bytes per second from 0 to {LONG_MAX}."
            raise self._error(key, shown, rule)
        return number

    def _exceeded(self, values: Mapping[str, object], explicit: int, total: int) -> Exception:
        key = TOPIC_THRESHOLD if values.get(TOPIC_THRESHOLD) else TOTAL_THRESHOLD
        rule = (
            f"the sum of all topics' {TOPIC_THRESHOLD}, {explicit}, must not exceed "
            f"{TOTAL_THRESHOLD}, {total}; lower a topic's, or raise the total first."
        )
        return self._error(key, values[key], rule)

    def _error(self, key: str, found: object, rule: str) -> PolicyConfigError:
        return PolicyConfigError(self._policy, key, found, rule)
