"""Values of many client-ids of a user that one value of the user would do for.

In two steps, so that each change is safe by itself: first the user gets a value, which bounds
nobody as long as every client-id has its own; once it is there, the single values go, one by one or
together. Only where nothing speaks against it: nobody was throttled on any day at hand, everyone
the user runs is one of them, and all together would not come near the one value.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from spark_jobs.apply.changes.wording import amount
from spark_jobs.recommend.configured_values import UNLIMITED, ConfiguredValues
from spark_jobs.recommend.days import SeenDay
from spark_jobs.recommend.entities import Case, refusal
from spark_jobs.recommend.merged_bucket import Together, moves_nobody_else, together_on
from spark_jobs.recommend.proposal import KEEP, LOWER, PROPOSED, WITHHELD
from spark_jobs.recommend.quota_entity import QuotaEntity
from spark_jobs.recommend.shared_bucket import SHARED_TYPES
from spark_jobs.recommend.split import Rules
from spark_jobs.warehouse.tables import DEFAULT

MERGE = "merge"
Row = dict[str, Any]
_NAMED = ("quota_type", "quota_user", "quota_client_id")


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
    by_entity = {tuple(row[name] for name in _NAMED): row for row in rows}
    settings = rules.settings
    if not settings.merge or settings.raise_only:
        return list(rows)
    for (quota_type, user), singles in sorted(_singles(cases).items()):
        merge = _merge(quota_type, user, singles, days, decisions, values, rules)
        if merge is None or any(
            _row_of(case, by_entity)["confidence"] == "low" for case in singles
        ):
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
    """Return whether a value has been seen long enough, throttled nobody and has a say of its own.

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
        and refusal(case, rules.faults, settings) is None
        and max(seen.days for seen in case.observations) >= settings.lower_min_days
        and case.hottest.hottest.demand.rate * settings.headroom <= value
    )


def _row_of(case: Case, rows: Mapping[tuple[Any, ...], Row]) -> Row:
    return rows[case.quota]


def _has_room(
    merge: Merge,
    rows: Mapping[tuple[Any, ...], Row],
    values: ConfiguredValues,
    rules: Rules,
) -> bool:
    """Return whether the user's value fits beside all others, also those that are proposed."""
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
    users = _row(merge, None, reason, days) | {
        "proposed": merge.value,
        "lower": merge.together.peak_rate,
        "upper": merge.value,
        "confidence": _confidence(merge, rows),
    }
    found: dict[tuple[Any, ...], Row] = {(merge.quota_type, merge.user, None): users}
    for case in merge.cases:
        row = _row_of(case, rows)
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
        row = _row(merge, client_id, reason, days)
        row |= {"current": case.current, "previous": case.previous}
        found[merge.quota_type, merge.user, client_id] = row | {
            "confidence": _confidence(merge, rows)
        }
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


def _confidence(merge: Merge, rows: Mapping[tuple[Any, ...], Row]) -> str:
    own = {_row_of(case, rows)["confidence"] for case in merge.cases}
    return "high" if own == {"high"} else "medium"


def _seen(merge: Merge, days: Sequence[SeenDay]) -> str:
    count = "the day" if len(days) == 1 else f"{len(days)} days"
    peak = amount(merge.together.peak_rate, merge.quota_type)
    return (
        f"User {merge.user!r} has values for {len(merge.cases)} client-ids, none of them throttled "
        f"on {count} at hand. Together in one bucket they reach {peak} at most, on broker "
        f"{merge.together.hottest_broker_id}, which fits into one value of "
        f"{amount(merge.value, merge.quota_type)} for all."
    )


def _row(merge: Merge, client_id: str | None, reason: str, days: Sequence[SeenDay]) -> Row:
    together = merge.together
    evidence = {
        "merged": [
            {"client_id": case.entity.client_id, "value": case.current} for case in merge.cases
        ],
        "peak_rate_together": together.peak_rate,
        "requests": together.requests,
        "throttled_requests_after": 0,
        "days_at_hand": len(days),
    }
    return {
        "quota_type": merge.quota_type,
        "quota_user": merge.user,
        "quota_client_id": client_id,
        "status": PROPOSED,
        "kind": MERGE,
        "current": None,
        "previous": None,
        "proposed": None,
        "lower": None,
        "upper": None,
        "reason": reason,
        "confidence": "medium",
        "clamped_by": None,
        "hottest_broker_id": together.hottest_broker_id,
        "throttle_time_ms_before": 0,
        "throttle_time_ms_after": together.throttle_time_ms,
        "days_seen": max(seen.days for case in merge.cases for seen in case.observations),
        "backtest_trials": 0,
        "backtest_kept": 0,
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }
