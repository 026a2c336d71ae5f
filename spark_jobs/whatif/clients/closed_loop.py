"""A policy replayed over clients that answer it: what it delays or refuses comes later, or never.

Each connection's next request is sent its own think time after the one before it is answered and
every throttle is over; think times and what a connection has in flight are those of the log
(:mod:`client_log`), and every request is served in its logged time. A producer's
buffer fills while it waits (:mod:`spark_jobs.whatif.clients.client_batch`).

Decided here:

- A fetch that is taken back is answered with nothing and asked again when its connection is free.
  Each attempt tries to read what that attempt did in the log, where the audit found it, else what
  was served in the end. What is served before the log did has not all of it: the rest comes with
  the next fetch, which is no larger than the connection's largest.
- Where the policy's brokers read no more than fits into a window (Kafka 2.5 and later), a fetch is
  cut to that, and the rest comes with the next.
- What is refused is sent again ``retry.backoff.ms`` after its answer and its throttle; whatever
  comes later on its connection waits behind it, as behind the first batch of a partition
  (Kafka: ``RecordAccumulator``), unless it was on its way. After ``retries`` or past
  ``delivery.timeout.ms`` it is lost; so is at once what has no answer (acks=0) or an error that is
  not retriable. A fetch loses nothing: it is asked for again until it is served.
- Only the part of a request that was refused is sent again.
- A connection that is not read receives what was sent to it when it is read again.

Here the model ends:

- How connections that share one quota divide it is a matter of milliseconds: the first that is
  read again when a large sample leaves the window sends all it has. Their sum can be predicted,
  the share of one cannot; nor do arrivals return to the log's once two have changed places.
- Service times are the log's: a broker that has less to do is not faster.
- Connections of one client do not know of each other: an application that stops when one
  partition's buffer is full, a consumer that reads less when its producer does, are not seen.
- A fetch asks for what the log shows it got, not for what had been produced by then.
- Retries that the log has are requests of their own, but for mutations that were refused whole.
- Bytes that the log's clients wanted and never sent are unknown, but for what
  :mod:`spark_jobs.whatif.clients.client_batch` infers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.whatif.clients.client_batch import part_of
from spark_jobs.whatif.clients.client_connection import Attempt, Connection, Sending
from spark_jobs.whatif.clients.client_log import FETCHES, US_PER_MS, LoggedRequest, connection_log
from spark_jobs.whatif.clients.client_settings import DEFAULT_SETTINGS, ClientSettings
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import ADMITTED
from spark_jobs.whatif.policies.policy import CutsFetches, Policy


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What came of a replay: all sendings as they were decided on, and what is left waiting."""

    sendings: tuple[Sending, ...]
    # By connection: what was asked for and is neither admitted nor lost.
    waiting: Mapping[str, float]


def replay_closed_loop(
    policy: Policy,
    connections: Mapping[str, Sequence[LoggedRequest]],
    changes: Sequence[Change] = (),
    settings: ClientSettings = DEFAULT_SETTINGS,
    settings_of: Mapping[str, ClientSettings] | None = None,
    until_ms: int | None = None,
) -> ClosedLoop:
    """Return every request that the clients would have sent, with what became of it.

    ``settings_of`` has those of single connections; for the rest see :func:`clients_of` and
    :func:`sendings_of`. Raises BadInputError.
    """
    clients = clients_of(connections, settings, settings_of)
    sendings = tuple(sendings_of(policy, clients, changes, until_ms))
    waiting = {key: sum(w for _, w in client.waiting()) for key, client in clients.items()}
    return ClosedLoop(sendings, waiting)


def clients_of(
    connections: Mapping[str, Sequence[LoggedRequest]],
    settings: ClientSettings = DEFAULT_SETTINGS,
    settings_of: Mapping[str, ClientSettings] | None = None,
) -> dict[str, Connection]:
    """Return the client of each connection, whose requests are in the order of their arrival."""
    return {
        key: Connection(connection_log(requests), (settings_of or {}).get(key, settings))
        for key, requests in connections.items()
    }


def sendings_of(
    policy: Policy,
    clients: Mapping[str, Connection],
    changes: Sequence[Change] = (),
    until_ms: int | None = None,
) -> Iterator[Sending]:
    """Yield every request that the clients send with what became of it, as they are decided on.

    Requests of none of the policy's ``apis`` are admitted and take their time. ``changes`` are in
    time order; each holds for the requests of its own millisecond. Nothing is decided at or after
    ``until_ms``.
    """
    agenda = _Agenda()
    for key, client in clients.items():
        agenda.add(key, client)
    waiting_changes = list(reversed(changes))
    while agenda.has_any(until_ms):
        key, attempt = agenda.pop()
        while waiting_changes and waiting_changes[-1].at_ms <= attempt.request.at_ms:
            policy.observe(waiting_changes.pop())
        attempt = _cut(attempt, policy)
        is_decided = attempt.request.api_name in policy.apis
        decision = policy.decide(attempt.request) if is_decided else ADMITTED
        yield clients[key].answered(attempt, decision)
        agenda.add(key, clients[key])


def _cut(attempt: Attempt, policy: Policy) -> Attempt:
    """Return a fetch with no more than its broker would have read."""
    request = attempt.request
    if request.api_name not in FETCHES or not isinstance(policy, CutsFetches):
        return attempt
    largest = policy.largest_fetch(request)
    if math.isnan(request.amount) or request.amount <= largest:
        return attempt
    return replace(attempt, request=part_of(request, largest))


class _Agenda:
    """What has been sent and not been decided on, by the time of its decision."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, str, Attempt]] = []
        self._order = 0

    def add(self, key: str, client: Connection) -> None:
        for attempt in client.due():
            self._order += 1
            heapq.heappush(self._events, (attempt.decided_us, self._order, key, attempt))

    def has_any(self, until_ms: int | None) -> bool:
        if not self._events:
            return False
        return until_ms is None or self._events[0][0] < until_ms * US_PER_MS

    def pop(self) -> tuple[str, Attempt]:
        _, _, key, attempt = heapq.heappop(self._events)
        return key, attempt
