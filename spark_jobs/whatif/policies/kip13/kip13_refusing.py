"""What KIP-13's two rejected quota actions share: an error instead of a delay.

Source: KIP-13, Rejected Alternatives, Quota Actions. Decided where the document is silent:

- The quota is checked on what was recorded before the request; a refused one is never recorded.
- How clients answer an error is a setting: ``retries`` (0, the producer's default of the time) and
  ``retry.backoff.ms``. A retry is decided on at its own time, before later requests. This is for
  requests as logged; where someone else plays the clients, ``retries`` stays 0.
- A produce that is refused after its last retry is lost, and at once with acks=0, whose client
  hears of no error. A fetch loses nothing: what it did not read is still there.
- Only a produce carries its bytes again; the bytes of a fetch are counted when it is served.
- A client that retries is not stopped by the restart of a broker.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import ClassVar, NamedTuple

from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.kip13.kip13 import (
    Excess,
    Kip13Family,
    excess_of,
    quota_violated,
    request_bytes,
)
from spark_jobs.whatif.policies.kip13.kip13_config import COMMON_KEYS, ConfigKeys
from spark_jobs.whatif.policies.request import PolicyRequest


@dataclass(slots=True)
class RefusalCost:
    """What refusing one client on one broker cost; bytes are those of produces."""

    refused_requests: int = 0
    """Answers with an error, to retries too."""
    retried_requests: int = 0
    retried_bytes: float = 0.0
    admitted_late_requests: int = 0
    """Requests of the log that a retry brought through."""
    lost_requests: int = 0
    lost_bytes: float = 0.0


class Attempt(NamedTuple):
    """A request that a client sends again at ``at_ms``; ``order`` keeps equal times in order."""

    at_ms: int
    order: int
    request: PolicyRequest
    retries_left: int


@dataclass(slots=True)
class RefusedClient:
    """One client on one broker."""

    cost: RefusalCost = field(default_factory=RefusalCost)
    attempts: list[Attempt] = field(default_factory=list)  # a heap


class Kip13Refusing(Kip13Family):
    """A client above its quota gets an error. Document: KIP-13."""

    keys = COMMON_KEYS | {"retries", "retry.backoff.ms"}
    backoff_default_ms: ClassVar[int]
    backoff_min_ms: ClassVar[int]
    # How long a request is parked before it gets its error.
    parked_ms = 0
    _retries: int
    _backoff_ms: int

    def __init__(self, config: Mapping[str, object]) -> None:
        self._clients: dict[str, RefusedClient] = defaultdict(RefusedClient)
        self._order = 0
        # By broker: when parked bytes changed, and by how much; arrays, for it is a day's list.
        self.parked: dict[int, tuple[array[int], array[float]]] = {}
        super().__init__(config)

    def observe(self, change: Change) -> None:
        """Let clients retry until the change, and then take notice of it."""
        self.settle(change.at_ms)
        super().observe(change)

    def settle(self, now_ms: int) -> None:
        """Let all clients make the retries that are due by ``now_ms``."""
        for client in self._clients.values():
            self._retry(client, now_ms)

    def leave_retries_to_clients(self) -> tuple[int, int]:
        """Play no retries from now on; return their number and their backoff (ms)."""
        retries, self._retries = self._retries, 0
        return retries, self._backoff_ms

    def costs(self) -> dict[str, RefusalCost]:
        """Return the costs of refusing so far, by state key; call :meth:`settle` first."""
        return {key: replace(client.cost) for key, client in self._clients.items()}

    def _read(self, keys: ConfigKeys) -> None:
        retries = keys.whole("retries", default=0, minimum=0)
        backoff_ms = keys.whole("retry.backoff.ms", self.backoff_default_ms, self.backoff_min_ms)
        self._retries, self._backoff_ms = retries, backoff_ms

    def _decide(self, request: PolicyRequest) -> Decision:
        client = self._clients[self.state_key(request)]
        self._retry(client, request.at_ms)
        excess = self._admit(request, request.at_ms)
        if not excess.is_violated:
            return Decision(measured=excess.rate, bound=excess.bound)
        self._refuse(client, request, request.at_ms, self._retries)
        return Decision(
            delay_ms=self.parked_ms,
            held=self._held(request),
            refusal=quota_violated(f"client {request.client_id or ''!r}", excess),
            measured=excess.rate,
            bound=excess.bound,
        )

    def _held(self, request: PolicyRequest) -> Held:
        if not self.parked_ms:
            return Held.NOTHING
        return Held.RESPONSE if request.is_answered else Held.NEXT_REQUEST

    def _admit(self, request: PolicyRequest, now_ms: int) -> Excess:
        """Return the excess before the request, which is recorded if there is none."""
        name = request.client_id or ""
        grid, bound = self._grid(request, name), self.settings.bounds[request.api_name].of(name)
        excess = excess_of(grid.total(now_ms), bound, grid.window_s)
        if not excess.is_violated:
            grid.record(request_bytes(request), now_ms)
        return excess

    def _refuse(
        self, client: RefusedClient, request: PolicyRequest, now_ms: int, retries_left: int
    ) -> None:
        is_produce = request.api_name == "PRODUCE"
        client.cost.refused_requests += 1
        if is_produce and self.parked_ms:
            amount, empty = request_bytes(request), (array("q"), array("d"))
            times_ms, changes = self.parked.setdefault(request.broker_id, empty)
            times_ms.extend((now_ms, now_ms + self.parked_ms))
            changes.extend((amount, -amount))
        if retries_left and request.is_answered:
            again_ms = now_ms + self.parked_ms + self._backoff_ms
            self._order += 1
            attempt = Attempt(again_ms, self._order, request, retries_left - 1)
            heapq.heappush(client.attempts, attempt)
        elif is_produce:
            client.cost.lost_requests += 1
            client.cost.lost_bytes += request_bytes(request)

    def _retry(self, client: RefusedClient, now_ms: int) -> None:
        while client.attempts and client.attempts[0].at_ms <= now_ms:
            at_ms, _, request, retries_left = heapq.heappop(client.attempts)
            client.cost.retried_requests += 1
            if request.api_name == "PRODUCE":
                client.cost.retried_bytes += request_bytes(request)
            if self._admit(request, at_ms).is_violated:
                self._refuse(client, request, at_ms, retries_left)
            else:
                client.cost.admitted_late_requests += 1


class Kip13ImmediateError(Kip13Refusing):
    """A client above its quota gets an error at once, and may try again.

    Source: KIP-13, Rejected Alternatives, Quota Actions, A.

    "A badly behaved client can simply retry in a loop": ``retry.backoff.ms`` is at least 1 ms here,
    the round trip that even such a client needs; 100 ms, the producer's default, if not set. The
    error says nothing of how long to wait.
    """

    name = "kip13_immediate_error"
    title = "KIP-13 Quotas, rejected: an error at once"
    backoff_default_ms = 100
    backoff_min_ms = 1


class Kip13DelayThenError(Kip13Refusing):
    """A client above its quota waits for n ms, and gets an error then.

    Source: KIP-13, Rejected Alternatives, Quota Actions, B. Decided where the document is silent,
    beside the list above:

    - ``quota.delay.ms`` is its n (1 s if not set), at most ``request.timeout.ms`` (30 s). A parked
      request gets its error after n even if the quota has recovered meanwhile: "After the request
      expires, the broker can return an error".
    - Clients "can retry immediately": ``retry.backoff.ms`` is 0 if not set.
    - acks=0: the connection is held up all the same, and nobody hears of the error.
    - Parked bytes are those of produces, from their arrival until their error.
    """

    name = "kip13_delay_then_error"
    title = "KIP-13 Quotas, rejected: a delay and then an error"
    keys = Kip13Refusing.keys | {"quota.delay.ms", "request.timeout.ms"}
    backoff_default_ms = 0
    backoff_min_ms = 0

    def parked_bytes(self, broker_id: int) -> list[tuple[int, float]]:
        """Return the moments, in order, from which a broker's memory held so many parked bytes."""
        changes: defaultdict[int, float] = defaultdict(float)
        for at_ms, amount in zip(*self.parked.get(broker_id, ((), ())), strict=True):
            changes[at_ms] += amount
        times = sorted(changes)
        return list(zip(times, accumulate(changes[at] for at in times), strict=True))

    def _read(self, keys: ConfigKeys) -> None:
        timeout_ms = keys.whole("request.timeout.ms", default=30_000, minimum=1)
        parked_ms = keys.whole("quota.delay.ms", default=min(1_000, timeout_ms), minimum=1)
        if parked_ms > timeout_ms:
            rule = f"a request is parked for at most its request.timeout.ms, {timeout_ms}."
            raise keys.refused("quota.delay.ms", rule)
        super()._read(keys)
        self.parked_ms = parked_ms
