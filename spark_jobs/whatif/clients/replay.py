"""A policy replayed over one stretch of requests: its rows of ``tables.WHATIF``, its throttles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import structs

from spark_jobs.quota.codes import QuotaType
from spark_jobs.whatif.clients.client_log import PRODUCE, LoggedRequest
from spark_jobs.whatif.clients.closed_loop import clients_of, sendings_of
from spark_jobs.whatif.clients.normalized_requests import ROWS_AT_ONCE
from spark_jobs.whatif.clients.outcomes import Outcomes
from spark_jobs.whatif.clients.scenario import ClientSettings, Mode, ScenarioPolicy
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13Refusing
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import PolicyRequest

_AFTER_EVERYTHING_MS = 2**62


def replay_as_logged(
    policy: Policy, requests: Iterable[PolicyRequest], changes: Sequence[Change] = ()
) -> Iterator[tuple[PolicyRequest, Decision]]:
    """Yield every request of one of the policy's ``apis`` with what became of it.

    ``requests`` and ``changes`` are in time order; a change holds for the requests of its own
    millisecond.
    """
    waiting = iter(changes)
    change = next(waiting, None)
    for request in requests:
        while change is not None and change.at_ms <= request.at_ms:
            policy.observe(change)
            change = next(waiting, None)
        if request.api_name in policy.apis:
            yield request, policy.decide(request)


def outcome_rows(
    scenario: ScenarioPolicy, requests: Iterable[PolicyRequest], changes: Sequence[Change] = ()
) -> list[dict[str, Any]]:
    """Return the figures of requests that arrive as logged; requests and changes in time order."""
    policy = scenario.begin()
    outcomes = Outcomes(scenario.name, scenario.label, Mode.AS_LOGGED)
    decided = replay_as_logged(policy, requests, changes)
    # Decided together and counted together: a tenth faster than one by one.
    while some := [(r, d, policy.state_key(r)) for r, d in islice(decided, ROWS_AT_ONCE)]:
        for request, decision, state_key in some:
            outcomes.add(request, decision, state_key)
    if isinstance(policy, Kip13Refusing):
        policy.settle(_AFTER_EVERYTHING_MS)
        outcomes.settle_lost({key: cost.lost_bytes for key, cost in policy.costs().items()})
    return outcomes.rows()


def closed_loop_rows(
    scenario: ScenarioPolicy,
    connections: Mapping[str, Sequence[LoggedRequest]],
    changes: Sequence[Change] = (),
) -> list[dict[str, Any]]:
    """Return the figures of all that the clients ask for until the log's last request.

    A connection's requests come in the order of their arrival, and the changes in time order.
    """
    policy = scenario.begin()
    clients = clients_of(connections, _settings(scenario, policy))
    outcomes = Outcomes(scenario.name, scenario.label, Mode.CLOSED_LOOP)
    for sending in sendings_of(policy, clients, changes, _end_ms(connections)):
        request = sending.attempt.request
        if request.api_name in policy.apis:
            outcomes.add(request, sending.decision, policy.state_key(request), sending.lost)
    for client in clients.values():
        for request, amount in client.waiting():
            if request.api_name in policy.apis:
                outcomes.add_waiting(request, amount)
    return outcomes.rows()


def _end_ms(connections: Mapping[str, Sequence[LoggedRequest]]) -> int:
    """Return the first time (ms) after the log's last request."""
    return max((r.request.at_ms for one in connections.values() for r in one), default=0) + 1


def _settings(scenario: ScenarioPolicy, policy: Policy) -> ClientSettings:
    """Return the clients' settings; a policy that would play retries leaves them to the clients."""
    if not isinstance(policy, Kip13Refusing) or "retries" not in scenario.config:
        return scenario.clients
    retries, backoff_ms = policy.leave_retries_to_clients()
    return structs.replace(scenario.clients, retries=retries, retry_backoff_ms=backoff_ms)


class ClientThrottle(NamedTuple):
    """One throttle of one client."""

    quota_type: QuotaType
    user: str
    client_id: str | None
    at_ms: int
    throttle_time_ms: int


def client_throttles(
    policy: ScenarioPolicy,
    connections: Mapping[str, Sequence[LoggedRequest]],
    changes: Sequence[Change],
) -> Iterator[ClientThrottle]:
    """Yield what ``broker_client_quotas`` throttles until the log's last request, in time order.

    A connection's requests come in the order of their arrival, and the changes in time order.
    """
    clients = clients_of(connections, policy.clients)
    for sending in sendings_of(policy.begin(), clients, changes, _end_ms(connections)):
        request, decision = sending.attempt.request, sending.decision
        if decision.delay_ms > 0:
            yield ClientThrottle(
                _quota_type(request, decision),
                request.user,
                request.client_id,
                request.at_ms,
                decision.delay_ms,
            )


def _quota_type(request: PolicyRequest, decision: Decision) -> QuotaType:
    # Where the request quota throttles, the policy tells no bound.
    if math.isnan(decision.bound):
        return QuotaType.REQUEST_PERCENTAGE
    is_produce = request.api_name == PRODUCE
    return QuotaType.PRODUCER_BYTE_RATE if is_produce else QuotaType.CONSUMER_BYTE_RATE
