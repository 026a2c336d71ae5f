"""Requests that create and delete partitions, and the quotas that they meet."""

from __future__ import annotations

from typing import Any

from spark_jobs.whatif.policies.change import QuotaChanged
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

T = 1_700_000_000_000  # on the grid of any whole number of seconds used here


def request(*parts: TopicPart, at_s: float = 0.0, **fields: Any) -> PolicyRequest:
    """Return alice's CreateTopics, of a version that is refused, ``at_s`` seconds after T."""
    return PolicyRequest(
        **{
            "at_ms": T + round(at_s * 1000),
            "broker_id": 1,
            "connection": "c-1",
            "api_name": "CREATE_TOPICS",
            "api_version": 7,
            "user": "alice",
            "client_id": "admin",
            "amount": 200.0,
            "topics": parts,
            **fields,
        }
    )


def create(*partitions: float, at_s: float = 0.0, **fields: Any) -> PolicyRequest:
    """Return a request of one topic per number of partitions: t0, t1, ..."""
    parts = (TopicPart(f"t{i}", float(count)) for i, count in enumerate(partitions))
    return request(*parts, at_s=at_s, **fields)


def quota_changed(
    bound: float | None, user: str | None = "alice", at_s: float = 0.0, **fields: Any
) -> QuotaChanged:
    """Return a change of the mutation quota of a user."""
    at_ms = T + round(at_s * 1000)
    return QuotaChanged(
        **{
            "at_ms": at_ms,
            "quota_type": "controller_mutation_rate",
            "user": user,
            "client_id": None,
            "bound": bound,
            **fields,
        }
    )


def admitted(decision: Decision) -> list[bool]:
    """Return of each topic whether the quota let it pass."""
    return [topic.refusal is None for topic in decision.topics]


def measured(decision: Decision) -> list[float]:
    """Return what was compared before each topic."""
    return [topic.measured for topic in decision.topics]


# Q = 5, S = 100, W = 1 of the document's example.
EXAMPLE = {
    "controller.quota.window.num": 100,
    "controller.quota.window.size.seconds": 1,
    "quotas": [{"user": "alice", "controller_mutation_rate": 5}],
}
BURST_OF_560 = (80.0,) * 7
