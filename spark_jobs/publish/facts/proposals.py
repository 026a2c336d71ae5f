"""Recommendations of the run, and what became of changes applied before it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.publish.facts.findings import Evidence
from spark_jobs.wording.names import NamedEntity
from spark_jobs.wording.numbers import change, rate
from spark_jobs.wording.visible_text import shortened

NOT_AS_PREDICTED = "not_as_predicted"


@dataclass(frozen=True, slots=True)
class ChangeResult(NamedEntity):
    """One applied change; ``is_kept`` says that throttling is no more than predicted."""

    quota_user: str | None
    quota_client_id: str | None
    quota_type: str
    applied_ms: int
    value_before: float | None
    value_after: float | None
    throttle_time_ms_before: int | None
    throttle_time_ms_predicted: int | None
    throttle_time_ms: int
    result: str
    explanation: str

    @property
    def is_kept(self) -> bool:
        """Return True if the change did what was predicted, or met no traffic."""
        return self.result != NOT_AS_PREDICTED


FILES = {
    "recommendations.csv": "all recommendations as CSV",
    "apply.sh": "script that applies them with kafka-configs.sh",
    "rollback.sh": "script that takes them back",
}


@dataclass(frozen=True, slots=True)
class ProposedQuota(NamedEntity):
    """One configured entity's quota, now and proposed; bounds in the quota's own unit."""

    quota_type: str
    quota_user: str | None
    quota_client_id: str | None
    status: str
    kind: str | None
    current: float | None
    previous: float | None
    proposed: float | None
    lower: float | None
    upper: float | None
    reason: str
    confidence: str
    clamped_by: str | None
    hottest_broker_id: int | None
    throttle_time_ms_before: int | None
    throttle_time_ms_after: int | None
    days_seen: int
    backtest_trials: int
    backtest_kept: int
    evidence: Evidence


def proposal_in_words(proposal: ProposedQuota, name_length_max: int | None = None) -> str:
    """Return a change in one line: whose, from what, to what, and how sure that is."""
    name = proposal.entity
    if name_length_max is not None:
        name = shortened(name, name_length_max)
    current = rate(proposal.current, proposal.quota_type)
    if proposal.proposed is None:
        return (
            f"{name}: {proposal.quota_type} {current} → none, unused, "
            f"confidence {proposal.confidence}"
        )
    proposed = rate(proposal.proposed, proposal.quota_type)
    difference = change(proposal.current, proposal.proposed)
    return (
        f"{name}: {proposal.quota_type} {current} → {proposed} ({difference}), "
        f"confidence {proposal.confidence}"
    )
