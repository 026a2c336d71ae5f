"""What an answer means to the client: when it comes, what it got, what it must ask for again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from spark_jobs.whatif.clients.client_log import FETCHES, PRODUCE, US_PER_MS
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.request import PolicyRequest


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """When the client has its answer, and when its connection is read again."""

    answered_us: int
    free_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: ``again`` is the part that a retry can still bring through."""

    admitted: float
    refused_for_good: float = 0.0
    again: PolicyRequest | None = None


def asked(request: PolicyRequest) -> float:
    """Return the bytes of a produce or fetch, the partitions of a mutation; unknown ones are 0."""
    if request.api_name in FETCHES or request.api_name == PRODUCE:
        return _known(request.amount)
    return sum(_known(p.amount) for p in request.topics if not p.other_error_code)


def answer_times(
    decision: Decision, arrived_us: int, decided_us: int, service_us: int
) -> AnswerTimes:
    """Return the answer times of a request that was decided on at ``decided_us``."""
    answered_us = arrived_us + service_us
    delay_us = decision.delay_ms * US_PER_MS
    if not delay_us:
        return AnswerTimes(answered_us, answered_us)
    if decision.held is Held.READ:
        return AnswerTimes(answered_us + delay_us, answered_us + delay_us)
    until_us = max(answered_us, decided_us + delay_us)
    if decision.held in (Held.RESPONSE, Held.EXECUTION):
        return AnswerTimes(until_us, until_us)
    return AnswerTimes(answered_us, until_us)


def outcome(request: PolicyRequest, decision: Decision) -> Outcome:
    """Return the outcome of a request; a fetch that is refused can always be asked for again."""
    if decision.is_taken_back:
        return Outcome(0.0, again=request)
    if not decision.topics:
        return _outcome_of_whole(request, decision)
    for_good, again = set[str](), set[str]()
    for topic in decision.topics:
        if topic.refusal is not None:
            is_again = topic.refusal.is_retriable or request.api_name in FETCHES
            (again if is_again else for_good).add(topic.topic)
    if not for_good and not again:
        return Outcome(asked(request))
    lost, retried = _only(request, for_good), _only(request, again)
    admitted = asked(request) - asked(lost) - asked(retried)
    return Outcome(admitted, asked(lost), retried if again else None)


def _outcome_of_whole(request: PolicyRequest, decision: Decision) -> Outcome:
    if decision.refusal is None:
        return Outcome(asked(request))
    if decision.refusal.is_retriable or request.api_name in FETCHES:
        return Outcome(0.0, again=request)
    return Outcome(0.0, refused_for_good=asked(request))


def _only(request: PolicyRequest, topics: set[str]) -> PolicyRequest:
    """Return the request's part on some topics; its bytes follow those of its records."""
    kept = tuple(part for part in request.topics if part.topic in topics)
    if len(kept) == len(request.topics):
        return request
    of_all = sum(_known(part.amount) for part in request.topics)
    share = sum(_known(part.amount) for part in kept) / of_all if of_all else 0.0
    return replace(request, amount=request.amount * share, topics=kept)


def _known(amount: float) -> float:
    return 0.0 if math.isnan(amount) else amount
