"""Logged requests of clients, and policies that do as a test says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from spark_jobs.whatif.clients.client_connection import Sending
from spark_jobs.whatif.clients.client_log import LoggedRequest
from spark_jobs.whatif.clients.closed_loop import clients_of, sendings_of
from spark_jobs.whatif.clients.scenario import DEFAULT_SETTINGS, ClientSettings
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Held, Refusal
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from tests.spark_jobs.whatif.policies.broker_requests import request

PURE = ClientSettings(fills_batches=False)
REFUSED = Decision(refusal=Refusal("QUOTA_VIOLATED", "over its quota"))


def logged(
    at_ms: float,
    amount: float = 100.0,
    service_ms: int = 2,
    throttle_ms: int = 0,
    api_name: str = "PRODUCE",
    **fields: object,
) -> LoggedRequest:
    """Return a request that arrived at ``at_ms`` and was decided on at once."""
    acks = {"acks": 1} if api_name == "PRODUCE" else {}
    decided = request(api_name, amount, int(at_ms), **{**acks, **fields})
    return LoggedRequest(
        decided, int(at_ms * 1000), service_us=service_ms * 1000, throttle_time_ms=throttle_ms
    )


def fetched(at_ms: float, amount: float, **fields: object) -> LoggedRequest:
    """Return a fetch that brought so many record bytes."""
    topics = (TopicPart("t", amount),)
    return logged(at_ms, amount, api_name="FETCH", topics=topics, **fields)


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
    until_ms: float = math.inf,
) -> ClosedLoop:
    """Return every request that the clients would have sent, with what became of it."""
    clients = clients_of(connections, settings)
    sendings = tuple(sendings_of(policy, clients, changes, until_ms))
    waiting = {key: sum(w for _, w in client.waiting()) for key, client in clients.items()}
    return ClosedLoop(sendings, waiting)


class Says:
    """A policy whose answer is a function of the request; it remembers what it was asked."""

    name = "says"
    title = "what the test says"
    apis = frozenset({"PRODUCE", "FETCH", "CREATE_TOPICS"})
    scope = StateScope.CLUSTER

    def __init__(self, answer: Callable[[PolicyRequest], Decision] = lambda _: ADMITTED) -> None:
        self._answer = answer
        self.heard: list[PolicyRequest | Change] = []

    @classmethod
    def configured(cls, config: Mapping[str, object]) -> Self:
        assert not config
        return cls()

    def state_key(self, request: PolicyRequest) -> str:
        return request.connection

    def decide(self, request: PolicyRequest) -> Decision:
        self.heard.append(request)
        return self._answer(request)

    def observe(self, change: Change) -> None:
        self.heard.append(change)


def delays(*delays_ms: int, held: Held = Held.NEXT_REQUEST, connection: str = "c-1") -> Says:
    """Return a policy that delays the first requests of a connection by these, and no others."""
    left = list(delays_ms)

    def answer(asked: PolicyRequest) -> Decision:
        if asked.connection != connection or not left:
            return ADMITTED
        delay_ms = left.pop(0)
        return Decision(delay_ms=delay_ms, held=held) if delay_ms else ADMITTED

    return Says(answer)


def in_turn(decisions: Iterable[Decision]) -> Says:
    """Return a policy that gives these decisions, and admits everything after them."""
    left = iter(decisions)
    return Says(lambda _: next(left, ADMITTED))
