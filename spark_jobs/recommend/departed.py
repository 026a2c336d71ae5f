"""Raises of a shared bucket, asked for again without the client-ids that have left it.

For a week after a split the days at hand still show the bucket with all of them in it, throttled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow.dataset as ds

from spark_jobs.recommend.read_traffic import Parts, amounts_by_client, parts_of
from spark_jobs.recommend.split import is_shared_raise
from spark_jobs.recommend.weigh.backtest import throttle_with
from spark_jobs.recommend.weigh.cases import with_proposal
from spark_jobs.recommend.weigh.configured_values import ConfiguredValues
from spark_jobs.recommend.weigh.observation import Observation, seen_alone
from spark_jobs.recommend.weigh.outlook import SeenDay, over_days
from spark_jobs.recommend.weigh.proposal import KEEP, LOWER, Case, Proposal, Rules
from spark_jobs.recommend.weigh.traffic import SensorId


def without_departed(
    cases: Sequence[Case],
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    values: ConfiguredValues,
    rules: Rules,
) -> list[Case]:
    """Return the cases, raises of shared buckets asked for again without who is to leave them.

    ``decisions`` are those of ``days``; ``values`` hold at the end of the last one. What is left is
    replayed with the value that each day ended with.
    """
    named = _named_client_ids(values)
    shared = {
        case.observations[0].sensor.key: case
        for case in cases
        if is_shared_raise(case) and (case.quota_type, case.entity.user) in named
    }
    left: dict[SensorId, list[SeenDay]] = defaultdict(list)
    departed: dict[SensorId, set[str]] = defaultdict(set)
    for day, data in zip(days, decisions, strict=True):
        keys = [key for key in shared if key in day.observations]
        for key, amounts in amounts_by_client(data, keys).items():
            departed[key] |= amounts.keys() & named[key[:2]]
        leaving = {key: departed[key] for key in keys}
        for parts in parts_of(data, leaving):
            seen = _seen_without(parts, day.observations[parts.whole.key], rules)
            if seen is not None:
                left[parts.whole.key].append(SeenDay(day.day, {parts.whole.key: seen}))
    return [_again(case, departed, left, rules) for case in cases]


def _named_client_ids(values: ConfiguredValues) -> Mapping[tuple[str, str], set[str]]:
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for quota_type, entity in values.explicit():
        if entity.user is not None and entity.client_id is not None and not entity.is_default:
            named[quota_type, entity.user].add(entity.client_id)
    return named


def _seen_without(parts: Parts, whole: Observation, rules: Rules) -> Observation | None:
    if parts.alone is None or parts.others is None:
        return whole if parts.others is not None else None
    sensor = whole.sensor
    throttle_ms = throttle_with(parts.others, sensor.bound, rules.brokers)
    amounts = replace(parts.others.amounts, replayed_throttle_time_ms=throttle_ms)
    others = replace(parts.others, amounts=amounts)
    return seen_alone(sensor.key, sensor.bound, others, rules.brokers, sensor.level)


def _again(
    case: Case,
    departed: Mapping[SensorId, Collection[str]],
    left: Mapping[SensorId, Sequence[SeenDay]],
    rules: Rules,
) -> Case:
    key = case.observations[0].sensor.key
    gone = departed.get(key) if is_shared_raise(case) else None
    if not gone:
        return case
    names = ", ".join(repr(client_id) for client_id in sorted(gone)[:3])
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    since = f"Without client-ids that have values of their own since ({names}{more})"
    if key not in left:
        return replace(case, proposal=Proposal(KEEP, f"{since}, nothing is left in the bucket."))
    seen = tuple(over_days(left[key], rules.settings))
    again = with_proposal(replace(case, observations=seen), rules)
    reason = f"{since}: {again.proposal.reason}"
    if again.proposal.kind == LOWER:
        # How much more they would have sent, nobody knows.
        reason += " Not lowered: those that are left were held back together with them."
        return replace(again, proposal=Proposal(KEEP, reason))
    return replace(again, proposal=replace(again.proposal, reason=reason))
