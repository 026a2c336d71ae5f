"""All client-ids of a user in the user's own bucket: who would be in it, and what it would do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.recommend.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.days import SeenDay
from spark_jobs.recommend.grouped import grouped
from spark_jobs.recommend.sensors import traffic_of
from spark_jobs.recommend.shared_bucket import seen_alone
from spark_jobs.recommend.traffic import Amounts, SensorKey, SensorTraffic

UserKey = tuple[str, str]
"""Quota type and user."""

_PLACE = ("client_id", "quota_level")


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


def moves_nobody_else(
    user: UserKey,
    client_ids: Collection[str],
    decisions: Sequence[ds.Dataset],
    *,
    is_set: bool,
) -> bool:
    """Return whether a value of the user concerns ``client_ids`` only, and who is in it already.

    Whoever else the user runs follows another bucket, or none, and would be moved. ``is_set`` says
    whether the user has a value now: else nobody is in its bucket. Reads batch by batch.
    """
    seen: set[str] = set()
    for data in decisions:
        for client_id, level in _places(user, data):
            seen.add(client_id)
            is_in_it = is_set and level == "user"
            if client_id not in client_ids and not is_in_it:
                return False
    return seen.issuperset(client_ids)


def _places(user: UserKey, decisions: ds.Dataset) -> list[tuple[str, str | None]]:
    is_users = (pc.field("quota_type") == user[0]) & (pc.field("user") == user[1])
    rows = grouped(decisions, _PLACE, where=is_users, also_read=["quota_type", "user"])
    return [(row["client_id"] or "", row["quota_level"]) for row in rows]


def together_on(
    user: UserKey,
    client_ids: Collection[str],
    value: float,
    days: Sequence[SeenDay],
    decisions: Sequence[ds.Dataset],
    rules: Mapping[int, BrokerRule],
) -> Together:
    """Return what ``value`` for all of a user's traffic would have led to; one day is held."""
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


def merged(key: SensorKey, parts: Sequence[SensorTraffic], bound: float) -> SensorTraffic:
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
