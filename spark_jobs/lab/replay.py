"""A policy replayed over one stretch of requests: its rows of ``tables.WHATIF``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spark_jobs.lab.as_logged import MODE, replay_as_logged
from spark_jobs.lab.outcomes import Outcomes
from spark_jobs.lab.scenario import ScenarioPolicy
from spark_jobs.policy.change import Change
from spark_jobs.policy.kip13_refusing import Kip13Refusing
from spark_jobs.policy.request import PolicyRequest

_AFTER_EVERYTHING_MS = 2**62


def outcome_rows(
    scenario: ScenarioPolicy, requests: Iterable[PolicyRequest], changes: Sequence[Change] = ()
) -> list[dict[str, Any]]:
    """Return what became of the requests, which arrive when the log says; both in time order."""
    policy = scenario.begin()
    outcomes = Outcomes(scenario.name, scenario.label, MODE)
    for request, decision in replay_as_logged(policy, requests, changes):
        outcomes.add(request, decision, policy.state_key(request))
    if isinstance(policy, Kip13Refusing):
        policy.settle(_AFTER_EVERYTHING_MS)
        outcomes.settle_lost({key: cost.lost_bytes for key, cost in policy.costs().items()})
    return outcomes.rows()
