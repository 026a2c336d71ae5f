"""A request as a policy sees it: normalized, whatever broker and rule it was logged under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicPart:
    """What a request asks of one topic."""

    topic: str
    # Record bytes of a produce or fetch; partitions of a mutation; NaN: not in the log.
    amount: float
    # Refused for a reason that is no quota's (too large, exists already): Kafka's error code, or 0.
    other_error_code: int = 0


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """One request at the moment when a broker decides on it.

    ``amount`` is its own size: bytes on the wire of a produce's request, of a fetch's response;
    NaN where the log does not say.
    """

    at_ms: int
    broker_id: int
    connection: str
    api_name: str  # PRODUCE, FETCH, CREATE_TOPICS, ...
    api_version: int
    user: str
    client_id: str | None
    amount: float
    handler_time_us: int = 0
    acks: int | None = None
    # From a follower or a controller, not from a client.
    is_replica: bool = False
    validate_only: bool = False
    topics: tuple[TopicPart, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Return True if the request gets a response: all do but a produce with acks=0."""
        return self.api_name != "PRODUCE" or self.acks != 0
