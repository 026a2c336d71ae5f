"""Requests of the documents' examples, and clients that send them again and again."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

T = 1_700_000_000_000
"""The beginning of every example, epoch ms: on the grid of samples of any example here."""
MB = 1024 * 1024
"""Bytes, as the configuration of KIP-13 is read: 5M is 5 x 1024 x 1024."""


def produce(
    at_ms: int,
    amount: float,
    client_id: str | None,
    topics: Mapping[str, float] | None = None,
    **more: Any,
) -> PolicyRequest:
    """Return a produce of ``amount`` bytes to one topic, or of ``topics``' record bytes."""
    return _request(at_ms, "PRODUCE", 1, client_id, amount, topics, acks=1, **more)


def fetch(
    at_ms: int,
    amount: float,
    client_id: str | None,
    topics: Mapping[str, float] | None = None,
    **more: Any,
) -> PolicyRequest:
    """Return a fetch of ``amount`` bytes from one topic, or of ``topics``' record bytes."""
    return _request(at_ms, "FETCH", 1, client_id, amount, topics, **more)


def create_topics(at_ms: int, *partitions: int, **more: Any) -> PolicyRequest:
    """Return a CreateTopics of one topic per number of partitions, of a version to refuse."""
    topics = {f"t{i}": float(count) for i, count in enumerate(partitions)}
    return _request(at_ms, "CREATE_TOPICS", 7, "admin", 200.0, topics, **more)


def _request(
    at_ms: int,
    api_name: str,
    api_version: int,
    client_id: str | None,
    amount: float,
    topics: Mapping[str, float] | None,
    **more: Any,
) -> PolicyRequest:
    by_topic = {"orders": float(amount)} if topics is None else topics
    fields: dict[str, Any] = {
        "at_ms": at_ms,
        "broker_id": 1,
        "connection": f"of {client_id}",
        "api_name": api_name,
        "api_version": api_version,
        "user": "alice",
        "client_id": client_id,
        "amount": float(amount),
        "topics": tuple(TopicPart(topic, part) for topic, part in by_topic.items()),
    }
    return PolicyRequest(**{**fields, **more})


@dataclass(frozen=True, slots=True)
class WaitingClient:
    """A client that sends its next request ``pause_ms`` after the answer to the last one."""

    send: Callable[[int], PolicyRequest]  # at a time, epoch ms
    pause_ms: int
    begin_ms: int = T
    until_ms: int = T + 60_000


def play(
    policy: Policy, clients: Sequence[WaitingClient]
) -> Iterator[tuple[PolicyRequest, Decision]]:
    """Yield what clients send, in order of time, with what becomes of it; delays are waited out.

    The service itself takes no time, and nothing is in flight beside the one request.
    """
    due = [(client.begin_ms, i) for i, client in enumerate(clients)]
    heapq.heapify(due)
    while due:
        now_ms, i = heapq.heappop(due)
        client = clients[i]
        if now_ms >= client.until_ms:
            continue
        request = client.send(now_ms)
        decision = policy.decide(request)
        yield request, decision
        heapq.heappush(due, (now_ms + decision.delay_ms + client.pause_ms, i))


def served_by_second(
    played: Sequence[tuple[PolicyRequest, Decision]], client_id: str, seconds: int
) -> list[float]:
    """Return the bytes of a client that were written or read in each second after T.

    A read that waits is done at the end of its delay, a write before it.
    """
    served = [0.0] * seconds
    for request, decision in played:
        waits_ms = decision.delay_ms if request.api_name == "FETCH" else 0
        second = (request.at_ms + waits_ms - T) // 1000
        if request.client_id == client_id and decision.refusal is None and second < seconds:
            served[second] += request.amount
    return served
