"""What the log of one connection says of the client behind it, whatever throttled it then.

Decided here:

- A connection is free again when its request has been answered and its throttle is over, which
  runs from the moment of the decision (Kafka: ``ThrottledChannel``). The think time of a request
  is what passed since the connection was free: the logged gap less the logged throttle. Log lines
  have whole milliseconds, so it can be negative by ``ROUNDING_US``, and is kept so. A request that
  arrived during a throttle by more than that is taken to have come at its end.
- A request that arrived before the one before it was decided on is pipelined. By less than
  ``ROUNDING_US`` it need not have: Kafka's brokers read the next request of a connection when the
  one before it is answered and its throttle over, and there such a distance is rounding.
- Fetches that were throttled and got no records are attempts of the next fetch that got some;
  of none, where the next got nothing and was not throttled, or the log ends.
- A mutation that was refused for its quota and followed by one of the same topics is an attempt
  of that one. What a client tries again of a request refused in part is an ask of its own.
- In flight is the largest number of requests of the connection that overlap.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.errors import BadInputError
from spark_jobs.whatif.policies.request import PolicyRequest

PRODUCE = "PRODUCE"
FETCHES = frozenset({"FETCH", "SHARE_FETCH"})
US_PER_MS = 1000
ROUNDING_US = 2 * US_PER_MS
"""A line's time is cut to milliseconds; so is the time of a decision."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request of the log: ``request.at_ms`` is when it was decided on; times in microseconds."""

    request: PolicyRequest
    # Since the epoch: when the broker had read it.
    arrived_us: int
    # From then until its answer was sent.
    service_us: int = 0
    throttle_time_ms: int = 0
    # Of a mutation: every topic was refused for its quota.
    is_refused: bool = False

    @property
    def until_decided_us(self) -> int:
        """From the request's arrival until the decision on it."""
        return self.request.at_ms * US_PER_MS - self.arrived_us


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client asked for once: the request that got it, and all its attempts, in order."""

    attempts: tuple[LoggedRequest, ...]
    # Since the connection was free; 0 of the first on its connection.
    think_us: int
    # After the arrival of the ask before it, where it did not wait for that one's decision.
    pipelined_us: int | None

    @property
    def logged(self) -> LoggedRequest:
        """The request that has the size: the last, or the largest where none was served."""
        last = self.attempts[-1]
        return max(self.attempts, key=_known_amount) if _is_taken_back(last) else last

    @property
    def arrived_us(self) -> int:
        """When the log shows the first attempt."""
        return self.attempts[0].arrived_us


def known(amount: float) -> float:
    """Return the amount, 0 where the log does not tell."""
    return 0.0 if math.isnan(amount) else amount


def sized_amount(ask: Ask) -> float:
    """Return the bytes that were asked for, 0 where the log does not tell."""
    return known(ask.logged.request.amount)


@dataclass(frozen=True, slots=True)
class ConnectionLog:
    """One connection: what was asked on it, and how many requests it had in flight."""

    asks: tuple[Ask, ...]
    in_flight: int


def free_again_us(logged: LoggedRequest, before_us: int) -> int:
    """Return the time (µs) the connection was free after a request, at least ``before_us``."""
    answered_us = logged.arrived_us + logged.service_us
    throttled_until_us = (logged.request.at_ms + logged.throttle_time_ms) * US_PER_MS
    throttled = throttled_until_us if logged.throttle_time_ms else answered_us
    return max(before_us, answered_us, throttled)


def in_sending_order(requests: Sequence[LoggedRequest]) -> list[LoggedRequest]:
    """Return one connection's requests, given in the order of their lines, as arrived.

    A line's whole milliseconds can put a request before the one that it followed; it arrived no
    earlier than that: a broker answers the requests of a connection one after another.
    """
    arrived: list[LoggedRequest] = []
    for logged in requests:
        before_us = arrived[-1].arrived_us if arrived else logged.arrived_us
        is_early = logged.arrived_us < before_us
        arrived.append(replace(logged, arrived_us=before_us) if is_early else logged)
    return arrived


def connection_log(requests: Sequence[LoggedRequest]) -> ConnectionLog:
    """Return the asks of one connection's requests, which come in the order of their arrival.

    Raises BadInputError where they do not.
    """
    asks: list[Ask] = []
    attempts: list[LoggedRequest] = []
    free_us = answered_us = requests[0].arrived_us if requests else 0
    think_us = 0
    pipelined_us: int | None = None
    previous: LoggedRequest | None = None
    for i, logged in enumerate(requests):
        if previous is not None and logged.arrived_us < previous.arrived_us:
            raise BadInputError(
                f"a request of connection {logged.request.connection!r} arrived at "
                f"{logged.arrived_us} us, after one of {previous.arrived_us} us in the log; "
                "expected one connection's requests in the order of their arrival; "
                "sort them by their lines and apply in_sending_order."
            )
        if attempts and is_empty_fetch(logged) and not logged.throttle_time_ms:
            asks.append(Ask(tuple(attempts), think_us, pipelined_us))
            attempts = []
        if not attempts:
            think_us = logged.arrived_us - free_us
            if free_us > answered_us:
                think_us = max(think_us, -ROUNDING_US)
            pipelined_us = _pipelined_us(previous, logged)
        attempts.append(logged)
        free_us, previous = free_again_us(logged, free_us), logged
        answered_us = max(answered_us, logged.arrived_us + logged.service_us)
        if not (_is_taken_back(logged) or _is_tried_again(requests, i)):
            asks.append(Ask(tuple(attempts), think_us, pipelined_us))
            attempts = []
    if attempts:
        asks.append(Ask(tuple(attempts), think_us, pipelined_us))
    return ConnectionLog(tuple(asks), _in_flight(requests))


def _known_amount(logged: LoggedRequest) -> float:
    amount = logged.request.amount
    return -math.inf if math.isnan(amount) else amount


def _is_taken_back(logged: LoggedRequest) -> bool:
    return is_empty_fetch(logged) and logged.throttle_time_ms > 0


def is_empty_fetch(logged: LoggedRequest) -> bool:
    """Return True if the request is a fetch that brought no records."""
    is_fetch = logged.request.api_name in FETCHES
    return is_fetch and not any(part.amount > 0 for part in logged.request.topics)


def _is_tried_again(requests: Sequence[LoggedRequest], position: int) -> bool:
    refused = requests[position]
    if not refused.is_refused or position + 1 == len(requests):
        return False
    following = requests[position + 1].request
    return following.api_name == refused.request.api_name and _topics(following) == _topics(
        refused.request
    )


def _topics(request: PolicyRequest) -> set[str]:
    return {part.topic for part in request.topics}


def _pipelined_us(previous: LoggedRequest | None, logged: LoggedRequest) -> int | None:
    if previous is None or logged.arrived_us + ROUNDING_US > previous.request.at_ms * US_PER_MS:
        return None
    return logged.arrived_us - previous.arrived_us


def _in_flight(requests: Sequence[LoggedRequest]) -> int:
    most, answers = 1, list[int]()
    for logged in requests:
        while answers and answers[0] <= logged.arrived_us:
            heapq.heappop(answers)
        heapq.heappush(answers, logged.arrived_us + logged.service_us)
        most = max(most, len(answers))
    return most
