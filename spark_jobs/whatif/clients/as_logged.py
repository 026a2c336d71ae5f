"""A policy replayed over requests that arrive when the log says, whatever it answers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.policy import Policy
from spark_jobs.whatif.policies.request import PolicyRequest


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
