"""Quotas of topics, rejected by KIP-13. Source: KIP-13, Rejected Alternatives, Topic Based Quotas.

Decided where the document is silent:

- Overrides name topics; every client's bytes on a topic count together, on each broker.
- "If quota for 1 topic is violated, how do we handle requests for the other topics?" is
  ``quota.other.topics``:
  ``delay_all``, the request waits as long as its slowest topic needs;
  ``delay_none``, the others do not wait: a request has one answer, so it waits as long as its
  fastest topic needs, and not at all where one of them violates nothing;
  ``refuse_topic``, the part on the violated topic gets an error, checked before anything of it is
  recorded, and the others are served at once.
- A topic that is gone takes along what was counted of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.whatif.policies.change import Change, TopicAdded, TopicRemoved
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, TopicDecision
from spark_jobs.whatif.policies.kafka_config import TOPIC_NAME, PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import (
    Charge,
    Excess,
    Kip13Family,
    excess_of,
    part_bytes,
    quota_violated,
)
from spark_jobs.whatif.policies.kip13.kip13_config import COMMON_KEYS, ConfigKeys
from spark_jobs.whatif.policies.policy import StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

OTHER_TOPICS = ("delay_all", "delay_none", "refuse_topic")


class Kip13Topic(Kip13Family):
    """A topic has a quota, whoever writes or reads it. Document: KIP-13."""

    name = "kip13_topic"
    title = "KIP-13 Quotas, rejected: topic"
    # One request binds topics together, and one topic binds clients.
    scope = StateScope.BROKER
    keys = COMMON_KEYS | {"quota.other.topics"}

    def state_key(self, request: PolicyRequest) -> str:
        """Return the broker."""
        return str(request.broker_id)

    def observe(self, change: Change) -> None:
        """Forget a topic that is gone; otherwise as the others."""
        super().observe(change)
        if isinstance(change, TopicRemoved):
            for api_name in self.apis:
                self._grids.pop((change.broker_id, api_name, "", change.topic), None)

    def _read(self, keys: ConfigKeys) -> None:
        for key in ("quota.producer.override", "quota.consumer.override"):
            for name in keys.overrides(key):
                if TOPIC_NAME.fullmatch(name) is None:
                    raise keys.refused(key, f"{name!r} cannot be the name of a topic.")
        self._other_topics = keys.one_of("quota.other.topics", OTHER_TOPICS)

    def _bound(self, request: PolicyRequest, topic: str) -> float | None:
        """Return the topic's bound on the request's broker; None: it has none there."""
        return self.settings.bounds[request.api_name].of(topic)

    def _decide(self, request: PolicyRequest) -> Decision:
        charges = [self._charge_of(request, part) for part in request.topics]
        bounded = [charge for charge in charges if charge is not None]
        if not bounded:
            return ADMITTED
        if self._other_topics == "refuse_topic":
            return self._refuse_topics(request, charges)
        found = self._charge(request, bounded)
        excess = max(found, key=_delay_ms)
        if self._other_topics == "delay_none":
            # What has no bound, or was refused for another reason, has nothing to wait for.
            some_waits_for_nothing = len(found) < len(request.topics)
            shortest_ms = 0 if some_waits_for_nothing else min(found, key=_delay_ms).delay_ms
            excess = excess._replace(delay_ms=shortest_ms)
        topics = tuple(TopicDecision(part.topic, part_bytes(part)) for part in request.topics)
        return self._delayed(request, excess, topics)

    def _charge_of(self, request: PolicyRequest, part: TopicPart) -> Charge | None:
        bound = None if part.other_error_code else self._bound(request, part.topic)
        if bound is None:
            return None
        return Charge(self._grid(request, "", part.topic), bound, part_bytes(part))

    def _refuse_topics(self, request: PolicyRequest, charges: list[Charge | None]) -> Decision:
        topics, now_ms = [], request.at_ms
        worst = Excess(0, 0.0, float("inf"), False)
        for part, charge in zip(request.topics, charges, strict=True):
            refusal = None
            if charge is not None:
                total = charge.grid.total(now_ms)
                found = excess_of(total, charge.bound, charge.grid.window_s)
                worst = max(worst, found, key=lambda one: one.rate / one.bound)
                if found.is_violated:
                    refusal = quota_violated(f"topic {part.topic}", found)
                else:
                    charge.grid.record(charge.amount, now_ms)
            topics.append(TopicDecision(part.topic, part_bytes(part), refusal))
        return Decision(topics=tuple(topics), measured=worst.rate, bound=worst.bound)


def _delay_ms(excess: Excess) -> int:
    return excess.delay_ms


def broker_share(quota: float, leaders: int, partitions: int) -> float:
    """Return the part of a topic's quota that a broker gets which leads so many partitions.

    >>> broker_share(8, leaders=3, partitions=8)
    3.0
    """
    return quota * leaders / partitions


class Kip13TopicPartition(Kip13Topic):
    """A topic's quota is split equally over its partitions, to where they are led.

    Source: KIP-13, Rejected Alternatives, Quota Distribution, B.

    Decided where the document is silent, beside the list above:

    - Multiplied first: quota x leaders / partitions rounds once.
    - A topic whose partitions and leaders nobody told of, or that the broker leads nothing of (it
      will answer that it is not the leader), has no share there: its bytes are neither counted nor
      held up.
    - Counts that a later notice leaves out stay as they were. A share holds from the notice on, for
      what was counted before too.
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


_CAPS = {"PRODUCE": "quota.producer.cap", "FETCH": "quota.consumer.cap"}


class Kip13ClientTopic(Kip13Family):
    """A client has a quota for each topic: with every further topic, more.

    Source: KIP-13, Rejected Alternatives, A.

    Decided where the document is silent:

    - The default is every tuple's. An override names a tuple as ``client:topic``,
      ``clientA:logs:4M``; a topic has no ':', so the name's last one divides it.
    - ``quota.producer.cap`` and ``quota.consumer.cap`` are the "cap on the maximum amount of data a
      client can publish/consume": bytes per second over all of its tuples on a broker; none if not
      set.
    - A request waits as long as its slowest tuple, or the cap, needs.
    - Amounts are each topic's record bytes; a part without them counts as nothing.
    """

    name = "kip13_client_topic"
    title = "KIP-13 Quotas, rejected: client-id and topic"
    keys = COMMON_KEYS | frozenset(_CAPS.values())

    def _read(self, keys: ConfigKeys) -> None:
        caps = {api: keys.size(key, None) for api, key in _CAPS.items()}
        for key in ("quota.producer.override", "quota.consumer.override"):
            for name in keys.overrides(key):
                client_id, _, topic = name.rpartition(":")
                if not client_id or not topic:
                    rule = f"{name!r} is no client:topic; write an override as clientA:logs:4M."
                    raise keys.refused(key, rule)
        self._caps = caps

    def _decide(self, request: PolicyRequest) -> Decision:
        client_id = request.client_id or ""
        bounds = self.settings.bounds[request.api_name]
        charges = [
            Charge(
                self._grid(request, client_id, part.topic),
                bounds.of(f"{client_id}:{part.topic}") if client_id else bounds.default,
                part_bytes(part),
            )
            for part in request.topics
        ]
        if not charges:
            return ADMITTED
        cap = self._caps[request.api_name]
        if cap is not None:
            total = sum(charge.amount for charge in charges)
            charges.append(Charge(self._grid(request, client_id), cap, total))
        slowest = max(self._charge(request, charges), key=lambda excess: excess.delay_ms)
        return self._delayed(
            request,
            slowest,
            tuple(TopicDecision(part.topic, part_bytes(part)) for part in request.topics),
        )
