"""Why nothing is proposed for an entity, or less than it asks for: refused, cut or withheld.

- Refused, whatever it shows: internal principals, names no tool can set, quotas nobody enforces.
- Not the quota: throttling that another value would not mend. A client that ignores its throttles
  is held by the broker alone; a fetch larger than what its quota lets through in a whole window is
  throttled whenever it is served; and where one broker leads most of what a client uses, the bound
  of each broker is met there alone.
- Cut: explicit values may add up to so much on a broker, and raises share what is left.
- Withheld: the like failed on earlier days, or does more harm to neighbours than good.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import QuotaType
from spark_jobs.recommend.weigh.configured_values import UNLIMITED, ValueKey
from spark_jobs.recommend.weigh.forecast import Kept, Waiting, harm_text
from spark_jobs.recommend.weigh.observation import Observation
from spark_jobs.recommend.weigh.proposal import WITHHELD, Case, Rules, step_down
from spark_jobs.settings import RecommendSettings

NOT_ENFORCED = "not_enforced"
IGNORES_THROTTLE = "client_ignores_throttle"
BROKER_CAPACITY = "broker_capacity"


def refusal(case: Case, rules: Rules) -> str | None:
    """Return the reason why a case may get no proposal whatever it shows; None: it may."""
    internal = _internal(case, rules.settings)
    if internal:
        return f"Left out: {internal!r} is the name of an internal principal."
    if not case.entity.can_be_named:
        return "Its name is empty or holds a zero byte, which no command line can name."
    if any(NOT_ENFORCED in rules.faults.get(o.sensor.key, ()) for o in case.changing):
        return (
            "A broker does not enforce this quota (see the findings): no other value would change "
            "anything until it does."
        )
    return None


def _internal(case: Case, settings: RecommendSettings) -> str | None:
    names = [name for o in case.observations for name in o.sensor.key[1:] if name]
    for name in names if not case.entity.is_default else ():
        for pattern in settings.internal_principals:
            if re.fullmatch(pattern, name, re.IGNORECASE):
                return name
    return None


def why_not_the_quota(
    observations: Sequence[Observation],
    current: float,
    faults: set[str],
    rules: Rules,
) -> str | None:
    """Return the sentence that says what to do instead of a raise; None: a raise is right.

    ``faults`` are the kinds and hypotheses of the findings on the sensors.
    """
    if IGNORES_THROTTLE in faults:
        return (
            "Not the quota: the client goes on sending while it is throttled. Update or mend the "
            "client; until then the broker alone holds it back."
        )
    return _too_large(observations, current, rules) or _skew(observations, current, rules.settings)


def _too_large(observations: Sequence[Observation], current: float, rules: Rules) -> str | None:
    for seen in observations:
        if seen.sensor.key[0] != QuotaType.CONSUMER_BYTE_RATE:
            continue
        for load in seen.brokers:
            samples, window_ms = rules.brokers[load.broker_id].window_of(
                QuotaType.CONSUMER_BYTE_RATE
            )
            most = current * samples * window_ms / 1000
            mean = load.rates.p50
            if load.largest_amount > most and mean < current:
                return (
                    f"Not the quota: one fetch of {load.largest_amount:,.0f} bytes is more than "
                    f"the {most:,.0f} that {current:,.0f} B/s let through in a whole window, and "
                    f"usually the client reads {mean:,.0f} B/s. Set its fetch.max.bytes below that."
                )
    return None


def _skew(
    observations: Sequence[Observation], current: float, settings: RecommendSettings
) -> str | None:
    demand: dict[int, float] = {}
    for seen in observations:
        for load in seen.brokers:
            demand[load.broker_id] = demand.get(load.broker_id, 0.0) + load.demand.rate
    if len(demand) < 2 or len(observations) > 1:
        return None
    hottest = max(demand, key=lambda broker: demand[broker])
    others = statistics.median(rate for broker, rate in demand.items() if broker != hottest)
    is_skewed = demand[hottest] >= settings.skew_ratio * others
    spread = sum(demand.values()) / len(demand)
    if not is_skewed or spread * settings.headroom > current:
        return None
    return (
        f"Not the quota: broker {hottest} serves {demand[hottest]:,.0f} per second of it and the "
        f"others {others:,.0f}; spread over them, the {current:,.0f} of each would do. Move "
        f"leaders of its partitions away from broker {hottest}."
    )


def within_capacity(
    cases: Sequence[Case],
    explicit: Mapping[ValueKey, float],
    settings: RecommendSettings,
) -> list[Case]:
    """Return the cases with raises cut to what the capacity leaves, the smallest raise first.

    ``explicit`` has the values that are set by name. They may not add up to more than
    ``broker_capacity``, as the thresholds of topics may not in "Broker side quota (V1)"; lowered
    ones make room.
    """
    found = {case.key: case for case in cases}
    for quota_type, capacity in settings.broker_capacity.items():
        own = [c for c in cases if c.quota_type == quota_type and c.proposal.status == PROPOSED]
        left = capacity - _sum(quota_type, explicit, own)
        raised = [case for case in own if _more(case, explicit) > 0 and not case.entity.is_default]
        for case in sorted(raised, key=lambda c: _more(c, explicit)):
            cut = _cut(case, explicit, max(left, 0.0), capacity, settings)
            found[case.key] = cut
            left -= _more(cut, explicit)
    return list(found.values())


def _sum(quota_type: str, explicit: Mapping[ValueKey, float], cases: Iterable[Case]) -> float:
    values = {e: v for (t, e), v in explicit.items() if t == quota_type and v < UNLIMITED}
    for case in cases:
        proposed = case.proposal.proposed
        if case.entity in values and proposed is not None:
            values[case.entity] = min(values[case.entity], proposed)
    return sum(value for entity, value in values.items() if not entity.is_default)


def _more(case: Case, explicit: Mapping[ValueKey, float]) -> float:
    """Return by how much a proposal adds to the explicit values; a new override adds all of it."""
    if case.proposal.proposed is None:
        return 0.0
    return case.proposal.proposed - explicit.get(case.key, 0.0)


def _cut(
    case: Case,
    explicit: Mapping[ValueKey, float],
    left: float,
    capacity: float,
    settings: RecommendSettings,
) -> Case:
    if _more(case, explicit) <= left:
        return case
    room = explicit.get(case.key, 0.0) + left
    value = step_down(room, case.quota_type) if room > 0 else 0.0
    proposal = case.proposal
    if value - case.current <= settings.min_change * case.current:
        reason = (
            f"{proposal.reason} Not raised: the values set by name may add up to "
            f"{amount(capacity, case.quota_type)} on a broker, and {amount(left, case.quota_type)} "
            "are left."
        )
        return replace(case, proposal=proposal.kept(reason))
    return replace(case, proposal=replace(proposal, proposed=value, clamped_by=BROKER_CAPACITY))


def withhold_failed(
    case: Case, kept: Kept, waiting: Waiting | None, settings: RecommendSettings
) -> Case:
    """Return a proposal withheld where it failed its trials, or does more harm than good."""
    if kept.kept < settings.min_kept_share * kept.trials:
        return _withheld(
            case,
            "made at the end of earlier days, it would have done what it promised on "
            f"{kept.kept} of {kept.trials} days after.",
        )
    if waiting is None or not waiting.harmed:
        return case
    harm = f"replayed with clients that wait, {harm_text(waiting)}"
    if waiting.does_more_harm:
        return _withheld(case, f"{harm}: more than is gained.")
    reason = f"{case.proposal.reason} But {harm}."
    return replace(case, proposal=replace(case.proposal, reason=reason))


def _withheld(case: Case, why: str) -> Case:
    reason = f"{case.proposal.reason} Withheld: {why}"
    proposal = replace(case.proposal, status=WITHHELD, reason=reason, proposed=None)
    return replace(case, proposal=proposal)
