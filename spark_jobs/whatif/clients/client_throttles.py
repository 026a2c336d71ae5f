"""Every throttle of a closed loop with the client it held and the quota it was for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_jobs.quota.codes import QuotaType
from spark_jobs.whatif.clients.client_log import PRODUCE, LoggedRequest
from spark_jobs.whatif.clients.closed_loop import clients_of, sendings_of
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest


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
    end_ms = max((r.request.at_ms for one in connections.values() for r in one), default=0) + 1
    clients = clients_of(connections, policy.clients)
    for sending in sendings_of(policy.begin(), clients, changes, end_ms):
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
