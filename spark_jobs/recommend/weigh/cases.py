"""Whose value a day speaks for: observations of sensors → one case per configured entity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.weigh.configured_values import (
    ConfiguredValues,
    ValueKey,
    configured_entity,
    own_entity,
    takes_over,
)
from spark_jobs.recommend.weigh.observation import Observation
from spark_jobs.recommend.weigh.proposal import (
    KEEP,
    RAISE,
    Case,
    Proposal,
    Rules,
    least_default,
    propose,
    step_down,
)
from spark_jobs.recommend.weigh.withheld import refusal, why_not_the_quota
from spark_jobs.settings import RecommendSettings


def cases_of(
    observations: Iterable[Observation],
    values: ConfiguredValues,
    rules: Rules,
) -> list[Case]:
    """Return the cases of a day, sorted by quota type and entity.

    A value set for an entity by name is one case. A default is one case for all that follow it, and
    only ever lowered; each of its followers that was throttled is a case of its own: an override.
    An entity whose value was removed is left out.
    """
    listed = list(observations)
    followers: dict[ValueKey, list[Observation]] = defaultdict(list)
    for seen in listed:
        quota_type, user, client_id = seen.sensor.key
        entity = configured_entity(seen.sensor.level, user, client_id)
        followers[quota_type, entity].append(seen)
    cases = []
    for (quota_type, entity), group in followers.items():
        last = max(group, key=lambda o: o.sensor.last_ms)
        value = values.of(quota_type, entity, last.sensor.bound)
        if value is None:
            continue
        previous = value.bound if value.is_dynamic else None
        found = Case(quota_type, entity, value.bound, previous, tuple(group), Proposal(KEEP, ""))
        if entity.is_default:
            default = _default_case(found, rules)
            cases += [default, *_overrides(default, values, listed, rules)]
        else:
            cases.append(with_proposal(found, rules))
    return in_order(cases)


def in_order(cases: Iterable[Case]) -> list[Case]:
    """Return the cases sorted by quota type and entity."""
    return sorted(
        cases, key=lambda c: (c.quota_type, c.entity.user or "", c.entity.client_id or "")
    )


def with_proposal(case: Case, rules: Rules) -> Case:
    """Return the case with its proposal."""
    refused = refusal(case, rules)
    if refused:
        return replace(case, proposal=Proposal(KEEP, refused))
    proposal = propose(case, rules.settings)
    if proposal.kind == RAISE:
        found = set().union(*(rules.faults.get(o.sensor.key, ()) for o in case.changing))
        instead = why_not_the_quota(case.observations, case.current, found, rules)
        if instead:
            return replace(case, proposal=proposal.kept(instead, "not_the_quota"))
    return replace(case, proposal=replace(proposal, kind=_kind(case, proposal)))


def _kind(case: Case, proposal: Proposal) -> str | None:
    if proposal.kind is None:
        return None
    if case.previous is None:
        return "new_override"
    return "default" if case.entity.is_default else proposal.kind


def _default_case(
    case: Case,
    rules: Rules,
) -> Case:
    settings = rules.settings
    throttled = [o for o in case.observations if _needs_more(o, case.current, settings)]
    if len(throttled) > settings.overrides_max:
        return replace(case, proposal=_raised_default(case, len(throttled), settings))
    if throttled:
        reason = (
            f"Of the clients that follow it, {len(throttled)} of {len(case.observations)} were "
            "throttled. A default is not raised for some: those that need more are listed by name."
        )
        return replace(case, proposal=Proposal(KEEP, reason))
    return with_proposal(case, rules)


def _raised_default(case: Case, throttled: int, settings: RecommendSettings) -> Proposal:
    wanted = least_default(case.observations, settings.overrides_max, settings)
    most = case.current * settings.max_raise
    value = wanted if wanted <= most else max(step_down(most, case.quota_type), case.current)
    reason = (
        f"Of the clients that follow it, {throttled} of {len(case.observations)} were throttled: "
        f"more than the {settings.overrides_max} that are given values of their own. With "
        f"{amount(wanted, case.quota_type)} no more than those need one."
    )
    if case.current <= 0 or value - case.current <= settings.min_change * case.current:
        return Proposal(KEEP, reason)
    clamped_by = None if wanted <= most else "max_raise"
    lower = max(o.hottest.demand.rate for o in case.observations if o.hottest.demand.rate <= wanted)
    return Proposal(PROPOSED, reason, value, lower, wanted, clamped_by, "default")


def _overrides(
    default: Case,
    values: ConfiguredValues,
    everybody: list[Observation],
    rules: Rules,
) -> list[Case]:
    cases = []
    held = max(default.proposal.proposed or 0.0, default.current)
    for seen in default.observations:
        # A client may call itself "<default>": its override would be written to everybody's value.
        is_impostor = DEFAULT in seen.sensor.key
        if is_impostor or not _needs_more(seen, held, rules.settings):
            continue
        quota_type, user, client_id = seen.sensor.key
        entity = own_entity(seen.sensor.level, user, client_id)
        own = values.own(quota_type, entity)
        previous = own.bound if own is not None and own.is_dynamic else None
        case = Case(quota_type, entity, default.current, previous, (seen,), Proposal(KEEP, ""))
        moved = [o for o in everybody if _would_move(seen, o)]
        if moved:
            reason = (
                f"Throttled, but a value for the user would also take over {len(moved)} of its "
                "client-ids that have buckets of their own under a default; decide by hand."
            )
            cases.append(replace(case, proposal=Proposal(KEEP, reason)))
        else:
            cases.append(with_proposal(case, rules))
    return cases


def _needs_more(seen: Observation, current: float, settings: RecommendSettings) -> bool:
    """Return True if ``current`` throttles it, not only a value that held earlier in the day."""
    is_throttled = seen.throttle_time_ms >= max(settings.min_throttle_ms, 1)
    return is_throttled and seen.hottest.demand.rate > current


def _would_move(overridden: Observation, other: Observation) -> bool:
    same_user = overridden.sensor.key[:2] == other.sensor.key[:2]
    return same_user and takes_over(overridden.sensor.level, other.sensor.level)
