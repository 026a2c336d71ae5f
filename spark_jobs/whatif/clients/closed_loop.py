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
from dataclasses import replace
from itertools import count

from spark_jobs.whatif.clients.client_batch import part_of
from spark_jobs.whatif.clients.client_connection import Attempt, Connection, Sending
from spark_jobs.whatif.clients.client_log import FETCHES, US_PER_MS, LoggedRequest, connection_log
from spark_jobs.whatif.clients.scenario import ClientSettings
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import ADMITTED
from spark_jobs.whatif.policies.policy import CutsFetches, Policy


def clients_of(
    connections: Mapping[str, Sequence[LoggedRequest]],
    settings: ClientSettings,
) -> dict[str, Connection]:
    """Return the client of each connection, whose requests are in the order of their arrival."""
    return {
        key: Connection(connection_log(requests), settings) for key, requests in connections.items()
    }


def sendings_of(
    policy: Policy,
    clients: Mapping[str, Connection],
    changes: Sequence[Change] = (),
    until_ms: float = math.inf,
) -> Iterator[Sending]:
    """Yield every request that the clients send with what became of it, as they are decided on.

    Requests of none of the policy's ``apis`` are admitted and take their time. ``changes`` are in
    time order; each holds for the requests of its own millisecond. Nothing is decided at or after
    ``until_ms``.
    """
    # What has been sent and not been decided on, by the time of its decision.
    sent: list[tuple[int, int, str, Attempt]] = []
    order = count()
    for key, client in clients.items():
        for attempt in client.due():
            heapq.heappush(sent, (attempt.decided_us, next(order), key, attempt))
    waiting_changes = list(reversed(changes))
    while sent and sent[0][0] < until_ms * US_PER_MS:
        _, _, key, attempt = heapq.heappop(sent)
        while waiting_changes and waiting_changes[-1].at_ms <= attempt.request.at_ms:
            policy.observe(waiting_changes.pop())
        attempt = _cut(attempt, policy)
        is_decided = attempt.request.api_name in policy.apis
        decision = policy.decide(attempt.request) if is_decided else ADMITTED
        yield clients[key].answered(attempt, decision)
        for attempt in clients[key].due():
            heapq.heappush(sent, (attempt.decided_us, next(order), key, attempt))


def _cut(attempt: Attempt, policy: Policy) -> Attempt:
    """Return a fetch with no more than its broker would have read."""
    request = attempt.request
    if request.api_name not in FETCHES or not isinstance(policy, CutsFetches):
        return attempt
    largest = policy.largest_fetch(request)
    if math.isnan(request.amount) or request.amount <= largest:
        return attempt
    return replace(attempt, request=part_of(request, largest))
