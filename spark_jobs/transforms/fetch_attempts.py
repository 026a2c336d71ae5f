"""Throttled fetches of one batch: what they can have tried to read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.judge.fetch_attempt import (
    GENEROUS_BATCH_MAX_BYTES,
    Attempt,
    FetchAttempts,
    FetchLimits,
    FetchRows,
    judge_fetch_attempts,
)
from spark_jobs.quota.states import SensorStates
from spark_jobs.transforms.amounts import bools, floats

# A throttled fetch whose client has a request quota as well may be throttled by that.
_ANY_THROTTLE_MS = np.iinfo(np.int64).max


def fetch_attempts(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, amount: np.ndarray
) -> FetchAttempts:
    """Return what can be said of each row of ``part``; NOT_THROTTLED where it is no such fetch.

    ``amount`` is what the throttle gives back with the replayed state. Tries are followed within
    the batch: one of which only a part is there is accused of less, never of more.
    """
    found = FetchAttempts(np.full(len(part), Attempt.NOT_THROTTLED, np.int8), amount.copy())
    is_fetch = pc.equal(part["quota_type"], "consumer_byte_rate").to_numpy(zero_copy_only=False)
    is_throttled = is_fetch & (part["logged_throttle_time_ms"].to_numpy() > 0)
    # The overlapping-sample profile is that of 3.8, window_ms >= 1 that of 3.3: both cut (2.5+).
    kinds = np.stack(
        [states.samples, states.allows_zero_window == 0, states.keeps_overlapping != 0]
    )
    for kind in np.unique(kinds[:, np.unique(sensor[is_throttled])], axis=1).T:
        of_kind = (kinds == kind[:, None]).all(axis=0)
        rows = np.flatnonzero(is_fetch & of_kind[sensor])
        samples, cuts, keeps = kind.tolist()
        limits = FetchLimits(
            cuts_to_quota=bool(cuts),
            samples=samples,
            keeps_overlapping=bool(keeps),
            batch_max_bytes=GENEROUS_BATCH_MAX_BYTES,
        )
        fetches = _fetch_rows(part.take(pa.array(rows)), sensor[rows], states, amount[rows])
        judged = judge_fetch_attempts(fetches, limits)
        found.attempt[rows], found.amount[rows] = judged
    return found


def _fetch_rows(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, amount: np.ndarray
) -> FetchRows:
    is_throttled = part["logged_throttle_time_ms"].to_numpy() > 0
    return FetchRows(
        sensor=sensor,
        position=_positions(part, sensor, is_throttled),
        recorded_at_ms=part["recorded_at_ms"].to_numpy(),
        interval_ms=part["latest_ms"].to_numpy() - part["earliest_ms"].to_numpy(),
        amount=np.nan_to_num(amount),
        is_unrecorded=is_throttled,
        has_records=bools(pc.fill_null(part["has_records"], False)),
        has_errors=bools(pc.fill_null(part["has_errors"], False)),
        bound=part["bound"].to_numpy(),
        fetch_max_bytes=floats(part["fetch_max_bytes"]),
        span_ms=states.samples[sensor] * states.window_ms[sensor],
        logged_ms=part["logged_throttle_time_ms"].to_numpy().astype(np.int64),
        request_throttle_max_ms=np.where(bools(part["has_request_bound"]), _ANY_THROTTLE_MS, 0),
    )


def _positions(part: pa.RecordBatch, sensor: np.ndarray, is_throttled: np.ndarray) -> np.ndarray:
    """Return a number that changes where a client may have begun to read from elsewhere.

    Within a fetch session a client names only the partitions whose position it changed, so after
    an answer without data its next request names none, and is short (KIP-227). A longer one after
    a throttled try was made by a seek, a pause or another assignment.
    """
    connections = part["connection"].dictionary_encode()
    key = sensor * len(connections.dictionary) + connections.indices.to_numpy()
    size = floats(part["request_bytes"])
    order = np.lexsort((np.arange(len(key)), key))
    is_first = np.ones(len(key), bool)
    is_first[1:] = np.diff(key[order]) != 0
    moved = is_first.copy()
    in_order, tried = size[order], is_throttled[order]
    moved[1:] |= tried[:-1] & ~(in_order[1:] <= in_order[:-1])
    position = np.empty(len(key), np.int64)
    position[order] = np.cumsum(moved)
    return position
