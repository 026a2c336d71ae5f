"""Throttled fetches among a stream's fixed rows: what they can have tried to read."""

from __future__ import annotations

import numpy as np

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.fixed_times import Fixed
from spark_jobs.replay.rates.history import Stretch
from spark_jobs.replay.rates.other_histories import explained_otherwise
from spark_jobs.replay.rates.other_times import replayed_rates
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.sensors.amounts import is_any_of
from spark_jobs.replay.verdicts.fetch_attempt import (
    GENEROUS_BATCH_MAX_BYTES,
    Attempt,
    FetchAttempts,
    FetchLimits,
    FetchRows,
    judge_fetch_attempts,
)

# A throttled fetch whose client has a request quota as well may be throttled by that.
_ANY_THROTTLE_MS = np.iinfo(np.int64).max


def throttled_fetch_attempts(
    rows: StreamRows,
    group: np.ndarray,
    recorded_at_ms: np.ndarray,
    amount: np.ndarray,
    is_throttled: np.ndarray,
    replayed_ms: np.ndarray,
    states: StreamStates,
) -> FetchAttempts:
    """Return each row's attempt, amount and answer; NOT_THROTTLED where it is no throttled fetch.

    ``amount`` is what the throttle gives back with the replayed state, ``replayed_ms`` the throttle
    that this state asks for. Tries are followed within a group, which is of one sensor: one of
    which only a part is there is accused of less, never of more.
    """
    n = len(rows)
    found = FetchAttempts(
        np.full(n, Attempt.NOT_THROTTLED, np.int8), amount.copy(), np.full(n, np.nan)
    )
    if not is_throttled.any():
        return found
    places = np.flatnonzero(np.isin(group, np.unique(group[is_throttled])))
    own, sensor = rows.take(places), np.unique(group[places], return_inverse=True)[1]
    samples, window_ms = states.rules.of_type(states.quota_type)
    profile = states.rules.profile
    limits = FetchLimits(
        # The overlapping sample is 3.8's, window_ms >= 1 that of 3.3: both cut (2.5+).
        cuts_to_quota=not profile.allows_zero_window,
        samples=samples,
        keeps_overlapping=profile.keeps_overlapping_sample,
        batch_max_bytes=GENEROUS_BATCH_MAX_BYTES,
    )
    n = len(own)
    fetches = FetchRows(
        sensor=sensor,
        position=_positions(own, sensor, is_throttled[places]),
        recorded_at_ms=recorded_at_ms[places],
        interval_ms=own.latest_ms - own.earliest_ms,
        line_lag_max_ms=own.line_lag_max_ms,
        amount=np.nan_to_num(amount[places]),
        is_unrecorded=is_throttled[places],
        has_records=own.has_records,
        has_errors=own.has_errors,
        bound=own.bound,
        fetch_max_bytes=own.fetch_max_bytes,
        span_ms=np.full(n, samples * window_ms),
        logged_ms=own.logged_ms,
        request_throttle_max_ms=np.where(own.has_request_bound, _ANY_THROTTLE_MS, 0),
        is_let_through=(own.logged_ms == 0) & (replayed_ms[places] > PROVES_MS),
    )
    judged = judge_fetch_attempts(fetches, limits)
    found.attempt[places], found.amount[places] = judged.attempt, judged.amount
    found.answered[places] = judged.answered
    return found


def fetches_explained_otherwise(
    accused: np.ndarray,
    rows: StreamRows,
    fixed: Fixed,
    amount: np.ndarray,
    attempts: FetchAttempts,
    begun: SensorStates,
    window: Window,
) -> np.ndarray:
    """Return a bool per row: True where another history explains an accused fetch.

    ``rows`` are one sensor's, ``fixed`` their times and groups, ``amount`` what each recorded with
    the replayed state; ``begun`` is the sensor's state before them. Groups without a try are left:
    where they end depends on what was read at once.
    """
    is_explained = np.zeros(len(rows), bool)
    is_try = attempts.attempt != Attempt.NOT_THROTTLED
    at_ms, logged_ms = fixed.recorded_at_ms, rows.logged_ms
    is_accused = np.zeros(len(rows), bool)
    is_accused[accused] = True
    most = np.where(is_accused | np.isnan(attempts.answered), attempts.amount, attempts.answered)
    most = np.where(is_try, np.maximum(np.nan_to_num(most), 0.0), amount)
    with np.errstate(invalid="ignore", divide="ignore"):
        open_ms = np.where(is_try & ~is_accused, most / rows.bound * 1000.0, 0.0)
    is_exact = ~rows.has_request_bound & (~is_try | is_accused | ~np.isnan(attempts.answered))
    stretch = Stretch(
        at_ms=at_ms,
        earliest_ms=rows.earliest_ms,
        latest_ms=rows.latest_ms,
        line_lag_max_ms=rows.line_lag_max_ms,
        amount=most,
        bound=rows.bound,
        logged_ms=logged_ms,
        is_exact=is_exact,
        connection=rows.connections(),
        is_unrecorded=is_try,
        may_be_less_ms=open_ms,
        may_precede=rows.may_precede,
        is_elsewhere=np.zeros(len(rows), bool),
    )
    reach_ms = window.expire_age_ms + 2 * window.window_ms
    for group in np.unique(fixed.group[accused]).tolist():
        of_group = np.flatnonzero(fixed.group == group)
        first, stop = int(of_group[0]), int(of_group[-1]) + 1
        if not is_try[first:stop].any():
            continue
        states = begun.take(np.array([0]))
        before = slice(0, first)
        replayed_rates(
            at_ms[before],
            amount[before],
            rows.bound[before],
            logged_ms[before],
            states,
            is_unrecorded=is_try[before],
        )
        own = accused[(accused >= first) & (accused < stop)] - first
        part = stretch.part(first, stop)
        is_explained[first:stop] = explained_otherwise(own, part, states, window).is_explained
        if states.count[0]:
            # What they are held against was recorded before the group, and may have been sooner.
            is_near = part.at_ms[own] - part.at_ms[0] < reach_ms
            is_explained[first + own[is_near]] = True
    return is_explained


def throttle_of_other_amount(
    logged_ms: np.ndarray, amount: np.ndarray, other: np.ndarray, bound: np.ndarray
) -> np.ndarray:
    """Return the throttle of ``other`` where ``amount`` was throttled by ``logged_ms``.

    In one state, a throttle grows by the amount over the bound (``QuotaUtils.boundedThrottleTime``
    with the window's length cancelled out).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        more_ms = np.nan_to_num((other - amount) / bound * 1000.0)
    return np.asarray(np.maximum(logged_ms + np.rint(more_ms).astype(np.int64), 0))


def _positions(rows: StreamRows, sensor: np.ndarray, is_throttled: np.ndarray) -> np.ndarray:
    """Return a number that changes where a client may have begun to read from elsewhere.

    Within a fetch session a client names only the partitions whose position it changed, so after
    an answer without data its next request names none, and is short (KIP-227). A longer one after
    a throttled try was made by a seek, a pause or another assignment. A share fetch that is
    throttled has acquired its records for good: the next one reads others (KIP-932). A client that
    was counted on another sensor meanwhile has read on there.
    """
    is_shared = is_any_of(rows.own_lines()["api_name"], ("SHARE_FETCH",))
    connection = rows.connections()
    key = sensor * (int(connection.max()) + 1) + connection
    order = np.lexsort((np.arange(len(key)), key))
    is_first = np.ones(len(key), bool)
    is_first[1:] = (np.diff(key[order]) != 0) | (np.diff(rows.joined_ms[order]) != 0)
    moved = is_first.copy()
    in_order, tried = rows.request_bytes[order], is_throttled[order]
    moved[1:] |= tried[:-1] & (~(in_order[1:] <= in_order[:-1]) | is_shared[order][1:])
    position = np.empty(len(key), np.int64)
    position[order] = np.cumsum(moved)
    return position
