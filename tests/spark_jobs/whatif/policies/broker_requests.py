"""Requests on today's brokers, and the quotas that they meet."""

from __future__ import annotations

from typing import Any

from spark_jobs.whatif.policies.change import QuotaChanged
from spark_jobs.whatif.policies.request import PolicyRequest

T = 1_700_000_000_000


def request(api_name: str, amount: float = 0.0, at_ms: int = T, **fields: Any) -> PolicyRequest:
    """Return a request of alice's at broker 1, of a recent version."""
    return PolicyRequest(
        **{
            "at_ms": at_ms,
            "broker_id": 1,
            "connection": "c-1",
            "api_name": api_name,
            "api_version": 9,
            "user": "alice",
            "client_id": "svc",
            "amount": amount,
            **fields,
        }
    )


def produce(amount: float, at_ms: int = T, **fields: Any) -> PolicyRequest:
    return request("PRODUCE", amount, at_ms, **{"acks": 1, **fields})


def fetch(amount: float, at_ms: int = T, **fields: Any) -> PolicyRequest:
    return request("FETCH", amount, at_ms, **fields)


def quota(
    quota_type: str, bound: float | None, user: str | None = "alice", **fields: Any
) -> QuotaChanged:
    return QuotaChanged(
        **{
            "at_ms": T,
            "quota_type": quota_type,
            "user": user,
            "client_id": None,
            "bound": bound,
            **fields,
        }
    )
