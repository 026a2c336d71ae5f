"""A broker that enforces one bound and an audit that believes another: histories for tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from spark_jobs.judge.causes.sensor_decisions import SensorDecisions, history_of
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, RateDecision, decide
from spark_jobs.quota.rate_profile import RateProfile

Bound = Callable[[int], float]
"""A bound by time; NaN where none is in force."""

START_MS = 1_794_312_000_000


def constant(bound: float) -> Bound:
    return lambda at_ms: bound


def changing(before: float, at_ms: int, after: float) -> Bound:
    """Return a bound that changes ``at_ms`` after the start."""
    return lambda now_ms: before if now_ms < START_MS + at_ms else after


def history(
    enforced: Bound,
    configured: Bound,
    *,
    seconds: int = 60,
    seed: int = 1,
    amount: float = 10_000.0,
    is_fetch: bool = False,
    broker_profile: RateProfile = RateProfile.RATE_3_8,
    forgets_at_ms: int | None = None,
    apart: int | None = None,
    lost_share: float = 0.0,
) -> SensorDecisions:
    """Return what an audit that believes ``configured`` sees of a broker that goes by ``enforced``.

    Four connections send as soon as they may, so the client is throttled most of the time;
    ``lost_share`` of its requests is not in the log. The broker counts connection ``apart`` on its
    own.
    """
    chance = random.Random(seed)
    broker, audit = Rate(broker_profile), Rate(RateProfile.RATE_3_8)
    alone = Rate(broker_profile)
    free_ms = [START_MS + chance.randrange(400) for _ in range(4)]
    columns: dict[str, list[float]] = {
        name: []
        for name in ("at", "connection", "amount", "rate", "window", "logged", "bound", "asked")
    }
    size = amount
    was_forgotten = forgets_at_ms is None
    waiting: dict[int, float] = {}
    while min(free_ms) < START_MS + seconds * 1000:
        now_ms = min(free_ms)
        connection = free_ms.index(now_ms)
        if not was_forgotten and now_ms >= START_MS + (forgets_at_ms or 0):
            broker, was_forgotten = Rate(broker_profile), True
        # A throttled fetch is asked for again, from the same position.
        size = waiting.pop(connection, amount * chance.uniform(0.5, 1.5))
        bucket = alone if connection == apart else broker
        logged_ms = _recorded(bucket, size, enforced(now_ms), now_ms, is_fetch)
        free_ms[connection] = now_ms + logged_ms + chance.randrange(100, 400)
        if is_fetch and logged_ms:
            waiting[connection] = size
        if chance.random() < lost_share:
            continue
        seen = _seen(audit, size, configured(now_ms), now_ms, logged_ms, is_fetch)
        values = (
            now_ms, connection, seen.amount, seen.rate, seen.window_size_ms, logged_ms,
            configured(now_ms), size,
        )  # fmt: skip
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    logged = np.array(columns["logged"], np.int64)
    return history_of(
        recorded_at_ms=np.array(columns["at"], np.int64),
        connection=np.array(columns["connection"], np.int64),
        amount=columns["amount"],
        is_unrecorded=(logged > 0) & is_fetch,
        answered=np.where((logged > 0) & is_fetch, columns["asked"], np.nan),
        bound=columns["bound"],
        rate=columns["rate"],
        window_size_ms=np.array(columns["window"], np.int64),
        logged_ms=logged,
    )


def _recorded(rate: Rate, amount: float, bound: float, now_ms: int, is_fetch: bool) -> int:
    """Return the throttle of a broker, which un-records a throttled fetch."""
    throttle_ms = decide(rate, amount, bound, now_ms, RECORD).throttle_time_ms
    if is_fetch and throttle_ms:
        rate.record(-amount, now_ms)
    return throttle_ms


def _seen(
    rate: Rate, amount: float, bound: float, now_ms: int, logged_ms: int, is_fetch: bool
) -> RateDecision:
    """Return the replay of a logged request; the size of a throttled fetch is not logged."""
    is_hidden = is_fetch and logged_ms > 0
    return decide(
        rate,
        math.nan if is_hidden else amount,
        bound,
        now_ms,
        RECORD_AND_UNRECORD if is_fetch else RECORD,
        logged_ms,
    )


def with_columns(of: SensorDecisions, **columns: object) -> SensorDecisions:
    return replace(of, **columns)  # type: ignore[arg-type]


def misplaced(of: SensorDecisions, seed: int = 1) -> SensorDecisions:
    """Return the history as where samples began at other times than replayed: rates are off."""
    return with_columns(of, rate=of.rate * np.random.default_rng(seed).uniform(0.8, 1.2, len(of)))


def rows_between(of: SensorDecisions, from_ms: int, until_ms: int) -> Sequence[int]:
    """Return the rows in [from_ms, until_ms) after the start."""
    at_ms = of.recorded_at_ms - START_MS
    return np.flatnonzero((at_ms >= from_ms) & (at_ms < until_ms)).tolist()
