"""How a request that creates or deletes partitions is answered, topic by topic in its order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.whatif.policies.decision import Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from spark_jobs.whatif.policies.throttle_time_versions import tells_throttle_time

PARTITIONS_UNKNOWN = "partitions_unknown"
"""How many partitions a topic of the request has is not in the log."""
STATE_UNKNOWN = "state_unknown"
"""An earlier mutation of unknown size leaves open what was decided here."""


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """What the rule says of one topic's mutation."""

    is_admitted: bool
    # Of the refusal or, where it was admitted, of the connection; 0: none.
    throttle_time_ms: int
    # Tokens or rate before the mutation: what was compared.
    measured: float
    is_state_known: bool = True


def failed(part: TopicPart) -> TopicDecision:
    """Return the decision on a topic that fails for a reason of its own: it spends nothing."""
    return TopicDecision(part.topic, 0.0)


def decided(part: TopicPart, verdict: TopicVerdict, error: str, rule: str) -> TopicDecision:
    """Return the decision on a topic; a refusal's reason is the error's message."""
    refusal = None
    if not verdict.is_admitted:
        reason = f"The {rule} has been exceeded; try again in {verdict.throttle_time_ms} ms."
        refusal = Refusal(error, reason)
    return TopicDecision(part.topic, part.amount, refusal, verdict.measured)


def refusal_of_all(request: PolicyRequest, topics: Iterable[TopicDecision]) -> Refusal | None:
    """Return the first topic's refusal where the quota refused every topic that it was asked of."""
    asked = [
        decision
        for part, decision in zip(request.topics, topics, strict=True)
        if not part.other_error_code
    ]
    is_all = bool(asked) and all(decision.refusal is not None for decision in asked)
    return asked[0].refusal if is_all else None


def answered(
    request: PolicyRequest,
    topics: tuple[TopicDecision, ...],
    delay_ms: int,
    measured: float,
    bound: float,
    held: Held = Held.NEXT_REQUEST,
    findings: tuple[str, ...] = (),
) -> Decision:
    """Return the decision on the whole request. Answered at once unless ``held`` says otherwise."""
    tells = tells_throttle_time(request.api_name, request.api_version)
    return Decision(
        delay_ms=delay_ms,
        held=held if delay_ms else Held.NOTHING,
        is_told=delay_ms > 0 and tells and held is not Held.EXECUTION,
        refusal=refusal_of_all(request, topics),
        topics=topics,
        measured=measured,
        bound=bound,
        findings=findings,
    )
