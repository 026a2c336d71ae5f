"""Recommendations of the run, and what became of changes applied before it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.publish.facts.findings import Evidence, evidence_items
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.numbers import change, rate
from spark_jobs.wording.visible_text import shortened, visible

NOT_AS_PREDICTED = "not_as_predicted"


@dataclass(frozen=True, slots=True)
class ChangeResult:
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
    def entity(self) -> str:
        """Return whose quota it is, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)

    @property
    def is_kept(self) -> bool:
        """Return whether it did what was predicted, or nobody came to see."""
        return self.result != NOT_AS_PREDICTED


def change_results_of(scope: RunScope) -> tuple[ChangeResult, ...]:
    """Return the applied changes, those that did not as predicted first, then the newest first."""
    rows = read_table(scope, "change_results").to_pylist()
    names = set(ChangeResult.__dataclass_fields__) - {"explanation"}
    found = [
        ChangeResult(
            explanation=visible(row["explanation"]),
            **{name: row[name] for name in names},
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda r: (r.is_kept, -r.applied_ms, r.quota_type, r.entity)))


FILES = {
    "recommendations.csv": "all recommendations as CSV",
    "apply.sh": "script that applies them with kafka-configs.sh",
    "rollback.sh": "script that takes them back",
}


@dataclass(frozen=True, slots=True)
class Proposal:
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

    @property
    def entity(self) -> str:
        """Return whose quota it is, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)


def proposals_of(scope: RunScope) -> tuple[Proposal, ...]:
    """Return the recommendations, in order of the throttle time they are about, longest first."""
    rows = read_table(scope, "recommendations").to_pylist()
    proposals = [
        Proposal(
            **row | {"reason": visible(row["reason"]), "evidence": evidence_items(row["evidence"])}
        )
        for row in rows
    ]
    proposals.sort(key=lambda p: (-(p.throttle_time_ms_before or 0), p.quota_type, p.entity))
    return tuple(proposals)


def written_files(scope: RunScope) -> tuple[tuple[str, str], ...]:
    """Return name and description of the recommendation files beside the report."""
    folder = scope.output_dir("reports")
    return tuple((name, what) for name, what in FILES.items() if (folder / name).is_file())


def proposal_in_words(proposal: Proposal, name_length_max: int | None = None) -> str:
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
