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

import re

from spark_jobs.whatif.policies.change import Change, TopicRemoved
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, TopicDecision
from spark_jobs.whatif.policies.kip13.kip13_config import COMMON_KEYS, ConfigKeys
from spark_jobs.whatif.policies.kip13.kip13_family import (
    Charge,
    Excess,
    Kip13Family,
    excess_of,
    part_bytes,
    quota_violated,
)
from spark_jobs.whatif.policies.policy import StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

# Kafka: Topic.LEGAL_CHARS and MAX_NAME_LENGTH.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
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
                if _TOPIC.fullmatch(name) is None:
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
