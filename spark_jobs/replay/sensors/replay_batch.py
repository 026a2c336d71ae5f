"""One batch through the kernels, and its verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.kernels import (
    NO_THROTTLE_MAX,
    OTHER_BUCKET,
    replay_rate,
    replay_token_bucket,
)
from spark_jobs.quota.mutation_times import UNEXPLAINED_DEBT_MS
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.sensors.amounts import bools, floats
from spark_jobs.replay.sensors.request_runs import request_changes
from spark_jobs.replay.verdicts.fetch_attempt import Attempt
from spark_jobs.replay.verdicts.mutation_throttle import (
    NOT_JUDGED,
    UNDER_THROTTLED,
    MutationThrottleRows,
    judge_mutation_throttles,
    mutation_throttles,
)
from spark_jobs.replay.verdicts.verdicts import (
    MutationRows,
    RateRows,
    Tolerances,
    Verdicts,
    judge_mutations,
    judge_rates,
    with_throttles,
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the rule says of each row; arrays of the batch's length, NaN or -1 where undefined."""

    amount: np.ndarray
    rate: np.ndarray
    window_size_ms: np.ndarray
    tokens: np.ndarray
    throttle_time_ms: np.ndarray
    admitted: np.ndarray
    verdicts: Verdicts
    # The verdicts if the request's other quota, the one on its time, asked for nothing.
    verdicts_alone: Verdicts


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
    result = replay_rate(
        sensor,
        part["recorded_at_ms"].to_numpy(),
        np.where(amount_known, amount, 0.0),
        bound,
        part["behaviour"].to_numpy(),
        logged_ms,
        throttle_max_ms,
        *states.rate_arrays(),
    )
    rows = RateRows(
        bound=bound,
        amount_known=amount_known,
        is_unrecorded=np.zeros(len(part), bool),  # only fetches are, replayed in lanes
        attempt=np.full(len(part), Attempt.NOT_THROTTLED, np.int8),
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
    )
    verdicts = verdicts_alone = judge_rates(rows, tolerances)
    if rows.has_request_bound.any():
        alone = replace(rows, has_request_bound=np.zeros(len(part), bool))
        verdicts_alone = judge_rates(alone, tolerances)
    return Replayed(
        amount=np.where(amount_known, result.amount, np.nan),
        rate=result.rate,
        window_size_ms=result.window_size_ms,
        tokens=np.full(len(part), np.nan),
        throttle_time_ms=result.throttle_time_ms,
        admitted=np.ones(len(part), bool),
        verdicts=verdicts,
        verdicts_alone=verdicts_alone,
    )


def replay_mutations(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, tolerances: Tolerances
) -> Replayed:
    """Return the token-bucket decisions of ``part``; ``states`` moves on."""
    bound = part["bound"].to_numpy()
    amount = floats(part["amount"])
    gap = np.nan_to_num(floats(part["bucket_gap"])).astype(np.int8)
    logged_admitted, is_strict = bools(part["logged_admitted"]), bools(part["is_strict"])
    interval_ms = part["latest_ms"].to_numpy() - part["earliest_ms"].to_numpy()
    known_for_ms = part["known_for_ms"].to_numpy()
    change_distance_ms = part["change_distance_ms"].to_numpy()
    result = replay_token_bucket(
        sensor,
        part["recorded_at_ms"].to_numpy(),
        amount,
        bound,
        is_strict.astype(np.int8),
        logged_admitted.astype(np.int8),
        *states.bucket_arrays(),
        doubt_tokens=np.nan_to_num(bound) * UNEXPLAINED_DEBT_MS / 1000.0,
        bucket_gap=gap,
        slack_tokens=np.nan_to_num(bound) * (interval_ms + UNEXPLAINED_DEBT_MS) / 1000.0,
    )
    request = np.concatenate([[0], np.cumsum(request_changes(part))])
    throttles = MutationThrottleRows(
        sensor=sensor,
        request=request,
        recorded_at_ms=part["recorded_at_ms"].to_numpy(),
        interval_ms=interval_ms,
        bound=bound,
        # As the kernel has it: another order of the factors would round otherwise.
        burst=(states.samples * (states.window_ms / 1000.0))[sensor] * bound,
        tokens_before=result.tokens_before,
        replayed_ms=result.throttle_time_ms,
        is_strict=is_strict,
        admitted=logged_admitted,
        # How many tokens there are is known where not only their sign is.
        is_state_known=~np.isnan(result.tokens),
        has_request_bound=bools(part["has_request_bound"]),
        response_earliest_ms=part["response_earliest_ms"].to_numpy(),
        response_latest_ms=part["response_latest_ms"].to_numpy(),
        logged_ms=part["logged_throttle_time_ms"].to_numpy().astype(np.int64),
        debt_slack_ms=states.debt_slack_ms,
        debt_bound=states.debt_bound,
    )
    said = mutation_throttles(throttles)
    verdicts = judge_mutations(
        MutationRows(
            bound=bound,
            amount_known=~np.isnan(amount),
            is_state_known=result.is_state_known & (gap != OTHER_BUCKET),
            logged_admitted=logged_admitted,
            replayed_admitted=result.admitted,
            tokens_before=result.tokens_before,
            interval_ms=interval_ms + said.slack_ms,
            known_for_ms=known_for_ms,
            change_distance_ms=change_distance_ms,
        ),
        tolerances,
    )
    judged = judge_mutation_throttles(throttles, said, tolerances.throttle_ms)
    # Before the log began the debt may have been larger, hence the throttle longer; never shorter.
    is_open = (known_for_ms < tolerances.warm_up_ms) & (judged != UNDER_THROTTLED)
    is_open |= change_distance_ms < tolerances.change_ms
    verdicts = with_throttles(verdicts, np.where(is_open, NOT_JUDGED, judged), request)
    throttle_time_ms = np.where(
        said.is_known,
        np.clip(throttles.logged_ms, said.throttle_min_ms, said.throttle_max_ms),
        result.throttle_time_ms,
    )
    return Replayed(
        amount=amount,
        rate=np.full(len(part), np.nan),
        window_size_ms=np.full(len(part), -1, np.int64),
        tokens=result.tokens,
        throttle_time_ms=throttle_time_ms,
        admitted=result.admitted,
        verdicts=verdicts,
        verdicts_alone=verdicts,
    )
