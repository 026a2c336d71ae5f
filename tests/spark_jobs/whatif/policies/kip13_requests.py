"""Builders of the requests that KIP-13 is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

T = 1_700_000_000_000
MB = 1_000_000


def produce(
    at_ms: int,
    amount: float,
    client_id: str | None = "app",
    *,
    broker_id: int = 1,
    api_version: int = 1,
    user: str = "alice",
    acks: int = 1,
    is_replica: bool = False,
    topics: Mapping[str, float] | Iterable[TopicPart] = (),
) -> PolicyRequest:
    return PolicyRequest(
        at_ms=at_ms,
        broker_id=broker_id,
        connection="c",
        api_name="PRODUCE",
        api_version=api_version,
        user=user,
        client_id=client_id,
        amount=amount,
        acks=acks,
        is_replica=is_replica,
        topics=parts(topics),
    )


def fetch(
    at_ms: int,
    amount: float,
    client_id: str | None = "app",
    *,
    broker_id: int = 1,
    api_version: int = 1,
    user: str = "alice",
    is_replica: bool = False,
    topics: Mapping[str, float] | Iterable[TopicPart] = (),
) -> PolicyRequest:
    return PolicyRequest(
        at_ms=at_ms,
        broker_id=broker_id,
        connection="c",
        api_name="FETCH",
        api_version=api_version,
        user=user,
        client_id=client_id,
        amount=amount,
        is_replica=is_replica,
        topics=parts(topics),
    )


def parts(topics: Mapping[str, float] | Iterable[TopicPart]) -> tuple[TopicPart, ...]:
    if isinstance(topics, Mapping):
        return tuple(TopicPart(topic, amount) for topic, amount in topics.items())
    return tuple(topics)


def decisions(policy: Policy, requests: Iterable[PolicyRequest]) -> list[Decision]:
    return [policy.decide(request) for request in requests]


@st.composite
def traffic(
    draw: st.DrawFn, client_ids: tuple[str | None, ...] = ("a", "b", "a:b", "", None)
) -> list[PolicyRequest]:
    """Draw requests of some clients to two brokers, in order of time."""
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3_000),
                st.sampled_from([produce, fetch]),
                st.sampled_from(client_ids),
                st.integers(0, 400),
                st.sampled_from([1, 2]),
                st.sampled_from(["x", "y"]),
            ),
            max_size=40,
        )
    )
    now, requests = T, []
    for step_ms, make, client_id, amount, broker_id, topic in steps:
        now += step_ms
        topics = {topic: float(amount)}
        requests.append(make(now, amount, client_id, broker_id=broker_id, topics=topics))
    return requests
