"""Client quotas as KIP-13 was accepted. Source: KIP-13 "Quotas", "Quota Policy" to "Metrics".

Decided where the document is silent, beside kip13_config's and :class:`Kip13Family`'s list:

- "Client id or consumer group": the client-id, which every request carries.
- Clients without one (null or empty) share one quota, and it is the default.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from spark_jobs.whatif.policies.change import BrokerStarted, Change, ConfigChanged
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.grid_rate import GridRate, excess_delay_ms
from spark_jobs.whatif.policies.kip13.kip13_config import (
    COMMON_KEYS,
    ConfigKeys,
    Kip13Settings,
    read_settings,
)
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

# KIP-13 names no error; the early revision of KIP-599 gives its QuotaViolationException this one.
QUOTA_VIOLATED = "QUOTA_VIOLATED"
VERSION_TOLD_MIN = 1


class Charge(NamedTuple):
    """An amount, the grid it is counted in, and the grid's bound per second."""

    grid: GridRate
    bound: float
    amount: float


class Excess(NamedTuple):
    """How long a charge would have to wait, and why: the rate beside its bound."""

    delay_ms: int
    rate: float
    bound: float
    is_violated: bool


def excess_of(total: float, bound: float, window_s: float) -> Excess:
    """Return the excess of ``total`` over ``bound`` per second of the window."""
    delay_ms = excess_delay_ms(total, bound, window_s)
    return Excess(delay_ms, total / window_s, bound, total > bound * window_s)


def request_bytes(request: PolicyRequest) -> float:
    """Return the bytes that a request is charged with."""
    total = request.amount
    if math.isnan(total):
        return sum(part_bytes(part) for part in request.topics)
    if request.api_name == "PRODUCE":
        for part in request.topics:
            if part.other_error_code and not math.isnan(part.amount):
                total -= part.amount
    return max(total, 0.0)


def part_bytes(part: TopicPart) -> float:
    """Return the bytes that a part is charged with, none for one refused for another reason."""
    return 0.0 if part.other_error_code or math.isnan(part.amount) else part.amount


def quota_violated(name: str, excess: Excess) -> Refusal:
    """Return the error that a violated quota is answered with; trying again may succeed."""
    reason = f"{name}: {excess.rate:.1f} bytes per second are above the {excess.bound:.1f} allowed"
    return Refusal(QUOTA_VIOLATED, reason, is_retriable=True)


class Kip13Family(Policy):
    """Byte quotas over N one-second windows, each broker on its own.

    Decided where the document is silent:

    - The amount is the request's own size: of a produce on the wire, of a fetch the logged
      response's. Where the log lacks it, what its topics add up to, or nothing. Parts of a produce
      that were refused for another reason are not written, so they are not counted.
    - A fetch is recorded when it is decided on, as in the document's code, though read later.
    - acks=0 has no response to hold: the connection's next request waits.
    - Overrides "can be changed dynamically" in one paragraph and are static in another: a change
      holds from its moment on, for what was counted before too; a grid of another shape begins
      empty.
    - The dynamic quotas of today's Kafka are none of KIP-13's: they are not heard.
    """

    apis = frozenset({"PRODUCE", "FETCH"})
    scope = StateScope.SENSOR
    keys: ClassVar[frozenset[str]] = COMMON_KEYS

    settings: Kip13Settings

    def __init__(self, config: Mapping[str, object]) -> None:
        self._grids: dict[tuple[int, str, str, str], GridRate] = defaultdict(self._new_grid)
        self._shape = (0, 0)
        self._configure(config)

    def state_key(self, request: PolicyRequest) -> str:
        """Return broker, API and client: unambiguous, for only the last may have any character."""
        return f"{request.broker_id}/{request.api_name}/{request.client_id or ''}"

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on a request; brokers' own requests are exempt."""
        settings = self.settings
        if request.is_replica or (
            settings.inter_broker_user and request.user == settings.inter_broker_user
        ):
            return ADMITTED
        return self._decide(request)

    def observe(self, change: Change) -> None:
        """Take over other settings, whole or not at all; forget what a started broker counted."""
        if isinstance(change, ConfigChanged):
            values = {**self._values, **change.values}
            self._configure({key: value for key, value in values.items() if value is not None})
        elif isinstance(change, BrokerStarted):
            self._forget(change.broker_id)

    def _decide(self, request: PolicyRequest) -> Decision:
        raise NotImplementedError

    def _read(self, keys: ConfigKeys) -> None:
        """Read the policy's own keys; nothing of it may have changed where one is refused."""

    def _configure(self, values: Mapping[str, object]) -> None:
        keys = ConfigKeys(self.name, values)
        keys.refuse_unknown(self.keys)
        settings = read_settings(keys)
        self._read(keys)
        shape, self._shape = self._shape, (settings.samples, settings.window_ms)
        self.settings = settings
        self._values = dict(values)
        if self._shape != shape:
            self._drop_all()

    def _drop_all(self) -> None:
        """Drop what was counted in grids of another shape."""
        self._grids.clear()

    def _forget(self, broker_id: int) -> None:
        for key in [key for key in self._grids if key[0] == broker_id]:
            del self._grids[key]

    def _new_grid(self) -> GridRate:
        return GridRate(self.settings.samples, self.settings.window_ms)

    def _grid(self, request: PolicyRequest, name: str, topic: str = "") -> GridRate:
        return self._grids[request.broker_id, request.api_name, name, topic]

    def _charge(self, request: PolicyRequest, charges: Iterable[Charge]) -> list[Excess]:
        """Record every charge and return its excess: a produce's with it, a fetch's before it."""
        now_ms, counts_itself = request.at_ms, request.api_name == "PRODUCE"
        found = []
        for grid, bound, amount in charges:
            if counts_itself:
                grid.record(amount, now_ms)
            found.append(excess_of(grid.total(now_ms), bound, grid.window_s))
            if not counts_itself:
                grid.record(amount, now_ms)
        return found

    def _delayed(
        self, request: PolicyRequest, excess: Excess, topics: tuple[TopicDecision, ...] = ()
    ) -> Decision:
        """Return the decision to delay: a read before it is done, an answer after it."""
        if excess.delay_ms == 0:
            return Decision(topics=topics, measured=excess.rate, bound=excess.bound)
        has_answer = request.is_answered
        is_told = has_answer and request.api_version >= VERSION_TOLD_MIN
        held = Held.READ if request.api_name == "FETCH" else Held.RESPONSE
        return Decision(
            delay_ms=excess.delay_ms,
            held=held if has_answer else Held.NEXT_REQUEST,
            is_told=is_told and not self.settings.answers_with_flag,
            is_flagged=is_told and self.settings.answers_with_flag,
            topics=topics,
            measured=excess.rate,
            bound=excess.bound,
        )


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
