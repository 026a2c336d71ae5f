"""One client's end of a connection in the closed loop: what it sends next, and when."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_jobs.whatif.clients.client_batch import (
    can_join,
    joined,
    largest_bytes,
    largest_fetch_bytes,
    part_of,
)
from spark_jobs.whatif.clients.client_log import (
    FETCHES,
    PRODUCE,
    US_PER_MS,
    Ask,
    ConnectionLog,
    known,
)
from spark_jobs.whatif.clients.client_pace import wanted_times_us, with_unsent
from spark_jobs.whatif.clients.scenario import ClientSettings
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.request import PolicyRequest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: ``again`` is the part that a retry can still bring through."""

    admitted: float
    refused_for_good: float = 0.0
    again: PolicyRequest | None = None


def asked(request: PolicyRequest) -> float:
    """Return the bytes of a produce or fetch, the partitions of a mutation; unknown ones are 0."""
    if request.api_name in FETCHES or request.api_name == PRODUCE:
        return known(request.amount)
    return sum(known(p.amount) for p in request.topics if not p.other_error_code)


def _answer_times(decision: Decision, attempt: Attempt) -> tuple[int, int]:
    """Return when the client has its answer and when its connection is read again (µs)."""
    answered_us = attempt.arrived_us + attempt.service_us
    delay_us = decision.delay_ms * US_PER_MS
    if not delay_us:
        return answered_us, answered_us
    if decision.held is Held.READ:
        return answered_us + delay_us, answered_us + delay_us
    until_us = max(answered_us, attempt.decided_us + delay_us)
    if decision.held in (Held.RESPONSE, Held.EXECUTION):
        return until_us, until_us
    return answered_us, until_us


def outcome(request: PolicyRequest, decision: Decision) -> Outcome:
    """Return the outcome of a request; a fetch that is refused can always be asked for again."""
    if decision.is_taken_back:
        return Outcome(0.0, again=request)
    if not decision.topics:
        return _outcome_of_whole(request, decision)
    for_good, again = set[str](), set[str]()
    for topic in decision.topics:
        if topic.refusal is not None:
            is_again = topic.refusal.is_retriable or request.api_name in FETCHES
            (again if is_again else for_good).add(topic.topic)
    if not for_good and not again:
        return Outcome(asked(request))
    lost, retried = _only(request, for_good), _only(request, again)
    admitted = asked(request) - asked(lost) - asked(retried)
    return Outcome(admitted, asked(lost), retried if again else None)


def _outcome_of_whole(request: PolicyRequest, decision: Decision) -> Outcome:
    if decision.refusal is None:
        return Outcome(asked(request))
    if decision.refusal.is_retriable or request.api_name in FETCHES:
        return Outcome(0.0, again=request)
    return Outcome(0.0, refused_for_good=asked(request))


def _only(request: PolicyRequest, topics: set[str]) -> PolicyRequest:
    """Return the request's part on some topics; its bytes follow those of its records."""
    kept = tuple(part for part in request.topics if part.topic in topics)
    if len(kept) == len(request.topics):
        return request
    of_all = sum(known(part.amount) for part in request.topics)
    share = sum(known(part.amount) for part in kept) / of_all if of_all else 0.0
    return replace(request, amount=request.amount * share, topics=kept)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request on its way to the broker."""

    # The position of the ask on its connection, and of the last one whose bytes it carries.
    ask: int
    last_ask: int
    # 0 of the first sending.
    number: int
    # ``at_ms`` is when it will be decided on.
    request: PolicyRequest
    arrived_us: int
    until_decided_us: int
    service_us: int
    first_arrived_us: int

    @property
    def decided_us(self) -> int:
        """When the broker decides on it."""
        return self.arrived_us + self.until_decided_us


@dataclass(frozen=True, slots=True)
class Sending:
    """An attempt with its answer. Bytes, or partitions of a mutation."""

    attempt: Attempt
    decision: Decision
    answered_us: int
    # When the connection is read again.
    free_us: int
    admitted: float
    lost: float


class Connection:
    """Sends what the logged client asked for, each request when that client would have."""

    def __init__(self, log: ConnectionLog, settings: ClientSettings) -> None:
        self._logged = len(log.asks)
        # By API: when the log's last request of it arrived.
        self._gone_us = {ask.logged.request.api_name: ask.arrived_us for ask in log.asks}
        log = with_unsent(log) if settings.keeps_wanting else log
        self._asks, self._in_flight, self._settings = log.asks, log.in_flight, settings
        self._left = [asked(ask.logged.request) for ask in log.asks]
        self._wanted_us = wanted_times_us(log.asks)
        self._largest = largest_bytes(log.asks)
        self._largest_fetch = largest_fetch_bytes(log.asks)
        # Bytes that a fetch brought in the log, and the next one brings here.
        self._unread = 0.0
        self._next = 0
        self._last_sent: Attempt | None = None
        # A heap of what is tried again: when it is ready, its order, and the attempt.
        self._again: list[tuple[int, int, Attempt]] = []
        self._order = 0
        # By ask: what was sent, and is neither admitted nor lost.
        self._under_way: dict[int, float] = {}
        self._undecided = self._unresolved = 0
        self._answers_us: list[int] = []
        self._free_us = log.asks[0].arrived_us if log.asks else 0

    def waiting(self) -> Iterator[tuple[PolicyRequest, float]]:
        """Yield what was asked for and is neither admitted nor lost, with the log's request."""
        for position, ask in enumerate(self._asks):
            amount = self._left[position] + self._under_way.get(position, 0.0)
            if amount:
                yield ask.logged.request, amount
        if self._unread:
            fetches = (a.logged.request for a in self._asks if _is_fetch(a))
            yield next(fetches), self._unread

    def due(self) -> Iterator[Attempt]:
        """Yield every attempt that nothing undecided holds up any more."""
        while self._undecided < self._in_flight:
            attempt = self._retry() or self._first_attempt()
            if attempt is None:
                return
            self._undecided += 1
            self._last_sent = attempt
            yield attempt

    def answered(self, attempt: Attempt, decision: Decision) -> Sending:
        """Take an answer: what it did not bring is asked for again, or is lost."""
        answered_us, free_us = _answer_times(decision, attempt)
        self._undecided -= 1
        bisect.insort(self._answers_us, answered_us)
        self._free_us = max(self._free_us, free_us)
        found = outcome(attempt.request, decision)
        again, lost = found.again, found.refused_for_good
        backoff_us = 0 if decision.is_taken_back else self._settings.retry_backoff_ms * US_PER_MS
        ready_us = free_us + backoff_us
        if again is not None and not self._can_retry(attempt, decision, ready_us):
            lost, again = lost + asked(again), None
        self._under_way[attempt.ask] -= found.admitted + lost
        if again is None:
            left = self._under_way.pop(attempt.ask)
            self._unread += left if attempt.request.api_name in FETCHES else 0.0
            self._unresolved -= 1
        else:
            number = attempt.number + 1
            if not found.admitted:
                again = self._tried(attempt.ask, again, number)
            self._order += 1
            repeated = replace(attempt, request=again, number=number)
            heapq.heappush(self._again, (ready_us, self._order, repeated))
        return Sending(attempt, decision, answered_us, free_us, found.admitted, lost)

    def _can_retry(self, attempt: Attempt, decision: Decision, ready_us: int) -> bool:
        if decision.is_taken_back or attempt.request.api_name in FETCHES:
            return True
        waited_us = ready_us - attempt.first_arrived_us
        in_time = waited_us <= self._settings.delivery_timeout_ms * US_PER_MS
        is_left = attempt.number < self._settings.retries
        return attempt.request.is_answered and in_time and is_left

    def _retry(self) -> Attempt | None:
        if not self._again:
            return None
        ready_us, _, attempt = heapq.heappop(self._again)
        attempts = self._asks[attempt.ask].attempts
        logged = attempts[min(attempt.number, len(attempts) - 1)]
        arrived_us = self._when_a_slot_is_free(ready_us)
        return replace(
            attempt,
            arrived_us=arrived_us,
            until_decided_us=logged.until_decided_us,
            service_us=logged.service_us,
            request=_decided_at(attempt.request, arrived_us + logged.until_decided_us),
        )

    def _first_attempt(self) -> Attempt | None:
        if self._next == len(self._asks):
            return None
        position, ask = self._next, self._asks[self._next]
        ready_us = self._ready_us(position, ask)
        if ready_us is None:
            return None
        arrived_us = self._when_a_slot_is_free(ready_us)
        is_gone = arrived_us > self._gone_us[ask.logged.request.api_name]
        if position >= self._logged and is_gone:
            return None
        request, last_ask = self._filled(position, ask, arrived_us)
        logged = ask.attempts[0]
        self._under_way[position] = asked(request)
        if request.api_name in FETCHES:
            self._under_way[position] += self._unread
            self._unread = 0.0
            request = self._tried(position, request, number=0)
        self._unresolved += 1
        return Attempt(
            ask=position,
            last_ask=last_ask,
            number=0,
            request=_decided_at(request, arrived_us + logged.until_decided_us),
            arrived_us=arrived_us,
            until_decided_us=logged.until_decided_us,
            service_us=logged.service_us,
            first_arrived_us=arrived_us,
        )

    def _tried(self, position: int, request: PolicyRequest, number: int) -> PolicyRequest:
        """Return a fetch with the bytes its attempt tries to read; other requests unchanged."""
        ask = self._asks[position]
        served = ask.logged.request.amount
        if request.api_name not in FETCHES or math.isnan(served):
            return request
        tried = ask.attempts[min(number, len(ask.attempts) - 1)].request.amount
        own = served if math.isnan(tried) else min(tried, served)
        room = max(self._largest_fetch - own, 0.0)
        return part_of(ask.logged.request, own + min(self._under_way[position] - served, room))

    def _ready_us(self, position: int, ask: Ask) -> int | None:
        before = self._last_sent
        is_next = before is not None and before.number == 0 and before.last_ask == position - 1
        if before is not None and is_next and ask.pipelined_us is not None:
            return before.arrived_us + ask.pipelined_us
        if self._unresolved:
            return None
        ready_us = self._free_us + ask.think_us
        api_name = ask.logged.request.api_name
        if self._settings.fills_batches and api_name == PRODUCE:
            # What is late is in the buffer already; what is early is not there yet.
            ready_us = min(ready_us, max(self._free_us, ask.arrived_us))
            ready_us = max(ready_us, self._wanted_us[position])
        if api_name in FETCHES:
            ready_us = max(ready_us, self._wanted_us[position])
        return ready_us

    def _when_a_slot_is_free(self, ready_us: int) -> int:
        slots = self._in_flight - self._undecided
        if len(self._answers_us) >= slots:
            ready_us = max(ready_us, self._answers_us[-slots])
        del self._answers_us[: -self._in_flight]
        return max(ready_us, self._last_sent.arrived_us if self._last_sent else ready_us)

    def _filled(self, position: int, ask: Ask, at_us: int) -> tuple[PolicyRequest, int]:
        """Return the request to send and the last ask in it; takes their bytes off what is left."""
        request = ask.logged.request
        if self._left[position] != asked(request):
            request = part_of(request, self._left[position])
        self._left[position] = 0.0
        self._next = position + 1
        last = position
        linger_us = self._settings.linger_ms * US_PER_MS
        # As long as it waits no longer than in the log, it has the size that it had there.
        is_late = ask.arrived_us + linger_us < at_us
        while self._settings.fills_batches and self._next < len(self._asks):
            more = self._asks[self._next]
            room = self._largest - request.amount
            is_there = is_late and self._wanted_us[self._next] + linger_us <= at_us
            if not (is_there and room > 0 and can_join(request, more.logged.request)):
                break
            taken = min(room, self._left[self._next])
            request = joined(request, part_of(more.logged.request, taken))
            self._left[self._next] -= taken
            last = self._next
            if self._left[self._next] > 0:
                break
            self._next += 1
        return request, last


def _is_fetch(ask: Ask) -> bool:
    return ask.logged.request.api_name in FETCHES


def _decided_at(request: PolicyRequest, decided_us: int) -> PolicyRequest:
    return replace(request, at_ms=decided_us // US_PER_MS)
