"""One batch through the kernels, and its verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.judge.verdicts import (
    MutationRows,
    RateRows,
    Tolerances,
    Verdicts,
    judge_mutations,
    judge_rates,
)
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate, replay_token_bucket
from spark_jobs.quota.rate_decision import RECORD_AND_UNRECORD
from spark_jobs.quota.states import SensorStates
from spark_jobs.transforms.amounts import bools, floats

# Brokers cut a fetch to what it may read in all but one window, plus the first batch (2.5+).
ATTEMPT_MAX_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the rule says of each row; arrays of the batch's length, NaN or -1 where undefined."""

    amount: np.ndarray
    is_unrecorded: np.ndarray
    rate: np.ndarray
    window_size_ms: np.ndarray
    tokens: np.ndarray
    throttle_time_ms: np.ndarray
    admitted: np.ndarray
    verdicts: Verdicts


def replay_rates(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, tolerances: Tolerances
) -> Replayed:
    """Return the windowed-rate decisions of ``part``; ``states`` moves on."""
    bound = part["bound"].to_numpy()
    amount = floats(part["amount"])
    is_request = pc.equal(part["quota_type"], "request_percentage").to_numpy(zero_copy_only=False)
    logged_ms = part["logged_throttle_time_ms"].to_numpy().astype(np.int64)
    window_ms = states.window_ms[sensor]
    # The request quota is capped at one window (ClientRequestQuotaManager.throttleTime).
    throttle_max_ms = np.where(is_request, window_ms, NO_THROTTLE_MAX)
    amount_known = ~np.isnan(amount)
    is_unrecorded = part["behaviour"].to_numpy() == RECORD_AND_UNRECORD
    result = replay_rate(
        sensor,
        part["recorded_at_ms"].to_numpy(),
        np.where(amount_known | is_unrecorded, amount, 0.0),
        bound,
        part["behaviour"].to_numpy(),
        logged_ms,
        throttle_max_ms,
        *states.rate_arrays(),
    )
    verdicts = judge_rates(
        RateRows(
            bound=bound,
            amount_known=amount_known,
            attempt_plausible=_is_plausible_attempt(result.amount, bound, states, sensor),
            is_unrecorded=is_unrecorded,
            is_request_quota=is_request,
            has_request_bound=bools(part["has_request_bound"]),
            logged_ms=logged_ms,
            replayed_ms=result.throttle_time_ms,
            boundary_amount=result.oldest_value,
            window_ms=window_ms,
            known_for_ms=part["known_for_ms"].to_numpy(),
            change_distance_ms=part["change_distance_ms"].to_numpy(),
            is_proven=bools(part["is_proven"]),
            lost_requests=np.nan_to_num(floats(part["lost_requests"])),
        ),
        tolerances,
    )
    return Replayed(
        amount=np.where(amount_known | is_unrecorded, result.amount, np.nan),
        is_unrecorded=is_unrecorded,
        rate=result.rate,
        window_size_ms=result.window_size_ms,
        tokens=np.full(len(part), np.nan),
        throttle_time_ms=result.throttle_time_ms,
        admitted=np.ones(len(part), bool),
        verdicts=verdicts,
    )


def replay_mutations(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, tolerances: Tolerances
) -> Replayed:
    """Return the token-bucket decisions of ``part``; ``states`` moves on."""
    bound = part["bound"].to_numpy()
    amount = floats(part["amount"])
    logged_admitted = bools(part["logged_admitted"])
    interval_ms = part["latest_ms"].to_numpy() - part["earliest_ms"].to_numpy()
    result = replay_token_bucket(
        sensor,
        part["recorded_at_ms"].to_numpy(),
        amount,
        bound,
        bools(part["is_strict"]).astype(np.int8),
        logged_admitted.astype(np.int8),
        *states.bucket_arrays(),
        doubt_tokens=np.nan_to_num(bound) * (interval_ms + tolerances.throttle_ms) / 1000.0,
    )
    verdicts = judge_mutations(
        MutationRows(
            bound=bound,
            amount_known=~np.isnan(amount),
            is_state_known=result.is_state_known,
            logged_admitted=logged_admitted,
            replayed_admitted=result.admitted,
            tokens_before=result.tokens_before,
            interval_ms=interval_ms,
            known_for_ms=part["known_for_ms"].to_numpy(),
            change_distance_ms=part["change_distance_ms"].to_numpy(),
        ),
        tolerances,
    )
    return Replayed(
        amount=amount,
        is_unrecorded=np.zeros(len(part), bool),
        rate=np.full(len(part), np.nan),
        window_size_ms=np.full(len(part), -1, np.int64),
        tokens=result.tokens,
        throttle_time_ms=result.throttle_time_ms,
        admitted=result.admitted,
        verdicts=verdicts,
    )


def _is_plausible_attempt(
    amount: np.ndarray, bound: np.ndarray, states: SensorStates, sensor: np.ndarray
) -> np.ndarray:
    window_s = states.samples[sensor] * states.window_ms[sensor] / 1000.0
    with np.errstate(invalid="ignore"):
        return np.asarray((amount > 0) & (amount <= ATTEMPT_MAX_FACTOR * bound * window_s))
