"""Quotas of (client-id, topic), rejected by KIP-13. Source: KIP-13, Rejected Alternatives, A.

Decided where the document is silent:

- The default is every tuple's. An override names a tuple as ``client:topic``, ``clientA:logs:4M``;
  a topic has no ':', so the name's last one divides it.
- ``quota.producer.cap`` and ``quota.consumer.cap`` are the "cap on the maximum amount of data a
  client can publish/consume": bytes per second over all of its tuples on a broker; none if not set.
- A request waits as long as its slowest tuple, or the cap, needs.
- Amounts are each topic's record bytes; a part without them counts as nothing.
"""

from __future__ import annotations

from spark_jobs.whatif.policies.decision import ADMITTED, Decision, TopicDecision
from spark_jobs.whatif.policies.kip13.kip13_config import COMMON_KEYS, ConfigKeys
from spark_jobs.whatif.policies.kip13.kip13_family import Charge, Kip13Family, part_bytes
from spark_jobs.whatif.policies.request import PolicyRequest

_CAPS = {"PRODUCE": "quota.producer.cap", "FETCH": "quota.consumer.cap"}


class Kip13ClientTopic(Kip13Family):
    """A client has a quota for each topic: with every further topic, more. Document: KIP-13."""

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
