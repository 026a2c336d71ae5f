"""Replaying a day with another value: what throttling it would have led to.

Arrivals stay as logged. A client that is throttled less sends sooner, and one that is throttled
more sends later, so a forecast after a raise is "at least" and after a cut "at most". Attempts that
only repeat a refused one disappear as soon as the proposal lets an earlier attempt through. Every
sensor starts empty, because the amounts of the day before are not in the day's decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.kernels import RateReplay, replay_rate
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD, decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_max
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.recommend.weigh.traffic import Amounts, SensorTraffic

# What current brokers follow: for a broker whose profile nobody knows.
NEWEST_PROFILE = RateProfile.RATE_3_8


@dataclass(frozen=True, slots=True)
class BrokerRule:
    """How one broker keeps its rates and its token buckets (a row of ``brokers``)."""

    profile: RateProfile
    samples: int
    window_ms: int
    controller_samples: int
    controller_window_ms: int
    throttle_max_ms: int | None = None

    def window_of(self, quota_type: str) -> tuple[int, int]:
        """Return (samples, milliseconds of one) of a quota type's sensors."""
        if quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
            return self.controller_samples, self.controller_window_ms
        return self.samples, self.window_ms


def broker_rules(brokers: pa.Table) -> dict[int, BrokerRule]:
    """Return the rule of every broker of the ``brokers`` table."""
    return {
        row["broker_id"]: BrokerRule(
            profile=RateProfile(row["rate_profile"] or NEWEST_PROFILE),
            samples=row["samples"],
            window_ms=row["window_ms"],
            controller_samples=row["controller_samples"],
            controller_window_ms=row["controller_window_ms"],
            throttle_max_ms=row["throttle_max_ms"],
        )
        for row in brokers.to_pylist()
    }


def throttle_with(
    traffic: SensorTraffic, bound: float, rules: Mapping[int, BrokerRule]
) -> np.ndarray:
    """Return the throttle of each amount (ms) had ``bound`` held wherever any value did.

    An attempt that would not have been made has 0. Raises KeyError for a broker without a rule.
    """
    amounts = traffic.amounts
    bounds = np.where(np.isnan(amounts.bound), np.nan, bound)
    if traffic.quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
        replay_one = _replay_mutations
    elif traffic.quota_type == QuotaType.CONSUMER_BYTE_RATE:
        throttle_ms = _as_if_all_were_delivered(traffic, bounds, rules)
        if not throttle_ms.any():
            return throttle_ms
        replay_one = _replay_fetches
    else:
        return _replay(amounts, bounds, traffic.quota_type, rules)
    throttle_ms = np.zeros(len(amounts), np.int64)
    starts, _ = _runs(amounts)
    for start, end in zip(starts, [*starts[1:], len(amounts)], strict=True):
        rows = slice(start, end)
        rule = rules[int(amounts.broker_id[start])]
        throttle_ms[rows] = replay_one(amounts.take(rows), bounds[rows], rule)
    return throttle_ms


def _runs(amounts: Amounts) -> tuple[list[int], np.ndarray]:
    """Return the first row of each run, and each row's run; a run is one (broker, epoch)."""
    changed = np.ones(len(amounts), bool)
    for key in (amounts.broker_id, amounts.sensor_epoch):
        changed[1:] &= key[1:] == key[:-1]
    changed[1:] = ~changed[1:]
    return np.flatnonzero(changed).tolist(), np.cumsum(changed) - 1


def _replay(
    amounts: Amounts, bounds: np.ndarray, quota_type: str, rules: Mapping[int, BrokerRule]
) -> np.ndarray:
    """Return the throttles of amounts that stay recorded."""
    result = _recorded(amounts, bounds, quota_type, rules)
    return np.where(np.isnan(bounds), 0, result.throttle_time_ms)


def windowed_rates(traffic: SensorTraffic, rules: Mapping[int, BrokerRule]) -> np.ndarray:
    """Return the rate after each amount, had its sensor recorded nothing else.

    NaN where the broker took the amount back, and for mutations, which have none. Raises KeyError
    for a broker without a rule.
    """
    amounts = traffic.amounts
    rates = np.full(len(amounts), np.nan)
    served = np.flatnonzero(amounts.is_served)
    if traffic.quota_type == QuotaType.CONTROLLER_MUTATION_RATE or not len(served):
        return rates
    unbounded = np.full(len(served), np.nan)
    rates[served] = _recorded(amounts.take(served), unbounded, traffic.quota_type, rules).rate
    return rates


def _recorded(
    amounts: Amounts, bounds: np.ndarray, quota_type: str, rules: Mapping[int, BrokerRule]
) -> RateReplay:
    """Return the kernel's rates and throttles of amounts that stay recorded."""
    starts, run = _runs(amounts)
    own = [rules[broker] for broker in amounts.broker_id[starts].tolist()]
    windows = [rule.window_of(quota_type) for rule in own]
    states = SensorStates.allocate(
        [rule.profile for rule in own], [s for s, _ in windows], [w for _, w in windows]
    )
    n = len(amounts)
    is_request = quota_type == QuotaType.REQUEST_PERCENTAGE
    longest_ms = np.array([throttle_max(rule.throttle_max_ms) for rule in own], np.int64)
    return replay_rate(
        run,
        amounts.recorded_at_ms,
        np.nan_to_num(amounts.amount, nan=0.0),
        bounds,
        np.full(n, RECORD, np.int8),
        np.zeros(n, np.int64),
        # The request quota is capped at one window (ClientRequestQuotaManager.throttleTime).
        (states.window_ms if is_request else longest_ms)[run],
        *states.rate_arrays(),
    )


def _as_if_all_were_delivered(
    traffic: SensorTraffic, bounds: np.ndarray, rules: Mapping[int, BrokerRule]
) -> np.ndarray:
    """Return the throttles of fetches whose first attempts all go through.

    Exact where none comes out throttled; else only a sign that the slow replay is needed.
    """
    first = first_attempts(traffic.amounts)
    throttle_ms = np.zeros(len(traffic.amounts), np.int64)
    throttle_ms[first] = _replay(
        traffic.amounts.take(first), bounds[first], traffic.quota_type, rules
    )
    return throttle_ms


def first_attempts(amounts: Amounts) -> np.ndarray:
    """Return the row of the first attempt at each thing asked for, in order."""
    return np.sort(np.unique(amounts.ask, return_index=True)[1])


def _replay_fetches(amounts: Amounts, bounds: np.ndarray, rule: BrokerRule) -> np.ndarray:
    """Return the throttles of one broker's fetches; a throttled one is taken back and tried again.

    The compiled kernel takes back what the *log* took back; here the proposal decides.
    """
    rate = Rate(rule.profile, rule.samples, rule.window_ms)
    throttle_ms = np.zeros(len(amounts), np.int64)
    delivered: set[int] = set()
    rows = zip(
        amounts.recorded_at_ms.tolist(),
        np.nan_to_num(amounts.amount, nan=0.0).tolist(),
        bounds.tolist(),
        amounts.ask.tolist(),
        strict=True,
    )
    for row, (at_ms, amount, bound, ask) in enumerate(rows):
        if ask in delivered:
            continue
        found = decide(rate, amount, bound, at_ms, throttle_max_ms=rule.throttle_max_ms)
        throttle_ms[row] = found.throttle_time_ms
        if throttle_ms[row] > 0:
            rate.record(-amount, at_ms)
        else:
            delivered.add(ask)
    return throttle_ms


def _replay_mutations(amounts: Amounts, bounds: np.ndarray, rule: BrokerRule) -> np.ndarray:
    """Return the throttles of one controller's mutations; a refused one spends nothing."""
    quota = ControllerMutationQuota(TokenBucket(rule.controller_samples, rule.controller_window_ms))
    throttle_ms = np.zeros(len(amounts), np.int64)
    admitted: set[int] = set()
    rows = zip(
        amounts.recorded_at_ms.tolist(),
        amounts.amount.tolist(),
        bounds.tolist(),
        amounts.is_strict.tolist(),
        amounts.ask.tolist(),
        strict=True,
    )
    for row, (at_ms, amount, bound, is_strict, ask) in enumerate(rows):
        if ask in admitted:
            continue
        decision = quota.decide(amount, bound, at_ms, is_strict=is_strict)
        throttle_ms[row] = decision.throttle_time_ms
        if decision.is_admitted:
            admitted.add(ask)
    return throttle_ms
