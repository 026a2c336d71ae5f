"""What a policy says of a request: admitted, delayed by so much, or refused with an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Held(StrEnum):
    """What a delay holds back."""

    NOTHING = "nothing"
    READ = "read"
    """The request waits before it is carried out."""
    EXECUTION = "execution"
    """It was accepted, and is carried out later."""
    RESPONSE = "response"
    """It was carried out, and the answer waits; so does the connection."""
    NEXT_REQUEST = "next_request"
    """It has no answer (acks=0), or was answered at once: the connection is not read meanwhile."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request, or its part on one topic, was not carried out."""

    error: str  # Kafka's or the document's own name, such as QUOTA_VIOLATED
    reason: str
    is_retriable: bool = True


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """What became of a request's part on one topic."""

    topic: str
    amount: float
    refusal: Refusal | None = None
    # What was compared when it came to this topic, NaN where nothing was.
    measured: float = float("nan")


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a request. Without ``refusal`` and delay it was simply admitted.

    ``topics`` has one decision per topic where the policy decides by topic, and is empty where it
    decides on the request as a whole.
    """

    delay_ms: int = 0
    held: Held = Held.NOTHING
    # The client is told of the delay (throttle_time_ms in the response, or in the error).
    is_told: bool = False
    # It is told that it was delayed and not for how long: a flag in the response.
    is_flagged: bool = False
    refusal: Refusal | None = None
    topics: tuple[TopicDecision, ...] = ()
    # Of the rule's own measure: a rate against its bound, or tokens; NaN where it has none.
    measured: float = float("nan")
    bound: float = float("nan")
    # The amount was un-recorded and the answer is empty: nothing was read, the client asks again.
    is_taken_back: bool = False
    # By name, what whoever reads the result must know, such as partitions_unknown.
    findings: tuple[str, ...] = ()


ADMITTED = Decision()
