"""What became of each client's requests under a policy, in figures: rows of ``tables.WHATIF``.

Amounts are bytes on the wire of produces and fetches, and partitions of mutations; other requests
have none. What the log does not tell counts as 0, and its requests as ``unsized_requests``.

- ``asked`` = ``admitted`` + ``refused`` + ``taken_back``; ``delayed`` is the part of ``asked`` that
  waited and was not refused. Of a request of which a policy refuses only some topics, those topics'
  record bytes are refused and the rest is admitted.
- ``throttle_time_ms`` is the sum of all delays, whatever they held back, and after a refusal too.
- ``worst_burst`` is the largest amount admitted in any one second of the clock. What waits to be
  read or carried out counts in the second when it is.
- ``harm_time_ms`` is the delay of requests whose client stayed inside its share of a state that it
  shared; ``harmed_requests`` are those and the ones refused. A share is the bound over the clients
  (user and client-id) that asked something of that state in the last 10 s. A client is inside it
  while its own rate over those 10 s, this request included, is at most that. A state that nobody
  else uses is not shared, so there is no harm in it. Where a state is a whole broker, as of
  topics' quotas, all of the broker's clients share it: fewer are then found inside than are.
- ``lost`` is what was refused and that nobody tries again as logged: of produces all of it, unless
  the policy plays the clients' retries itself, which then brought the rest of ``refused`` through
  (``admitted`` is what was at first); of mutations what its client does not ask for again later
  in the log; of fetches nothing, since the records are still there. In the closed loop it is what
  the clients gave up.
- ``waiting`` is what was asked for and is neither admitted nor lost at the end of the log; as
  logged nothing is known of it.

Memory is bounded by the clients, not by the requests: seconds are folded as time goes on.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.whatif.clients.scenario import Mode
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.request import PolicyRequest

ACTIVE_MS = 10_000
"""A client is active in a state while its last request there is less than this ago."""
_CELL_MS = 100
_CELLS = ACTIVE_MS // _CELL_MS

Client = tuple[str, str]
"""User and client-id."""


@dataclass(slots=True)
class RecentAmount:
    """What one client asked for in the last 10 s, in cells of 100 ms."""

    cells: deque[tuple[int, float]] = field(default_factory=deque)
    total: float = 0.0

    def add(self, cell: int, amount: float) -> None:
        """Count an amount; cells never go back by much, and one that does counts as the newest."""
        if self.cells and self.cells[-1][0] >= cell:
            newest, held = self.cells.pop()
            self.cells.append((newest, held + amount))
        else:
            self.cells.append((cell, amount))
        self.total += amount

    def forget_before(self, cell: int) -> None:
        """Forget the amounts of cells before ``cell``."""
        while self.cells and self.cells[0][0] < cell:
            self.total -= self.cells.popleft()[1]


class SharedStates:
    """The clients of each state, by what they asked for in the last 10 s.

    >>> states = SharedStates()
    >>> states.is_inside("s", ("noisy", ""), 900.0, bound=100.0, now_ms=0)
    False
    >>> states.is_inside("s", ("calm", ""), 400.0, bound=100.0, now_ms=0)
    True
    >>> states.is_inside("s", ("noisy", ""), 200.0, bound=100.0, now_ms=100)
    False
    """

    def __init__(self) -> None:
        self._clients: dict[str, dict[Client, RecentAmount]] = {}
        self._swept_cell = -_CELLS

    def is_inside(
        self, state_key: str, client: Client, amount: float, bound: float, now_ms: int
    ) -> bool:
        """Count ``amount``; return True if its client is inside its share of a shared state.

        The share is ``bound`` (per second) over the clients active in the last 10 s; a client is
        inside while its own rate over those 10 s, with this request, is at most that. A client that
        has a state to itself shares nothing, and without a bound there is nothing to share.
        """
        cell = now_ms // _CELL_MS
        self._sweep(cell)
        clients = self._clients.setdefault(state_key, {})
        own = clients.pop(client, None) or RecentAmount()
        own.add(cell, amount)
        own.forget_before(cell - _CELLS + 1)
        clients[client] = own  # last: clients are in the order of their newest request
        while not _is_active(clients[next(iter(clients))], cell):
            del clients[next(iter(clients))]
        if len(clients) < 2 or math.isnan(bound):
            return False
        return own.total * 1000 / ACTIVE_MS <= bound / len(clients)

    def _sweep(self, cell: int) -> None:
        """Forget states in which nobody is active any more, now and then."""
        if cell - self._swept_cell < _CELLS:
            return
        self._swept_cell = cell
        for key, clients in list(self._clients.items()):
            if not _is_active(clients[next(reversed(clients))], cell):
                del self._clients[key]


def _is_active(recent: RecentAmount, cell: int) -> bool:
    return recent.cells[-1][0] > cell - _CELLS


PRODUCE, FETCH, MUTATION, OTHER = "produce", "fetch", "mutation", "other"
_KINDS = {
    "PRODUCE": PRODUCE,
    "FETCH": FETCH,
    "SHARE_FETCH": FETCH,
    **dict.fromkeys(MUTATION_APIS, MUTATION),
}
_CARRIED_OUT_LATER = (Held.READ, Held.EXECUTION)
_US_PER_MS = 1000
_US_PER_PERCENT_S = 10_000  # percent of one second


class OutcomeKey(NamedTuple):
    """Whose figures, where, and of which kind of request."""

    broker_id: int
    user: str
    client_id: str | None
    kind: str


@dataclass(slots=True)
class BusiestSecond:
    """The largest sum in one second; seconds that are over are folded into it."""

    worst: float = 0.0
    open: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    now_s: int = 0

    def add(self, at_ms: int, amount: float, now_ms: int) -> None:
        """Count what is admitted at ``at_ms``, now or later."""
        self.open[at_ms // 1000] += amount
        if now_ms // 1000 > self.now_s:
            self.now_s = now_ms // 1000
            for second in [second for second in self.open if second < self.now_s]:
                self.worst = max(self.worst, self.open.pop(second))

    def found(self) -> float:
        """Return the largest sum, of seconds to come too."""
        return max((self.worst, *self.open.values()))


@dataclass(slots=True)
class Outcome:
    """The figures of one key; amounts in bytes or partitions."""

    requests: int = 0
    unsized_requests: int = 0
    delayed_requests: int = 0
    refused_requests: int = 0
    harmed_requests: int = 0
    asked: float = 0.0
    delayed: float = 0.0
    refused: float = 0.0
    taken_back: float = 0.0
    lost: float = 0.0
    waiting: float = 0.0
    throttle_time_ms: int = 0
    throttle_time_max_ms: int = 0
    harm_time_ms: int = 0
    seconds: BusiestSecond = field(default_factory=BusiestSecond)
    # Refused mutations that were not asked for again yet: API and topic → partitions.
    refused_topics: dict[tuple[str, str], float] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return the figures by column."""
        figures = {name: getattr(self, name) for name in self.__slots__ if name in WHATIF.names}
        return figures | {
            "admitted": max(self.asked - self.refused - self.taken_back, 0.0),
            "lost": min(max(self.lost, 0.0) + sum(self.refused_topics.values()), self.refused),
            "worst_burst": self.seconds.found(),
        }


class Outcomes:
    """The figures of one policy over one stretch of requests, which come in time order.

    ``policy`` is the policy's name, which says what its bound is per second of: percent of a
    thread, handler time, or the amounts themselves.
    """

    def __init__(self, policy: str, label: str, mode: Mode) -> None:
        self._policy, self._label, self._mode = policy, label, str(mode)
        self._outcomes: dict[OutcomeKey, Outcome] = defaultdict(Outcome)
        self._states = SharedStates()
        # Refused produces by state, for a policy that knows itself what was lost of them.
        self._refused: dict[str, dict[OutcomeKey, float]] = defaultdict(lambda: defaultdict(float))

    def add(
        self,
        request: PolicyRequest,
        decision: Decision,
        state_key: str,
        lost: float | None = None,
    ) -> None:
        """Count a decision; of replicas' requests only mutations count.

        ``lost`` is what its client gave up, None where nobody plays the clients.
        """
        kind = _KINDS.get(request.api_name, OTHER)
        if request.is_replica and kind != MUTATION:
            return
        key, outcome = self._outcome(request, kind)
        asked, is_sized = _asked(request, kind)
        refused = _refused_amount(decision, asked)
        is_refused = _is_refused(decision)
        outcome.requests += 1
        outcome.unsized_requests += not is_sized
        outcome.asked += asked
        outcome.refused += refused
        outcome.refused_requests += is_refused
        self._count_delay(outcome, decision, asked - refused)
        self._count_admitted(outcome, request, decision, asked - refused)
        self._count_harm(outcome, request, decision, state_key, asked)
        if lost is None:
            self._count_lost(key, outcome, request, decision, refused, state_key)
        else:
            outcome.lost += lost

    def add_waiting(self, request: PolicyRequest, amount: float) -> None:
        """Count what the log's client wanted of a request and had not got in the end."""
        kind = _KINDS.get(request.api_name, OTHER)
        _, outcome = self._outcome(request, kind)
        outcome.waiting += amount if kind != OTHER else 0.0

    def settle_lost(self, lost: Mapping[str, float]) -> None:
        """Set what was lost of each state's refused produces to the policy's own figure.

        Where several users share a state, each lost as large a part of what it was refused.
        """
        for state_key, refused in self._refused.items():
            total = sum(refused.values())
            share = min(lost.get(state_key, 0.0) / total, 1.0) if total else 0.0
            for key, amount in refused.items():
                self._outcomes[key].lost -= amount * (1 - share)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row of ``tables.WHATIF`` for each key, in the keys' order."""
        return [
            {
                "policy": self._policy,
                "label": self._label,
                "mode": self._mode,
                **key._asdict(),
                **self._outcomes[key].row(),
            }
            for key in sorted(self._outcomes, key=lambda k: (*k[:2], k.client_id or "", k.kind))
        ]

    def _outcome(self, request: PolicyRequest, kind: str) -> tuple[OutcomeKey, Outcome]:
        key = OutcomeKey(request.broker_id, request.user, request.client_id, kind)
        return key, self._outcomes[key]

    def _count_delay(self, outcome: Outcome, decision: Decision, served: float) -> None:
        if decision.delay_ms <= 0:
            return
        outcome.delayed_requests += 1
        outcome.delayed += served
        outcome.throttle_time_ms += decision.delay_ms
        outcome.throttle_time_max_ms = max(outcome.throttle_time_max_ms, decision.delay_ms)

    def _count_admitted(
        self, outcome: Outcome, request: PolicyRequest, decision: Decision, served: float
    ) -> None:
        if decision.is_taken_back:
            outcome.taken_back += served
            return
        later_ms = decision.delay_ms if decision.held in _CARRIED_OUT_LATER else 0
        outcome.seconds.add(request.at_ms + later_ms, served, request.at_ms)

    def _count_harm(
        self,
        outcome: Outcome,
        request: PolicyRequest,
        decision: Decision,
        state_key: str,
        asked: float,
    ) -> None:
        client = (request.user, request.client_id or "")
        amount = _measured_amount(self._policy, request, asked)
        is_inside = self._states.is_inside(state_key, client, amount, decision.bound, request.at_ms)
        if is_inside and (decision.delay_ms > 0 or _is_refused(decision)):
            outcome.harmed_requests += 1
            outcome.harm_time_ms += max(decision.delay_ms, 0)

    def _count_lost(
        self,
        key: OutcomeKey,
        outcome: Outcome,
        request: PolicyRequest,
        decision: Decision,
        refused: float,
        state_key: str,
    ) -> None:
        if key.kind == PRODUCE and refused:
            outcome.lost += refused
            self._refused[state_key][key] += refused
        if key.kind != MUTATION or request.validate_only:
            return
        for part in request.topics:
            outcome.refused_topics.pop((request.api_name, part.topic), None)
        for topic, amount in _refused_topics(request, decision):
            outcome.refused_topics[request.api_name, topic] = amount


def _asked(request: PolicyRequest, kind: str) -> tuple[float, bool]:
    """Return the amount of a request as far as it is known, and True if all of it is."""
    if kind == OTHER:
        return 0.0, True
    if kind != MUTATION:
        return _known(request.amount), not math.isnan(request.amount)
    amounts = [part.amount for part in request.topics if not part.other_error_code]
    return sum(map(_known, amounts), 0.0), not any(map(math.isnan, amounts))


def _is_refused(decision: Decision) -> bool:
    return decision.refusal is not None or any(t.refusal is not None for t in decision.topics)


def _refused_amount(decision: Decision, asked: float) -> float:
    if decision.refusal is not None:
        return asked
    if not decision.topics:
        return 0.0
    refused = (t.amount for t in decision.topics if t.refusal is not None)
    return min(sum(map(_known, refused), 0.0), asked)


def _refused_topics(request: PolicyRequest, decision: Decision) -> Iterable[tuple[str, float]]:
    if decision.topics:
        return [(t.topic, _known(t.amount)) for t in decision.topics if t.refusal is not None]
    if decision.refusal is None:
        return []
    return [(p.topic, _known(p.amount)) for p in request.topics if not p.other_error_code]


def _measured_amount(policy: str, request: PolicyRequest, asked: float) -> float:
    """Return the size of a request in the unit that the policy's bound is per second."""
    if policy == "broker_request_percentage":
        return request.handler_time_us / _US_PER_PERCENT_S
    if policy == "kip599_usage_based":
        return request.handler_time_us / _US_PER_MS
    return asked


def _known(amount: float) -> float:
    return 0.0 if math.isnan(amount) else max(amount, 0.0)
