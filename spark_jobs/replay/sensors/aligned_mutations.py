"""Sensors' mutations → the same at record times that explain what was admitted and refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.kernels import CHARGES_MISSING
from spark_jobs.quota.mutation_times import (
    Bucket,
    MutationRequest,
    Recorded,
    as_in_force,
    stretches,
)
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.sensors.amounts import AMOUNTS, LINE_ORDER
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState

_COLUMNS = (
    "recorded_at_ms", "earliest_ms", "latest_ms", "bound", "is_strict", "response_earliest_ms",
    "response_latest_ms", "bucket_gap", "is_atomic",
)  # fmt: skip
_REQUEST = ("connection", "correlation_id", "source_file", "source_line")
_EPOCH = (*SENSOR_COLUMNS, "restart_ms", "recorded_at_ms")


def align_mutations(
    amounts: pa.RecordBatch,
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    change_ms: int,
) -> tuple[pa.RecordBatch, dict[SensorKey, Mapping[str, Any]]]:
    """Return ``amounts`` (AMOUNTS) as recorded, and the line that begins the last stretch.

    The rows of a sensor must be together and in the order of their estimates; they come back in
    that of their records, with the bounds that the controller had: a quota takes up to
    ``change_ms`` to reach it. Those of one epoch, between two restarts or an hour of silence, are
    aligned together. Lines (LINE_ORDER) are by sensor; later ones may move the times since then.
    """
    at_ms = amounts["recorded_at_ms"].to_numpy().copy()
    bound = amounts["bound"].to_numpy().copy()
    bucket_gap = amounts["bucket_gap"].to_numpy(zero_copy_only=False).copy()
    is_order_open, order = np.zeros(len(amounts), bool), np.arange(len(amounts))
    begun: dict[SensorKey, Mapping[str, Any]] = {}
    starts, _ = sensor_runs(amounts)
    for start, stop in pairwise([*starts, len(amounts)]):
        rows = amounts.slice(start, stop - start)
        *sensor, restart_ms, first_ms = (rows[name][0].as_py() for name in _EPOCH)
        key = SensorKey(*sensor)
        state = carried.get(key)
        bucket = _bucket(rules[key.broker_id], key.quota_type, state, restart_ms, first_ms)
        request = request_numbers(rows)
        requests = as_in_force(_requests(rows, request, change_ms), bucket)
        before = bucket.copy()
        found = list(stretches(requests, bucket))
        if gaps := _gaps_after_open(list(chain.from_iterable(found)), requests):
            requests = [
                replace(one, bucket_gap=gaps.get(i, one.bucket_gap))
                for i, one in enumerate(requests)
            ]
            found = list(stretches(requests, before))
        recorded = list(chain.from_iterable(found))
        last = int(np.searchsorted(request, len(recorded) - len(found[-1])))
        begun[key] = {name: rows[name][last].as_py() for name in LINE_ORDER}
        place = np.empty(len(recorded), np.int64)
        place[[one.request for one in recorded]] = np.arange(len(recorded))
        of_row = [recorded[i] for i in place[request].tolist()]
        at_ms[start:stop] = [one.at_ms for one in of_row]
        bound[start:stop] = [requests[i].bound for i in request.tolist()]
        # Charges that are missing before a request are told at its first topic.
        for i, gap in gaps.items():
            bucket_gap[start + int(np.searchsorted(request, i))] = gap
        is_order_open[start:stop] = [one.is_order_open for one in of_row]
        order[start:stop] = start + np.argsort(place[request], kind="stable")
    told = {
        "recorded_at_ms": at_ms,
        "bound": bound,
        "bucket_gap": bucket_gap,
        "is_order_open": is_order_open,
    }
    for name, values in told.items():
        column = AMOUNTS.get_field_index(name)
        field = AMOUNTS.field(column)
        amounts = amounts.set_column(column, field, pa.array(values, field.type))
    return amounts.take(pa.array(order)), begun


def _gaps_after_open(
    recorded: Sequence[Recorded], requests: Sequence[MutationRequest]
) -> dict[int, int]:
    """Return the gap of each request after some that nothing explains, by its place.

    Topics of one may have been recorded between those of another. Then one that was admitted may be
    charged for or not, as the order was, and the bucket holds less than it would.
    """
    return {
        one.request: max(CHARGES_MISSING, requests[one.request].bucket_gap)
        for before, one in pairwise(recorded)
        if before.is_order_open and not one.is_order_open and not requests[before.request].is_atomic
    }


def sensor_runs(rows: pa.RecordBatch) -> tuple[list[int], np.ndarray]:
    """Return the first row of each run of one sensor's one epoch, and each row's run."""
    changed = changes(rows, SENSOR_COLUMNS)
    changed[1:] |= np.diff(rows["restart_ms"].to_numpy()) != 0
    changed[1:] |= np.diff(rows["recorded_at_ms"].to_numpy()) > EXPIRED_AFTER_MS
    return np.flatnonzero(changed).tolist(), np.cumsum(changed) - 1


def request_numbers(rows: pa.RecordBatch) -> np.ndarray:
    """Return the number of each row's request; those of one request are together."""
    return np.cumsum(changes(rows, _REQUEST)) - 1


def changes(rows: pa.RecordBatch, names: tuple[str, ...]) -> np.ndarray:
    """Return True for each row that differs in these columns from the row before, and the first."""
    changed = np.zeros(len(rows), bool)
    changed[:1] = True
    for name in names:
        column = rows[name]
        differs = pc.not_equal(column.slice(1), column.slice(0, max(len(rows) - 1, 0)))
        changed[1:] |= differs.to_numpy(zero_copy_only=False)
    return changed


def _bucket(
    rules: BrokerRules,
    quota_type: str,
    state: CarriedState | None,
    restart_ms: int,
    recorded_at_ms: int,
) -> Bucket:
    samples, window_ms = rules.of_type(quota_type)
    bucket = Bucket(burst_s=samples * (window_ms / 1000.0))
    slots = rules.profile.slots(samples)
    if state is None or state.bucket is None or state.is_lost(slots, restart_ms, recorded_at_ms):
        return bucket
    bucket.least, bucket.most, bucket.last_update_ms, *_ = state.bucket
    return bucket


def _requests(rows: pa.RecordBatch, request: np.ndarray, change_ms: int) -> list[MutationRequest]:
    starts = np.unique(request, return_index=True)[1].tolist()
    first = rows.take(pa.array(starts)).to_pylist()
    told = list(zip(rows["amount"].to_pylist(), rows["logged_admitted"].to_pylist(), strict=True))
    return [
        MutationRequest(
            **{name: row[name] for name in _COLUMNS},
            mutations=tuple(told[start:stop]),
            may_be_before_change=row["change_distance_ms"] < change_ms,
            logged_ms=None if row["has_request_bound"] else row["logged_throttle_time_ms"],
        )
        for row, start, stop in zip(first, starts, [*starts[1:], len(rows)], strict=True)
    ]
