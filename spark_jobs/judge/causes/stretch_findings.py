"""What explains a stretch of one sensor, as a row of ``findings``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spark_jobs.judge.causes.hypotheses import (
    ANOTHER_BOUND,
    EARLY_MS,
    HARMLESS,
    Explanation,
)
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.quota.codes import (
    CLIENT_IGNORES_THROTTLE,
    COUNTED_APART,
    LINES_MISSING,
    NOT_ENFORCED,
    OTHER_RATE_PROFILE,
    REQUEST_QUOTA,
    STATE_LOST,
)
from spark_jobs.quota.sensor_key import SensorKey

KIND_OF_HYPOTHESIS = {
    **dict.fromkeys(ANOTHER_BOUND, "wrong_quota"),
    NOT_ENFORCED: "not_enforced",
    OTHER_RATE_PROFILE: "other_rate_profile",
    STATE_LOST: "state_lost",
    COUNTED_APART: "counted_apart",
    CLIENT_IGNORES_THROTTLE: "throttle_ignored",
    LINES_MISSING: "lines_missing",
}

# The same cause further apart is two things to look at.
_NEAR_MS = 60_000


@dataclass(frozen=True, slots=True)
class ExplainedStretch:
    """One stretch of a sensor in [from_ms, until_ms) that a hypothesis explains."""

    key: SensorKey
    from_ms: int
    until_ms: int
    hypothesis: str
    share: float
    runner_up: str
    runner_up_share: float
    evidence: dict[str, Any]
    lost_between_ms: tuple[int, int] | None = None  # of a lost state: when it was lost

    @property
    def kind(self) -> str:
        """Return the finding's kind."""
        return KIND_OF_HYPOTHESIS[self.hypothesis]

    @property
    def is_fault(self) -> bool:
        """Return True if the wrong decisions of the stretch have this cause."""
        return self.hypothesis not in HARMLESS

    @property
    def estimated_bound(self) -> float | None:
        """Return the bound that the broker must have had; None where there was none or is moot."""
        bound: float | None = self.evidence["estimated_bound"]
        return bound

    def covers(self, second_ms: int) -> bool:
        """Return True if part of the second that begins at ``second_ms`` is in the stretch."""
        return self.is_fault and self.from_ms - 1000 < second_ms < self.until_ms


def explained_stretch(
    key: SensorKey,
    history: SensorDecisions,
    explanation: Explanation,
    change_ms: int,
    lost_between_ms: tuple[int, int] | None = None,
) -> ExplainedStretch | None:
    """Return the stretch as findings tell it; None where there is nothing to tell.

    A request quota's throttles are nobody's fault, and what lasts no longer than ``change_ms`` is a
    change on its way: it takes that long to reach every broker.
    """
    winner, rows = explanation.winner, explanation.stretch
    at_ms = history.recorded_at_ms
    from_ms, until_ms = int(at_ms[rows.first]), int(at_ms[rows.end - 1]) + 1
    if winner.hypothesis == REQUEST_QUOTA:
        return None
    if explanation.is_fault and until_ms - from_ms <= change_ms:
        return None
    configured = float(history.bound[rows.first])
    is_bound = winner.hypothesis in ANOTHER_BOUND
    estimate = explanation.estimate if is_bound else None
    inside = rows.rows
    early = history.early_ms()[inside]
    evidence: dict[str, Any] = {
        "evidence_decisions": explanation.evidence,
        "explained": winner.explained,
        "configured_bound": None if configured != configured else configured,
        "configured_share": round(explanation.configured.share, 4),
        "estimated_bound": winner.bound if is_bound else None,
        "estimate_low": estimate.low if estimate else None,
        "estimate_high": estimate.high if estimate else None,
        "margin": round(explanation.margin, 4),
        "detail": winner.detail,
        "throttled": int((history.logged_ms[inside] > 0).sum()),
        "logged_throttle_time_ms": int(history.logged_ms[inside].sum()),
        "early_requests": int((early > EARLY_MS).sum()),
    }
    return ExplainedStretch(
        key=key,
        from_ms=from_ms,
        until_ms=until_ms,
        hypothesis=winner.hypothesis,
        share=round(winner.share, 4),
        runner_up=explanation.runner_up.hypothesis,
        runner_up_share=round(explanation.runner_up.share, 4),
        evidence=evidence,
        lost_between_ms=lost_between_ms,
    )


def gathered(stretches: Iterable[ExplainedStretch]) -> list[ExplainedStretch]:
    """Return the stretches of one sensor in time order, those with one cause together.

    A stretch ends where the configured bound changes; a broker that holds on to one value past
    several changes has one fault. Missing lines are told once for the sensor.
    """
    merged: list[ExplainedStretch] = []
    for stretch in sorted(stretches, key=lambda s: s.from_ms):
        before = next((m for m in reversed(merged) if _is_one_cause(m, stretch)), None)
        if before is None:
            merged.append(stretch)
        else:
            merged[merged.index(before)] = _together(before, stretch)
    return merged


def _is_one_cause(one: ExplainedStretch, other: ExplainedStretch) -> bool:
    if one.hypothesis != other.hypothesis:
        return False
    if one.hypothesis in (LINES_MISSING, OTHER_RATE_PROFILE):
        return True
    if one.hypothesis == STATE_LOST:
        return one.lost_between_ms == other.lost_between_ms
    is_near = other.from_ms - one.until_ms <= _NEAR_MS
    bounds = one.estimated_bound, other.estimated_bound
    return is_near and one.hypothesis in (*ANOTHER_BOUND, NOT_ENFORCED) and bounds[0] == bounds[1]


_SUMS = (
    "evidence_decisions",
    "explained",
    "throttled",
    "logged_throttle_time_ms",
    "early_requests",
)


def _together(one: ExplainedStretch, other: ExplainedStretch) -> ExplainedStretch:
    sums = {name: one.evidence[name] + other.evidence[name] for name in _SUMS}
    weight = other.evidence["evidence_decisions"] / max(sums["evidence_decisions"], 1)

    def mean(a: float, b: float) -> float:
        return round(float(a * (1 - weight) + b * weight), 4)

    share = mean(one.share, other.share)
    next_share = mean(one.runner_up_share, other.runner_up_share)
    is_same = one.evidence["configured_bound"] == other.evidence["configured_bound"]
    return ExplainedStretch(
        key=one.key,
        from_ms=one.from_ms,
        until_ms=max(one.until_ms, other.until_ms),
        hypothesis=one.hypothesis,
        share=share,
        runner_up=one.runner_up,
        runner_up_share=next_share,
        evidence=one.evidence
        | sums
        | {
            "configured_bound": other.evidence["configured_bound"],
            "configured_bound_before": None if is_same else one.evidence["configured_bound"],
            "configured_share": mean(
                one.evidence["configured_share"], other.evidence["configured_share"]
            ),
            "margin": round(share - next_share, 4),
        },
        lost_between_ms=one.lost_between_ms,
    )
