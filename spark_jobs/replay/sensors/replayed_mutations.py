"""Mutations at their record times → decisions, states after the last one, rates by second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.kernels import OTHER_BUCKET, replay_token_bucket
from spark_jobs.quota.mutation_bucket import UNEXPLAINED_DEBT_MS
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.quota.states import UNTOUCHED, SensorStates, remembered_ms
from spark_jobs.replay.sensors.aligned_mutations import request_numbers, sensor_runs
from spark_jobs.replay.sensors.amounts import bools, finite, floats, table_of
from spark_jobs.replay.sensors.sensor_states import (
    DECISION,
    REPLAYED,
    STATE,
    BrokerRules,
    CarriedState,
)
from spark_jobs.replay.sensors.told_debts import (
    either_is_wrong,
    is_amid_debt,
    says_its_debt,
    told_tokens,
)
from spark_jobs.replay.verdicts.mutation_throttle import (
    AGREE,
    LATE_LINE,
    NOT_JUDGED,
    OVER_THROTTLED,
    UNDER_THROTTLED,
    MutationThrottleRows,
    judge_mutation_throttles,
    mutation_throttles,
    of_debts,
)
from spark_jobs.replay.verdicts.verdicts import (
    MutationRows,
    Tolerances,
    Verdicts,
    judge_mutations,
    with_throttles,
)
from spark_jobs.warehouse.tables import RATES


def replay_mutations(
    amounts: pa.RecordBatch,
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    tolerances: Tolerances,
) -> pa.Table:
    """Return the decisions on ``amounts`` (AMOUNTS), then the states, as REPLAYED.

    The rows of a sensor must be together and in recording order.
    """
    if not len(amounts):
        return REPLAYED.empty_table()
    sensors = _Sensors.of(amounts, rules, carried)
    decided = _decisions(amounts, sensors, tolerances)
    return pa.concat_tables([decided, sensors.states_at_the_end()])


@dataclass(slots=True)
class _Sensors:
    """The sensors of a batch, in the order they appear, and their states.

    A sensor that forgot everything in between is there once more, with its next epoch.
    """

    keys: list[SensorKey]
    sensor: np.ndarray
    seq: np.ndarray
    epochs: np.ndarray
    next_seq: np.ndarray
    states: SensorStates

    @classmethod
    def of(
        cls,
        amounts: pa.RecordBatch,
        rules: Mapping[int, BrokerRules],
        carried: Mapping[SensorKey, CarriedState],
    ) -> _Sensors:
        starts, sensor = sensor_runs(amounts)
        first_rows = amounts.take(pa.array(starts)).select(list(SENSOR_COLUMNS)).to_pylist()
        keys = [SensorKey.of(row) for row in first_rows]
        settings = [rules[k[0]].of_type(k[1]) for k in keys]
        states = SensorStates.allocate(
            profiles=[rules[k[0]].profile for k in keys],
            samples=[s for s, _ in settings],
            window_ms=[w for _, w in settings],
        )
        epochs, next_seq = np.zeros(len(keys), np.int32), np.zeros(len(keys), np.int64)
        restart_ms, at_ms = amounts["restart_ms"].to_numpy(), amounts["recorded_at_ms"].to_numpy()
        for i, key in enumerate(keys):
            if i > 0 and keys[i - 1] == key:
                epochs[i] = epochs[i - 1] + 1
            elif key in carried:
                state = carried[key]
                slots = rules[key[0]].profile.slots(settings[i][0])
                if state.is_lost(slots, int(restart_ms[starts[i]]), int(at_ms[starts[i]])):
                    epochs[i] = state.sensor_epoch + 1
                    continue
                epochs[i], next_seq[i] = state.sensor_epoch, state.sensor_seq
                bucket = state.bucket or UNTOUCHED
                states.restore(i, state.sample_index, state.samples, bucket)
        seq = np.arange(len(amounts)) - np.array(starts)[sensor] + next_seq[sensor]
        next_seq = next_seq + np.bincount(sensor, minlength=len(keys))
        return cls(keys, sensor, seq, epochs, next_seq, states)

    def states_at_the_end(self) -> pa.Table:
        """Return the sensors' state rows, to be written as ``quota_state``."""
        rows = []
        for i, key in enumerate(self.keys):
            if i + 1 < len(self.keys) and self.keys[i + 1] == key:
                continue  # it forgot this
            index, samples, bucket = self.states.export(i)
            rows.append(
                {
                    "row_kind": STATE,
                    **key._asdict(),
                    "sensor_epoch": int(self.epochs[i]),
                    "sensor_seq": int(self.next_seq[i]),
                    "sample_index": index,
                    "samples": [
                        {"start_ms": s, "last_event_ms": e, "value": v} for s, e, v in samples
                    ],
                    "tokens": bucket.tokens,
                    "last_update_ms": bucket.last_update_ms,
                    "bucket": bucket._asdict(),
                }
            )
        return pa.Table.from_pylist(rows, schema=REPLAYED)


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What the rule says of each row; arrays of the batch's length, NaN where undefined."""

    tokens: np.ndarray
    throttle_time_ms: np.ndarray
    admitted: np.ndarray
    verdicts: Verdicts


def _decisions(amounts: pa.RecordBatch, sensors: _Sensors, tolerances: Tolerances) -> pa.Table:
    replayed, n = _replayed(amounts, sensors.sensor, sensors.states, tolerances), len(amounts)
    bound = amounts["bound"].to_numpy()
    own: dict[str, object] = {
        "row_kind": [DECISION] * n,
        "sensor_epoch": sensors.epochs[sensors.sensor],
        "sensor_seq": sensors.seq,
        "is_unrecorded": np.zeros(n, bool),
        "amount": finite(floats(amounts["amount"])),
        "bound": finite(bound),
        "tokens": finite(replayed.tokens),
        "replayed_throttle_time_ms": pa.array(replayed.throttle_time_ms, mask=np.isnan(bound)),
        "replayed_admitted": replayed.admitted,
        "is_proven": np.zeros(n, bool),
        "verdict": replayed.verdicts.verdict,
        "reason": replayed.verdicts.reason,
        "verdict_alone": replayed.verdicts.verdict,
        "reason_alone": replayed.verdicts.reason,
    }
    return table_of({name: amounts[name] for name in amounts.schema.names} | own, REPLAYED, n)


def _replayed(
    part: pa.RecordBatch, sensor: np.ndarray, states: SensorStates, tolerances: Tolerances
) -> _Replayed:
    """Return the token-bucket decisions of ``part``; ``states`` moves on."""
    bound = part["bound"].to_numpy()
    amount = floats(part["amount"])
    gap = np.nan_to_num(floats(part["bucket_gap"])).astype(np.int8)
    logged_admitted, is_strict = bools(part["logged_admitted"]), bools(part["is_strict"])
    recorded_at_ms = part["recorded_at_ms"].to_numpy()
    earliest_ms, latest_ms = part["earliest_ms"].to_numpy(), part["latest_ms"].to_numpy()
    interval_ms = latest_ms - earliest_ms
    warm_up_ms = np.maximum(tolerances.warm_up_ms, remembered_ms(states.samples, states.window_ms))
    is_past_known = part["known_for_ms"].to_numpy() >= warm_up_ms[sensor]
    change_distance_ms = part["change_distance_ms"].to_numpy()
    is_order_open = bools(part["is_order_open"])
    request = request_numbers(part)
    amid_debt = is_amid_debt(part, request, tolerances.throttle_ms)
    doubt_tokens = np.nan_to_num(bound) * UNEXPLAINED_DEBT_MS / 1000.0
    result = replay_token_bucket(
        sensor,
        recorded_at_ms,
        amount,
        bound,
        is_strict.astype(np.int8),
        logged_admitted.astype(np.int8),
        *states.bucket_arrays(),
        # Whatever the debt is: what cannot have been admitted may have spent nothing.
        doubt_tokens=np.where(amid_debt, -np.inf, doubt_tokens),
        bucket_gap=gap,
        slack_tokens=np.nan_to_num(bound) * (interval_ms + UNEXPLAINED_DEBT_MS) / 1000.0,
        told_tokens=told_tokens(part, sensor, request),
    )
    throttles = MutationThrottleRows(
        sensor=sensor,
        request=request,
        unit=np.where(bools(part["is_atomic"]), request, -1 - np.arange(len(part))),
        recorded_at_ms=recorded_at_ms,
        interval_ms=interval_ms,
        bound=bound,
        # As the kernel has it: another order of the factors would round otherwise.
        burst=(states.samples * (states.window_ms / 1000.0))[sensor] * bound,
        tokens_before=result.tokens_before,
        replayed_ms=result.throttle_time_ms,
        is_strict=is_strict,
        admitted=logged_admitted,
        spent=np.where(is_strict & ~logged_admitted, 0.0, np.nan_to_num(amount)),
        # How many tokens there are is known where not only their sign is.
        is_state_known=~np.isnan(result.tokens),
        has_request_bound=bools(part["has_request_bound"]),
        response_earliest_ms=part["response_earliest_ms"].to_numpy(),
        response_latest_ms=part["response_latest_ms"].to_numpy(),
        logged_ms=part["logged_throttle_time_ms"].to_numpy().astype(np.int64),
        debt_slack_ms=states.debt_slack_ms,
        debt_bound=states.debt_bound,
    )
    admitted = result.admitted & ~amid_debt
    is_right = logged_admitted & admitted & is_strict
    is_told = says_its_debt(part, recorded_at_ms + result.throttle_time_ms, tolerances.throttle_ms)
    is_order_open |= either_is_wrong(part, sensor, request, is_right, is_told)
    said = mutation_throttles(throttles)
    judged = judge_mutation_throttles(throttles, said, tolerances.throttle_ms)
    # The line of the request may be late, or the one of the last that met a full bucket: not that
    # one, where a throttle of a debt since then says when it was.
    is_told = (judged == AGREE) & (throttles.logged_ms > 0) & (result.throttle_time_ms > 0)
    is_told = of_debts(throttles, is_told)
    verdicts = judge_mutations(
        MutationRows(
            bound=bound,
            amount_known=~np.isnan(amount),
            is_state_known=result.is_state_known & (gap != OTHER_BUCKET),
            logged_admitted=logged_admitted,
            replayed_admitted=admitted,
            tokens_before=result.tokens_before,
            early_max_ms=recorded_at_ms - earliest_ms + said.slack_ms + LINE_LAG_MAX_MS,
            late_max_ms=latest_ms
            - recorded_at_ms
            + said.slack_ms
            + np.where(is_told, 0, LATE_LINE_MS),
            is_order_open=is_order_open,
            is_amid_debt=amid_debt,
            is_past_known=is_past_known,
            change_distance_ms=change_distance_ms,
        ),
        tolerances,
    )
    is_wrong = np.isin(judged, (UNDER_THROTTLED, OVER_THROTTLED))
    judged = np.where(is_order_open & is_wrong, LATE_LINE, judged)
    # Before the log began the debt may have been larger, hence the throttle longer; never shorter.
    is_open = ~is_past_known & (judged != UNDER_THROTTLED)
    is_open |= change_distance_ms < tolerances.change_ms
    verdicts = with_throttles(verdicts, np.where(is_open, NOT_JUDGED, judged), request)
    throttle_time_ms = np.where(
        said.is_known,
        np.clip(throttles.logged_ms, said.throttle_min_ms, said.throttle_max_ms),
        result.throttle_time_ms,
    )
    return _Replayed(result.tokens, throttle_time_ms, admitted, verdicts)


def seconds_of_decisions(decisions: pa.Table) -> pa.Table:
    """Return the rows of ``rates`` of few decisions, in order, each second added as recorded."""
    place = ["sensor_epoch", "sensor_seq"]
    order = [(name, "ascending") for name in (*SENSOR_COLUMNS, *place)]
    rows = decisions.sort_by(order)
    at_ms = rows["recorded_at_ms"].to_numpy()
    is_throttled = pc.or_(
        pc.greater(rows["logged_throttle_time_ms"], 0), pc.invert(rows["logged_admitted"])
    )
    counted = pc.if_else(rows["is_unrecorded"], 0.0, pc.fill_null(rows["amount"], 0.0))
    seconds = pa.table(
        {
            **{name: rows[name] for name in (*SENSOR_COLUMNS, *_LASTS)},
            "second_ms": at_ms // 1000 * 1000,
            "amount": counted,
            "throttled_requests": is_throttled.cast(pa.int64()),
            "throttle_time_ms": rows["logged_throttle_time_ms"].cast(pa.int64()),
        }
    )
    keys = [*SENSOR_COLUMNS, "second_ms"]
    as_it_is = pc.ScalarAggregateOptions(skip_nulls=False)
    found = seconds.group_by(keys, use_threads=False).aggregate(
        [(name, "sum") for name in _SUMS] + [(name, "last", as_it_is) for name in _LASTS]
    )
    renamed = found.rename_columns([*keys, *_SUMS, *_LASTS])
    return renamed.select(RATES.names).cast(RATES).sort_by([(key, "ascending") for key in keys])


_SUMS, _LASTS = ("amount", "throttled_requests", "throttle_time_ms"), ("rate", "tokens", "bound")
