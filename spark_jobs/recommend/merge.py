"""Values of many client-ids of a user that one value of the user would do for.

In two steps, so that each change is safe by itself: first the user gets a value, which bounds
nobody as long as every client-id has its own; once it is there, the single values go, one by one or
together. Only where nothing speaks against it: nobody was throttled on any day at hand, everyone
the user runs is one of them, and all together would not come near the one value.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.recommend.read_traffic import SHARED_TYPES, grouped, traffic_of
from spark_jobs.recommend.weigh.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.weigh.configured_values import UNLIMITED, ConfiguredValues, QuotaEntity
from spark_jobs.recommend.weigh.observation import seen_alone
from spark_jobs.recommend.weigh.outlook import SeenDay
from spark_jobs.recommend.weigh.proposal import KEEP, LOWER, WITHHELD, Case, Rules
from spark_jobs.recommend.weigh.rows import BLANK_ROW, Row
from spark_jobs.recommend.weigh.traffic import Amounts, SensorId, SensorTraffic
from spark_jobs.recommend.weigh.withheld import refusal

MERGE = "merge"
UserKey = tuple[str, str]
"""Quota type and user."""


@dataclass(frozen=True, slots=True)
class Together:
    """What one bucket for all of a user's client-ids would have shown on the days at hand.

    ``throttle_time_ms`` is the most of: all of them in it, and each single one beside those that
    are in it already.
    """

    peak_rate: float
    hottest_broker_id: int
    requests: int
    throttle_time_ms: int


@dataclass(frozen=True, slots=True)
class Merge:
    """A user's single values, the value for all of them, and all of them in one bucket."""

    quota_type: str
    user: str
    cases: tuple[Case, ...]
    value: float
    is_set: bool
    together: Together


def with_merges(
    rows: Sequence[Row],
    cases: Sequence[Case],
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    values: ConfiguredValues,
    rules: Rules,
) -> list[Row]:
    """Return the rows of ``recommendations`` with those that merges add or put in their place.

    ``decisions`` are those of ``days``; ``values`` hold at the end of the last one.
    """
    by_entity = {tuple(row[name] for name in ENTITY_COLUMNS): row for row in rows}
    settings = rules.settings
    if not settings.merge or settings.raise_only:
        return list(rows)
    for (quota_type, user), singles in sorted(_singles(cases).items()):
        merge = _merge(quota_type, user, singles, days, decisions, values, rules)
        if merge is None or any(by_entity[case.quota]["confidence"] == "low" for case in singles):
            continue
        if merge.is_set:
            by_entity |= _removals(merge, by_entity, days)
        elif _has_room(merge, by_entity, values, rules):
            by_entity |= _users_value(merge, by_entity, days)
    return list(by_entity.values())


def _singles(cases: Sequence[Case]) -> dict[tuple[str, str], list[Case]]:
    found: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        user, client_id = case.entity.user, case.entity.client_id
        if user is None or client_id is None or case.entity.is_default or case.previous is None:
            continue
        if case.quota_type in SHARED_TYPES:
            found[case.quota_type, user].append(case)
    return found


def _merge(
    quota_type: str,
    user: str,
    singles: Sequence[Case],
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    values: ConfiguredValues,
    rules: Rules,
) -> Merge | None:
    settings = rules.settings
    own = values.own(quota_type, QuotaEntity(user, None))
    value = own.bound if own is not None else max(case.current for case in singles)
    is_possible = (
        len(singles) >= settings.merge_min_values
        and (own is None or own.is_dynamic)
        and 0.0 < value < UNLIMITED
        # Kafka would look there before it looks for the user's value.
        and values.own(quota_type, QuotaEntity(user, DEFAULT)) is None
        and all(_is_calm(case, value, days, rules) for case in singles)
    )
    if not is_possible:
        return None
    client_ids = frozenset(case.entity.client_id or "" for case in singles)
    moves = moves_nobody_else((quota_type, user), client_ids, decisions, is_set=own is not None)
    if not moves:
        return None
    together = together_on((quota_type, user), client_ids, value, days, decisions, rules.brokers)
    if together.throttle_time_ms or together.peak_rate * settings.headroom > value:
        return None
    return Merge(quota_type, user, tuple(singles), value, own is not None, together)


def _is_calm(case: Case, value: float, days: Sequence[SeenDay], rules: Rules) -> bool:
    """Return True if a value was seen long enough, throttled nobody and may be changed.

    What one of them asks for, all together do as well: it says early that they do not fit.
    """
    settings = rules.settings
    keys = {seen.sensor.key for seen in case.observations}
    throttled = sum(
        seen.throttle_time_ms
        for day in days
        for key, seen in day.observations.items()
        if key in keys
    )
    is_known = case.proposal.status in (KEEP, PROPOSED, WITHHELD)
    return (
        is_known
        and case.proposal.kind in (None, LOWER)
        and not throttled
        and 0.0 < case.current < UNLIMITED
        and refusal(case, rules) is None
        and case.days >= settings.lower_min_days
        and case.demand.rate * settings.headroom <= value
    )


def _has_room(
    merge: Merge,
    rows: Mapping[tuple[Any, ...], Row],
    values: ConfiguredValues,
    rules: Rules,
) -> bool:
    """Return True if the user's value fits beside all others, also those that are proposed."""
    capacity = rules.settings.broker_capacity.get(merge.quota_type)
    if capacity is None:
        return True
    named = {
        (entity.user, entity.client_id): value
        for (quota_type, entity), value in values.explicit().items()
        if quota_type == merge.quota_type and not entity.is_default and value < UNLIMITED
    }
    for (quota_type, user, client_id), row in rows.items():
        if quota_type == merge.quota_type and row["proposed"] and DEFAULT not in (user, client_id):
            entity = (user, client_id)
            named[entity] = max(named.get(entity, 0.0), row["proposed"])
    return sum(named.values()) + merge.value <= capacity


def _users_value(
    merge: Merge, rows: Mapping[tuple[Any, ...], Row], days: Sequence[SeenDay]
) -> dict[tuple[Any, ...], Row]:
    reason = (
        f"{_seen(merge, days)} It bounds nobody as long as each has its own; once it is set, the "
        "single values are proposed to be removed."
    )
    users = _row(merge, None, reason, days, rows) | {
        "proposed": merge.value,
        "lower": merge.together.peak_rate,
        "upper": merge.value,
    }
    found: dict[tuple[Any, ...], Row] = {(merge.quota_type, merge.user, None): users}
    for case in merge.cases:
        row = rows[case.quota]
        if row["kind"] == LOWER:
            reason = f"{row['reason']} Not lowered: it is to go into one value of the user (merge)."
            found[merge.quota_type, merge.user, case.entity.client_id] = _kept(row, reason)
    return found


def _removals(
    merge: Merge, rows: Mapping[tuple[Any, ...], Row], days: Sequence[SeenDay]
) -> dict[tuple[Any, ...], Row]:
    reason = f"{_seen(merge, days)} The user's value holds them all: this one is not needed."
    found: dict[tuple[Any, ...], Row] = {}
    for case in merge.cases:
        client_id = case.entity.client_id
        row = _row(merge, client_id, reason, days, rows)
        row |= {"current": case.current, "previous": case.previous}
        found[merge.quota_type, merge.user, client_id] = row
    users = rows.get((merge.quota_type, merge.user, None))
    if users is not None:
        kept = (
            f"Kept: it is to hold {len(merge.cases)} client-ids whose own values are proposed to "
            "be removed (merge)."
        )
        found[merge.quota_type, merge.user, None] = _kept(users, kept)
    return found


def _kept(row: Row, reason: str) -> Row:
    nothing = dict.fromkeys(("kind", "proposed", "clamped_by", "throttle_time_ms_after"))
    return row | nothing | {"status": KEEP, "reason": reason}


def _seen(merge: Merge, days: Sequence[SeenDay]) -> str:
    count = "the day" if len(days) == 1 else f"{len(days)} days"
    peak = amount(merge.together.peak_rate, merge.quota_type)
    return (
        f"User {merge.user!r} has values for {len(merge.cases)} client-ids, none of them throttled "
        f"on {count} at hand. Together in one bucket they reach {peak} at most, on broker "
        f"{merge.together.hottest_broker_id}, which fits into one value of "
        f"{amount(merge.value, merge.quota_type)} for all."
    )


def _row(
    merge: Merge,
    client_id: str | None,
    reason: str,
    days: Sequence[SeenDay],
    rows: Mapping[tuple[Any, ...], Row],
) -> Row:
    together = merge.together
    is_high = all(rows[case.quota]["confidence"] == "high" for case in merge.cases)
    evidence = {
        "merged": [
            {"client_id": case.entity.client_id, "value": case.current} for case in merge.cases
        ],
        "peak_rate_together": together.peak_rate,
        "requests": together.requests,
        "throttled_requests_after": 0,
        "days_at_hand": len(days),
    }
    return BLANK_ROW | {
        "quota_type": merge.quota_type,
        "quota_user": merge.user,
        "quota_client_id": client_id,
        "status": PROPOSED,
        "kind": MERGE,
        "reason": reason,
        "confidence": "high" if is_high else "medium",
        "hottest_broker_id": together.hottest_broker_id,
        "throttle_time_ms_after": together.throttle_time_ms,
        "days_seen": max(case.days for case in merge.cases),
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }


def moves_nobody_else(
    user: UserKey,
    client_ids: Collection[str],
    decisions: Sequence[ds.Dataset],
    *,
    is_set: bool,
) -> bool:
    """Return True if a user's value concerns ``client_ids`` only, and who is in its bucket now.

    Whoever else the user runs follows another bucket, or none, and would be moved. ``is_set`` says
    whether the user has a value now: else nobody is in its bucket. Reads batch by batch.
    """
    seen: set[str] = set()
    keys, also_read = ("client_id", "quota_level"), ("quota_type", "user")
    is_users = (pc.field("quota_type") == user[0]) & (pc.field("user") == user[1])
    for data in decisions:
        for row in grouped(data, keys, where=is_users, also_read=also_read):
            client_id = row["client_id"] or ""
            seen.add(client_id)
            is_in_it = is_set and row["quota_level"] == "user"
            if client_id not in client_ids and not is_in_it:
                return False
    return seen.issuperset(client_ids)


def together_on(
    user: UserKey,
    client_ids: Collection[str],
    value: float,
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    rules: Mapping[int, BrokerRule],
) -> Together:
    """Return the figures of all of a user's traffic under one ``value``; one day is held."""
    own = {(*user, client_id) for client_id in client_ids}
    bucket = (*user, "")
    peak, hottest, requests, throttle_ms = 0.0, -1, 0, 0
    for day, data in zip(days, decisions, strict=True):
        keys = sorted(key for key in own | {bucket} if key in day.observations)
        traffic = {t.key: t for t in traffic_of(data, [day.observations[k].sensor for k in keys])}
        if not traffic:
            continue
        everyone = merged(bucket, list(traffic.values()), value)
        load = seen_alone(bucket, value, everyone, rules).hottest
        if load.demand.rate >= peak:
            peak, hottest = load.demand.rate, load.broker_id
        requests += len(everyone.amounts)
        joined = [
            merged(bucket, [t for k, t in traffic.items() if k in (key, bucket)], value)
            for key in traffic
        ]
        throttled = (int(throttle_with(t, value, rules).sum()) for t in (everyone, *joined))
        throttle_ms = max(throttle_ms, *throttled)
    return Together(peak, hottest, requests, throttle_ms)


def merged(key: SensorId, parts: Sequence[SensorTraffic], bound: float) -> SensorTraffic:
    """Return the traffic of several sensors as that of one, in the order of their record times.

    Starts of brokers and idle hours are left out: what the bucket remembers over them makes it
    stricter, if anything. None of its amounts was throttled.
    """
    if not parts:
        raise ValueError("there is nothing to merge")
    asks = np.cumsum([0, *(int(part.amounts.ask.max()) + 1 for part in parts)])[:-1]
    columns = {
        f.name: np.concatenate([getattr(part.amounts, f.name) for part in parts])
        for f in fields(Amounts)
    }
    columns["ask"] = np.concatenate(
        [part.amounts.ask + first for part, first in zip(parts, asks, strict=True)]
    )
    order = np.lexsort((columns["recorded_at_ms"], columns["broker_id"]))
    amounts = Amounts(**columns).take(order)
    n = len(amounts)
    amounts = replace(amounts, sensor_epoch=np.zeros(n, np.int64), bound=np.full(n, bound))
    return SensorTraffic(*key, amounts)
