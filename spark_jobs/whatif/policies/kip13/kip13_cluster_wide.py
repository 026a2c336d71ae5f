"""One quota for a client over all brokers, rejected by KIP-13.

Source: KIP-13, Quota Distribution ("a mechanism to share current quota usage per-client among all
the brokers"). Decided where the document is silent:

- ``quota.sharing.delay.ms``: a broker knows what it served at once, and what others served so much
  later, in the sample of when it was served; 0, the default, is perfect knowledge.
- A broker that starts anew has lost what it served and had not told yet, and does not learn of its
  own past from others; they still know what they were told.
- The delay is worked out as for one broker: total over all, less bound x window, by bound.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.kip13.kip13 import Kip13Family, excess_of, request_bytes
from spark_jobs.whatif.policies.kip13.kip13_config import COMMON_KEYS, ConfigKeys
from spark_jobs.whatif.policies.policy import StateScope
from spark_jobs.whatif.policies.request import PolicyRequest


class SharedUsage:
    """What brokers served to one client, as each of them knows it."""

    def __init__(self, new_grid: Callable[[], GridRate]) -> None:
        self._served: dict[int, GridRate] = defaultdict(new_grid)
        self._told: dict[int, GridRate] = defaultdict(new_grid)
        self._untold: deque[tuple[int, int, float]] = deque()

    def record(self, broker_id: int, amount: float, now_ms: int) -> None:
        """Count what a broker serves; the others hear of it later."""
        self._served[broker_id].record(amount, now_ms)
        self._untold.append((now_ms, broker_id, amount))

    def total(self, broker_id: int, now_ms: int, sharing_delay_ms: int) -> float:
        """Return the amount that all brokers served in the window, as one broker believes."""
        while self._untold and self._untold[0][0] + sharing_delay_ms <= now_ms:
            at_ms, teller, amount = self._untold.popleft()
            self._told[teller].record(amount, at_ms)
        heard = [grid.total(now_ms) for teller, grid in self._told.items() if teller != broker_id]
        return sum(heard, self._served[broker_id].total(now_ms))

    def forget(self, broker_id: int) -> None:
        """Lose what a broker served and had not told."""
        self._served.pop(broker_id, None)
        self._untold = deque(usage for usage in self._untold if usage[1] != broker_id)


class Kip13ClusterWide(Kip13Family):
    """A client's bound is the cluster's, and each broker enforces what it knows. Document: KIP-13.

    Requests of all brokers are decided in the order of their times.
    """

    name = "kip13_cluster_wide"
    title = "KIP-13 Quotas, rejected: one bound for all brokers"
    scope = StateScope.CLUSTER
    keys = COMMON_KEYS | {"quota.sharing.delay.ms"}

    def __init__(self, config: Mapping[str, object]) -> None:
        self._usage: dict[tuple[str, str], SharedUsage] = {}
        super().__init__(config)

    def state_key(self, request: PolicyRequest) -> str:
        """Return API and client, whatever the broker."""
        return f"{request.api_name}/{request.client_id or ''}"

    def _read(self, keys: ConfigKeys) -> None:
        self._sharing_delay_ms = keys.whole("quota.sharing.delay.ms", default=0, minimum=0)

    def _drop_all(self) -> None:
        self._usage.clear()

    def _forget(self, broker_id: int) -> None:
        for usage in self._usage.values():
            usage.forget(broker_id)

    def _decide(self, request: PolicyRequest) -> Decision:
        client_id, now_ms, broker_id = request.client_id or "", request.at_ms, request.broker_id
        usage = self._usage.setdefault((request.api_name, client_id), SharedUsage(self._new_grid))
        bound = self.settings.bounds[request.api_name].of(client_id)
        amount, counts_itself = request_bytes(request), request.api_name == "PRODUCE"
        if counts_itself:
            usage.record(broker_id, amount, now_ms)
        total = usage.total(broker_id, now_ms, self._sharing_delay_ms)
        if not counts_itself:
            usage.record(broker_id, amount, now_ms)
        window_s = self.settings.samples * self.settings.window_ms / 1000
        return self._delayed(request, excess_of(total, bound, window_s))
