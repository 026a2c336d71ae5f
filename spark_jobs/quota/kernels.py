"""The replay of many sensors as compiled loops over arrays: bit-equal to the plain-Python rules.

``replay_rate`` does what :func:`spark_jobs.quota.rate_decision.decide` does, row after row, and
``replay_token_bucket`` what ``decide`` of :mod:`spark_jobs.quota.controller_mutation` does.
The order of floating operations is Kafka's: no fast-math, no fused multiply-add.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.bucket_kernel import (
    CHARGES_MISSING,
    OTHER_BUCKET,
    OTHER_SENSOR,
    SAME_BUCKET,
    Bools,
    replay_mutations,
)
from spark_jobs.quota.rate_kernel import replay_amounts
from spark_jobs.quota.states import Floats, Int8s, Int64s
from spark_jobs.quota.throttle_time import NO_THROTTLE_MAX

__all__ = (
    "CHARGES_MISSING",
    "NO_THROTTLE_MAX",
    "OTHER_BUCKET",
    "OTHER_SENSOR",
    "SAME_BUCKET",
    "RateReplay",
    "TokenBucketReplay",
    "replay_rate",
    "replay_token_bucket",
)


class RateReplay(NamedTuple):
    """The columns of :class:`spark_jobs.quota.rate_decision.RateDecision`, one entry per row."""

    amount: Floats
    rate: Floats
    window_size_ms: Int64s
    throttle_time_ms: Int64s
    oldest_value: Floats
    purge_margin_ms: Int64s

    def take(self, rows: npt.NDArray[Any]) -> RateReplay:
        """Return the entries of these rows."""
        return RateReplay(*(column[rows] for column in self))

    def joined(self, other: RateReplay) -> RateReplay:
        """Return the entries of both, one after the other."""
        pairs = zip(self, other, strict=True)
        return RateReplay(*(np.concatenate(pair) for pair in pairs))


class TokenBucketReplay(NamedTuple):
    """The columns of :class:`spark_jobs.quota.controller_mutation.MutationDecision`, per row."""

    tokens_before: Floats
    tokens: Floats
    admitted: Bools
    throttle_time_ms: Int64s
    is_state_known: Bools


def replay_rate(
    sensor: npt.ArrayLike,
    recorded_at_ms: npt.ArrayLike,
    amount: npt.ArrayLike,
    bound: npt.ArrayLike,
    behaviour: npt.ArrayLike,
    logged_throttle_time_ms: npt.ArrayLike,
    throttle_max_ms: npt.ArrayLike,
    keeps_overlapping: Int8s,
    allows_zero_window: Int8s,
    samples: Int64s,
    window_ms: Int64s,
    start_ms: Int64s,
    last_event_ms: Int64s,
    value: Floats,
    count: Int64s,
    index: Int64s,
) -> RateReplay:
    """Return the decisions on n amounts, in their order; the states move on in place.

    ``sensor`` is the row of the states (:meth:`SensorStates.rate_arrays`); the rows of one sensor
    must be in order of recording, and may lie between those of others. ``bound`` is NaN where none
    is in force, ``amount`` NaN where the log does not have it, ``throttle_max_ms`` -1 where there
    is none; ``behaviour`` is RECORD, RECORD_AND_UNRECORD or RECORD_ONLY.
    """
    sensors = _sensor_rows(sensor, len(count))
    n = len(sensors)
    out = RateReplay(
        amount=np.array(amount, np.float64),
        rate=np.empty(n, np.float64),
        window_size_ms=np.empty(n, np.int64),
        throttle_time_ms=np.empty(n, np.int64),
        oldest_value=np.empty(n, np.float64),
        purge_margin_ms=np.empty(n, np.int64),
    )
    assert len(out.amount) == n, (len(out.amount), n)
    replay_amounts(
        sensors,
        _column(recorded_at_ms, np.int64, n),
        _column(bound, np.float64, n),
        _column(behaviour, np.int8, n),
        _column(logged_throttle_time_ms, np.int64, n),
        _column(throttle_max_ms, np.int64, n),
        *(keeps_overlapping, allows_zero_window, samples, window_ms, start_ms, last_event_ms),
        value,
        *(count, index),
        *(out.amount, out.rate),
        *(out.window_size_ms, out.throttle_time_ms),
        *(out.oldest_value, out.purge_margin_ms),
    )
    return out


def replay_token_bucket(
    sensor: npt.ArrayLike,
    recorded_at_ms: npt.ArrayLike,
    amount: npt.ArrayLike,
    bound: npt.ArrayLike,
    strict: npt.ArrayLike,
    logged_admitted: npt.ArrayLike,
    samples: Int64s,
    window_ms: Int64s,
    tokens: Floats,
    tokens_least: Floats,
    last_update_ms: Int64s,
    follow_logged: bool = True,
    doubt_tokens: npt.ArrayLike | None = None,
    bucket_gap: npt.ArrayLike | None = None,
    slack_tokens: npt.ArrayLike | None = None,
    told_tokens: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> TokenBucketReplay:
    """Return the decisions on n mutations, in their order; the states move on in place.

    ``admitted`` is the rule's own answer. With ``follow_logged`` the bucket spends what the broker
    admitted (``logged_admitted``), so that one wrong decision does not spoil all later ones;
    without it, what the rule admits. With ``doubt_tokens`` an admission against a debt larger than
    that spends nothing or, as the bucket's least, all: the line is wrong or late, or the broker
    keeps no such bucket. It is so whatever the bucket holds where ``doubt_tokens`` is -inf.
    ``bucket_gap`` is SAME_BUCKET, CHARGES_MISSING, OTHER_BUCKET or OTHER_SENSOR, without it all are
    the first.
    ``slack_tokens`` is what the record time leaves open of what an unknown state learns.
    ``told_tokens`` are the least and most tokens that the throttle of a refusal tells of, NaN where
    it tells nothing: an unknown state learns them.
    ``amount`` NaN is not in the log, ``bound`` NaN none in force;
    the other arguments are as in ``replay_rate`` and :meth:`SensorStates.bucket_arrays`.
    """
    sensors = _sensor_rows(sensor, len(tokens))
    n = len(sensors)
    out = TokenBucketReplay(
        tokens_before=np.empty(n, np.float64),
        tokens=np.empty(n, np.float64),
        admitted=np.empty(n, np.bool_),
        throttle_time_ms=np.zeros(n, np.int64),
        is_state_known=np.empty(n, np.bool_),
    )
    told_least, told_most = told_tokens or (np.full(n, np.nan), np.full(n, np.nan))
    replay_mutations(
        sensors,
        _column(recorded_at_ms, np.int64, n),
        _column(amount, np.float64, n),
        _column(bound, np.float64, n),
        _column(strict, np.int8, n),
        _column(logged_admitted, np.int8, n),
        *(samples, window_ms, tokens, tokens_least, last_update_ms),
        follow_logged,
        _column(np.full(n, np.inf) if doubt_tokens is None else doubt_tokens, np.float64, n),
        _column(np.zeros(n) if bucket_gap is None else bucket_gap, np.int8, n),
        _column(np.zeros(n) if slack_tokens is None else slack_tokens, np.float64, n),
        _column(told_least, np.float64, n),
        _column(told_most, np.float64, n),
        *out,
    )
    return out


def _sensor_rows(sensor: npt.ArrayLike, n_sensors: int) -> npt.NDArray[Any]:
    rows = _column(sensor, np.int64, np.size(sensor))
    assert not len(rows) or 0 <= rows.min() <= rows.max() < n_sensors, (rows.max(), n_sensors)
    return rows


def _column(values: npt.ArrayLike, kind: npt.DTypeLike, n: int) -> npt.NDArray[Any]:
    """Return ``values`` as the compiled loop takes them: contiguous, of one type, read-only.

    Arrow hands out read-only arrays, numpy writable ones: to numba they are different types, and
    each mixture of them would be compiled anew.
    """
    column = np.ascontiguousarray(values, kind).view()
    column.flags.writeable = False
    assert len(column) == n, (len(column), n)
    return column
