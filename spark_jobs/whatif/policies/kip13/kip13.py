"""Client quotas as KIP-13 was accepted. Source: KIP-13 "Quotas", "Quota Policy" to "Metrics".

Decided where the document is silent, beside kip13_config's and kip13_family's list:

- "Client id or consumer group": the client-id, which every request carries.
- Clients without one (null or empty) share one quota, and it is the default.
"""

from __future__ import annotations

from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kip13.kip13_family import Charge, Kip13Family, request_bytes
from spark_jobs.whatif.policies.request import PolicyRequest


class Kip13(Kip13Family):
    """A client that wrote or read more than its bound x N waits until it has not.

    >>> kip13 = Kip13.configured({"quota.producer.default": 5, "quota.window.num": 10})
    >>> for second, amount in enumerate([5.0] * 9 + [15.0]):
    ...     decision = kip13.decide(
    ...         PolicyRequest(1_000 * second, 1, "c", "PRODUCE", 1, "u", "app", amount, acks=1)
    ...     )
    >>> decision.delay_ms, decision.held.value, decision.is_told
    (2000, 'response', True)
    """

    name = "kip13"
    title = "KIP-13 Quotas"

    def byte_rate(self, broker_id: int, api_name: str, client_id: str | None, now_ms: int) -> float:
        """Return the broker's metric of a client: bytes per second, 0 of an unknown one."""
        grid = self._grids.get((broker_id, api_name, client_id or "", ""))
        return 0.0 if grid is None else grid.rate(now_ms)

    def _decide(self, request: PolicyRequest) -> Decision:
        client_id = request.client_id or ""
        bound = self.settings.bounds[request.api_name].of(client_id)
        charge = Charge(self._grid(request, client_id), bound, request_bytes(request))
        return self._delayed(request, self._charge(request, [charge])[0])
