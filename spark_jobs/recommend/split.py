"""A client-id that fills a bucket it shares gets a value of its own, which takes it out of it.

To raise the bucket would let it have the more, and its neighbours still wait with it. A split is
proposed instead of a raise, where nearly all amounts are one client-id's and the others would
hardly be throttled without it. It is asked for, and tried on days it did not know, as any value is;
where it fails, the raise stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.dataset as ds

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.read_traffic import (
    SHARED_LEVELS,
    SHARED_TYPES,
    ClientAmounts,
    Parts,
    amounts_by_client,
    parts_of,
    summed,
)
from spark_jobs.recommend.weigh.backtest import throttle_with
from spark_jobs.recommend.weigh.cases import in_order, with_proposal
from spark_jobs.recommend.weigh.configured_values import (
    ConfiguredValues,
    QuotaEntity,
    ValueKey,
    configured_entity,
    end_of_day_ms,
)
from spark_jobs.recommend.weigh.forecast import Trial, kept_of
from spark_jobs.recommend.weigh.observation import FREE_RUN, Observation, seen_alone
from spark_jobs.recommend.weigh.outlook import SeenDay, over_days
from spark_jobs.recommend.weigh.proposal import KEEP, RAISE, Case, Proposal, Rules, SharedBucket
from spark_jobs.recommend.weigh.traffic import SensorId, SensorTraffic
from spark_jobs.recommend.weigh.withheld import within_capacity
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS

SPLIT = "split"
_RAISES = (RAISE, "new_override")


@dataclass(frozen=True, slots=True)
class Split:
    """A client-id's own case, the bucket it leaves, and how the like did on earlier days."""

    case: Case
    shared: ValueKey
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class _PartedDay:
    """One day of a bucket and of the client-id that would leave it."""

    day: int
    whole: Observation
    amounts: ClientAmounts
    alone: Observation | None
    others_before_ms: int
    others_after_ms: int
    # The pace that the others kept while nobody was muted, 0 where they were not held back.
    others_pace: float


def splits_of(
    cases: Sequence[Case],
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    changes: Sequence[Mapping[str, Any]],
    rules: Rules,
) -> list[Split]:
    """Return the splits that are better than raising the bucket, sorted by sensor.

    ``decisions`` are those of ``days``, which are in time order; ``changes`` are rows of
    ``quota_changes``. Days on which a bucket was not seen are not read for it.
    """
    if not days:
        return []
    values = _at_end_of(changes, days[-1])
    taken = {case.key for case in cases} | set(values.explicit())
    shared = {c.observations[0].sensor.key: c for c in cases if is_shared_raise(c)}
    amounts = [
        amounts_by_client(data, [key for key in shared if key in day.observations])
        for day, data in zip(days, decisions, strict=True)
    ]
    first = days[-1].day - rules.settings.season_days + 1
    recent = [of for day, of in zip(days, amounts, strict=True) if day.day >= first]
    wanted: dict[SensorId, str] = {}
    for key in shared:
        client_id = _largest([of[key] for of in recent if key in of])
        if client_id is None or (*key[:2], client_id) in days[-1].observations:
            continue
        if (key[0], QuotaEntity(key[1], client_id)) not in taken:
            wanted[key] = client_id
    found = _tried_day_by_day(wanted, days, decisions, amounts, changes, rules)
    splits = []
    for key, (history, trials) in sorted(found.items()):
        case = _case(wanted[key], history, shared[key].current, rules)
        kept, tried = kept_of(trials, rules.settings)
        if case is not None and kept >= rules.settings.min_kept_share * tried:
            splits.append(Split(case, (key[0], shared[key].entity), tuple(trials)))
    return splits


def is_shared_raise(case: Case) -> bool:
    """Return True if more is proposed for a bucket that client-ids of a user may share."""
    seen = case.observations[0].sensor
    return (
        case.proposal.status == PROPOSED
        and case.proposal.kind in _RAISES
        and case.quota_type in SHARED_TYPES
        and seen.level in SHARED_LEVELS
        and case.entity == QuotaEntity(seen.key[1], None)
    )


def _largest(days: Sequence[ClientAmounts]) -> str | None:
    """Return the client-id with the most, None where it is alone or has no name to set."""
    total = summed(days)
    if len(total) < 2:
        return None
    client_id = max(total, key=lambda c: (total[c], c))
    return client_id if client_id != DEFAULT else None


def _tried_day_by_day(
    client_ids: Mapping[SensorId, str],
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    amounts: Sequence[Mapping[SensorId, ClientAmounts]],
    changes: Sequence[Mapping[str, Any]],
    rules: Rules,
) -> dict[SensorId, tuple[list[_PartedDay], list[Trial]]]:
    """Return each bucket's days, and what would have been proposed before each, tried on it."""
    found: dict[SensorId, tuple[list[_PartedDay], list[Trial]]] = defaultdict(lambda: ([], []))
    for i, day in enumerate(days if client_ids else ()):
        own = {key: (c,) for key, c in client_ids.items() if key in amounts[i]}
        before = _at_end_of(changes, days[i - 1]) if i else None
        for parts in parts_of(decisions[i], own):
            key = parts.whole.key
            history, trials = found[key]
            if history and before is not None:
                current = _current(history[-1].whole, before)
                case = None if current is None else _case(client_ids[key], history, current, rules)
                if case is not None:
                    trials.append(_trial(case, parts, day.day, rules))
            history.append(_parted(parts, day, client_ids[key], amounts[i][key], rules))
    return dict(found)


def _at_end_of(changes: Sequence[Mapping[str, Any]], day: SeenDay) -> ConfiguredValues:
    return ConfiguredValues(changes, end_of_day_ms(day.day * DAY_MS))


def _current(whole: Observation, values: ConfiguredValues) -> float | None:
    quota_type, user, client_id = whole.sensor.key
    entity = configured_entity(whole.sensor.level, user, client_id)
    value = values.of(quota_type, entity, whole.sensor.bound)
    return None if value is None else value.bound


def _parted(
    parts: Parts, day: SeenDay, client_id: str, amounts: ClientAmounts, rules: Rules
) -> _PartedDay:
    quota_type, user, _ = parts.whole.key
    alone, others = parts.alone, parts.others
    whole = day.observations[parts.whole.key]
    bound = whole.sensor.bound
    own_key = (quota_type, user, client_id)
    before_ms = 0 if others is None else int(others.amounts.replayed_throttle_time_ms.sum())
    return _PartedDay(
        day=day.day,
        whole=whole,
        amounts=amounts,
        alone=None if alone is None else seen_alone(own_key, bound, alone, rules.brokers),
        others_before_ms=before_ms,
        others_after_ms=_throttle_ms(others, bound, rules),
        others_pace=_held_back_pace(others, bound, rules),
    )


def _held_back_pace(others: SensorTraffic | None, bound: float, rules: Rules) -> float:
    """Return the rate the others asked for until they were throttled, 0 where they never were.

    Their requests came as slowly as the full bucket let them: replayed without who filled it they
    throttle nobody, however much they would have sent.
    """
    if others is None:
        return 0.0
    demand = seen_alone(others.key, bound, others, rules.brokers).hottest.demand
    return demand.rate if demand.basis == FREE_RUN else 0.0


def _throttle_ms(traffic: SensorTraffic | None, bound: float, rules: Rules) -> int:
    return 0 if traffic is None else int(throttle_with(traffic, bound, rules.brokers).sum())


def _case(
    client_id: str, history: Sequence[_PartedDay], current: float, rules: Rules
) -> Case | None:
    """Return the client-id's case at the end of ``history``, None where a split is not right."""
    settings = rules.settings
    last = history[-1]
    recent = [day for day in history if day.day > last.day - settings.season_days]
    total = summed(day.amounts for day in recent)
    share = total.get(client_id, 0.0) / max(sum(total.values()), 1e-9)
    before, after = (
        sum(getattr(day, name) for day in recent)
        for name in ("others_before_ms", "others_after_ms")
    )
    hardly = max(int(settings.left_share_max * before), max(settings.min_throttle_ms, 1) - 1)
    alone = [SeenDay(day.day, {d.sensor.key: d}) for day in history if (d := day.alone) is not None]
    is_held_back = max(day.others_pace for day in recent) > current
    if share < settings.split_share or after > hardly or is_held_back or not alone:
        return None
    (seen,) = over_days(alone, settings)
    (whole,) = over_days([SeenDay(d.day, {d.whole.sensor.key: d.whole}) for d in history], settings)
    quota_type, user, _ = seen.sensor.key
    leaves = SharedBucket(whole, len(recent), len(total), share, before, after)
    case = Case(
        quota_type, QuotaEntity(user, client_id), current, None, (seen,), Proposal(KEEP, ""), leaves
    )
    case = with_proposal(case, rules)
    if case.proposal.status != PROPOSED or (case.proposal.proposed or 0.0) <= current:
        return None
    return replace(case, proposal=replace(case.proposal, kind=SPLIT, reason=_reason(case)))


def _reason(case: Case) -> str:
    bucket = case.leaves
    assert bucket is not None
    demand = amount(case.demand.rate, case.quota_type)
    before, after = (
        f"{ms / 1000:,.1f} s"
        for ms in (
            bucket.neighbours_throttle_time_ms_before,
            bucket.neighbours_throttle_time_ms_after,
        )
    )
    over = f" in {bucket.days} days" if bucket.days > 1 else ""
    return (
        f"It makes {bucket.share:.0%} of what {bucket.client_ids} client-ids share a quota of "
        f"{amount(case.current, case.quota_type)} for, and alone asks for at least {demand} on "
        f"broker {case.hottest.hottest.broker_id}. A value of its own takes it out of their "
        f"bucket, in which the others, throttled for {before}{over}, would be throttled for "
        f"{after}."
    )


def _trial(case: Case, parts: Parts, day: int, rules: Rules) -> Trial:
    """Return the trial of a split on a day: the bucket as it is against both parts of it."""
    proposed = case.proposal.proposed
    assert proposed is not None, "only a case with a value is tried"
    after = _throttle_ms(parts.others, case.current, rules)
    after += _throttle_ms(parts.alone, proposed, rules)
    peak = 0.0
    if parts.alone is not None:
        key = case.observations[0].sensor.key
        seen = seen_alone(key, case.current, parts.alone, rules.brokers)
        peak = seen.hottest.demand.rate
    left = _held_back_pace(parts.others, case.current, rules)
    return Trial(
        day=day,
        current=case.current,
        proposed=proposed,
        throttle_time_ms_before=_throttle_ms(parts.whole, case.current, rules),
        throttle_time_ms_after=after,
        headroom_before=1 - peak / case.current,
        # Of the scarcer one: its own value, or what it leaves to the others.
        headroom_after=1 - max(peak / proposed, left / case.current),
        is_step=case.proposal.clamped_by is not None,
    )


def with_splits(
    cases: Sequence[Case],
    splits: Sequence[Split],
    values: ConfiguredValues,
    settings: RecommendSettings,
) -> list[Case]:
    """Return the cases within capacity, with splits instead of raises where there is room for them.

    A split needs room for a whole value and a raise for a part of one: the raise comes back where
    the first is too much.
    """
    fitting = list(splits)
    while True:
        of_shared = {split.shared: split for split in fitting}
        kept = [_kept(case, of_shared) for case in cases]
        explicit = values.explicit()
        found = within_capacity([*kept, *(s.case for s in fitting)], explicit, settings)
        refused = {c.key for c in found if c.proposal.status != PROPOSED}
        still = [split for split in fitting if split.case.key not in refused]
        if len(still) == len(fitting):
            return in_order(found)
        fitting = still


def _kept(case: Case, of_shared: Mapping[ValueKey, Split]) -> Case:
    split = of_shared.get(case.key)
    if split is None:
        return case
    bucket = split.case.leaves
    assert bucket is not None
    reason = (
        f"Throttled, but client-id {split.case.entity.client_id!r} makes {bucket.share:.0%} of "
        "what shares it: that one is proposed a value of its own (split), and the others fit into "
        "this one without it."
    )
    return replace(case, proposal=case.proposal.kept(reason))
