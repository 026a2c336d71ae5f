"""What explicit values may add up to on a broker: raises share what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_jobs.apply.changes.wording import amount
from spark_jobs.recommend.configured_values import UNLIMITED, QuotaEntity
from spark_jobs.recommend.entities import Case
from spark_jobs.recommend.proposal import KEEP, PROPOSED, Proposal, step_down
from spark_jobs.settings import RecommendSettings

BROKER_CAPACITY = "broker_capacity"


def within_capacity(
    cases: Sequence[Case],
    explicit: Mapping[tuple[str, QuotaEntity], float],
    settings: RecommendSettings,
) -> list[Case]:
    """Return the cases with raises cut to what the capacity leaves, the smallest raise first.

    ``explicit`` has the values that are set by name. They may not add up to more than
    ``broker_capacity``, as the thresholds of topics may not in "Broker side quota (V1)"; lowered
    ones make room.
    """
    found = {(case.quota_type, case.entity): case for case in cases}
    for quota_type, capacity in settings.broker_capacity.items():
        own = [c for c in cases if c.quota_type == quota_type and c.proposal.status == PROPOSED]
        left = capacity - _sum(quota_type, explicit, own)
        raised = [case for case in own if _more(case, explicit) > 0 and not case.entity.is_default]
        for case in sorted(raised, key=lambda c: _more(c, explicit)):
            cut = _cut(case, explicit, max(left, 0.0), capacity, settings)
            found[case.quota_type, case.entity] = cut
            left -= _more(cut, explicit)
    return list(found.values())


def _sum(
    quota_type: str, explicit: Mapping[tuple[str, QuotaEntity], float], cases: Iterable[Case]
) -> float:
    values = {e: v for (t, e), v in explicit.items() if t == quota_type and v < UNLIMITED}
    for case in cases:
        proposed = case.proposal.proposed
        if case.entity in values and proposed is not None:
            values[case.entity] = min(values[case.entity], proposed)
    return sum(value for entity, value in values.items() if not entity.is_default)


def _more(case: Case, explicit: Mapping[tuple[str, QuotaEntity], float]) -> float:
    """Return by how much a proposal adds to the explicit values; a new override adds all of it."""
    if case.proposal.proposed is None:
        return 0.0
    return case.proposal.proposed - explicit.get((case.quota_type, case.entity), 0.0)


def _cut(
    case: Case,
    explicit: Mapping[tuple[str, QuotaEntity], float],
    left: float,
    capacity: float,
    settings: RecommendSettings,
) -> Case:
    if _more(case, explicit) <= left:
        return case
    room = explicit.get((case.quota_type, case.entity), 0.0) + left
    value = step_down(room, case.quota_type) if room > 0 else 0.0
    proposal = case.proposal
    if value - case.current <= settings.min_change * case.current:
        reason = (
            f"{proposal.reason} Not raised: the values set by name may add up to "
            f"{amount(capacity, case.quota_type)} on a broker, and {amount(left, case.quota_type)} "
            "are left."
        )
        kept = Proposal(KEEP, reason, lower=proposal.lower, upper=proposal.upper)
        return replace(case, proposal=kept)
    return replace(case, proposal=replace(proposal, proposed=value, clamped_by=BROKER_CAPACITY))
