"""Sensors' mutations → the same at record times that explain what was admitted and refused."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.constants import EXPIRED_AFTER_MS, LATE_LINE_MS
from spark_jobs.quota.kernels import OTHER_SENSOR
from spark_jobs.quota.mutation_bucket import Bucket, MutationRequest
from spark_jobs.quota.mutation_changes import as_in_force
from spark_jobs.quota.mutation_times import stretches
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.sensors.amounts import AMOUNTS, LINE_ORDER, bools
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState

_COLUMNS = (
    "recorded_at_ms", "earliest_ms", "latest_ms", "bound", "bound_until", "has_joined",
    "bound_left", "is_strict", "response_earliest_ms", "response_latest_ms", "bucket_gap",
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
    gap = amounts["bucket_gap"].to_numpy().copy()
    is_order_open, order = np.zeros(len(amounts), bool), np.arange(len(amounts))
    begun: dict[SensorKey, Mapping[str, Any]] = {}
    starts, _ = sensor_runs(amounts)
    for start, stop in pairwise([*starts, len(amounts)]):
        rows = amounts.slice(start, stop - start)
        *sensor, restart_ms, first_ms = (rows[name][0].as_py() for name in _EPOCH)
        key = SensorKey(*sensor)
        state = carried.get(key)
        bucket = _bucket(rules[key.broker_id], key.quota_type, state, restart_ms, first_ms)
        unit = _units(rows)
        requests = as_in_force(_requests(rows, unit, change_ms), bucket)
        found = list(stretches(requests, bucket))
        recorded = list(chain.from_iterable(found))
        last = int(np.searchsorted(unit, len(recorded) - len(found[-1])))
        begun[key] = {name: rows[name][last].as_py() for name in LINE_ORDER}
        place = np.empty(len(recorded), np.int64)
        place[[one.request for one in recorded]] = np.arange(len(recorded))
        of_row = [recorded[i] for i in place[unit].tolist()]
        at_ms[start:stop] = [one.at_ms for one in of_row]
        bound[start:stop] = [requests[i].bound for i in unit.tolist()]
        is_elsewhere = np.array([one.bucket_gap == OTHER_SENSOR for one in requests], bool)
        gap[start:stop][is_elsewhere[unit]] = OTHER_SENSOR
        is_order_open[start:stop] = [one.is_order_open for one in of_row]
        order[start:stop] = start + np.argsort(place[unit], kind="stable")
    told = {
        "recorded_at_ms": at_ms,
        "bound": bound,
        "bucket_gap": gap,
        "is_order_open": is_order_open,
    }
    for name, values in told.items():
        column = AMOUNTS.get_field_index(name)
        field = AMOUNTS.field(column)
        amounts = amounts.set_column(column, field, pa.array(values, field.type))
    return amounts.take(pa.array(order)), begun


def sensor_runs(rows: pa.RecordBatch) -> tuple[list[int], np.ndarray]:
    """Return the first row of each run of one sensor's one epoch, and each row's run.

    A sensor that has recorded nothing, such as where all went to another one, forgets nothing.
    """
    if not len(rows):
        return [], np.zeros(0, np.int64)
    of_sensor = changes(rows, SENSOR_COLUMNS)
    number = np.arange(len(rows))
    is_own = bools(pc.fill_null(pc.not_equal(rows["bucket_gap"], OTHER_SENSOR), True))
    own = np.maximum.accumulate(np.where(is_own, number, -1))
    before = np.append(-1, own[:-1])  # the last one that was recorded before each row
    has_recorded = before >= np.maximum.accumulate(np.where(of_sensor, number, 0))
    restart_ms, at_ms = rows["restart_ms"].to_numpy(), rows["recorded_at_ms"].to_numpy()
    forgets = has_recorded & (restart_ms != restart_ms[before])
    forgets |= has_recorded & (at_ms - at_ms[before] > EXPIRED_AFTER_MS)
    # Once, until it records again.
    is_first = np.append(True, ~forgets[:-1] | (before[1:] != before[:-1]))
    begins = of_sensor | (forgets & is_first)
    return np.flatnonzero(begins).tolist(), np.cumsum(begins) - 1


def request_numbers(rows: pa.RecordBatch) -> np.ndarray:
    """Return a number per row: that of its sensor's request, which may have others in between."""
    begins = changes(rows, (*SENSOR_COLUMNS, *_REQUEST))
    first = rows.select([*SENSOR_COLUMNS, *_REQUEST]).filter(pa.array(begins))
    numbers: dict[tuple[Any, ...], int] = {}
    number = [numbers.setdefault(tuple(row.values()), len(numbers)) for row in first.to_pylist()]
    return np.asarray(np.array(number, np.int64)[np.cumsum(begins) - 1])


def _units(rows: pa.RecordBatch) -> np.ndarray:
    """Return the number of what each row is recorded with: its request, or it alone.

    A topic that is admitted after one that was refused was recorded later than that: a debt had to
    end in between (``StrictControllerMutationQuota.record`` reads the clock for each).
    """
    admitted = bools(rows["logged_admitted"])
    is_later = np.append(False, admitted[1:] & ~admitted[:-1])
    return np.cumsum(changes(rows, _REQUEST) | ~bools(rows["is_atomic"]) | is_later) - 1


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


def _requests(rows: pa.RecordBatch, unit: np.ndarray, change_ms: int) -> list[MutationRequest]:
    starts = np.unique(unit, return_index=True)[1]
    begins = changes(rows, _REQUEST)
    request = np.cumsum(begins) - 1
    parts = np.bincount(request[starts])
    connection = rows["connection"].dictionary_encode().indices.fill_null(-1).to_pylist()
    line = np.lexsort((rows["source_line"].to_numpy(), rows["log_time_ms"].to_numpy())).argsort()
    first = rows.take(pa.array(starts)).to_pylist()
    told = list(zip(rows["amount"].to_pylist(), rows["logged_admitted"].to_pylist(), strict=True))
    return [
        MutationRequest(
            **{name: row[name] for name in _COLUMNS},
            mutations=tuple(told[start:stop]),
            may_be_before_change=row["since_change_ms"] < change_ms,
            may_be_after_change=row["change_distance_ms"]
            <= min(LATE_LINE_MS, row["since_change_ms"] - 1),
            logged_ms=None if row["has_request_bound"] else row["logged_throttle_time_ms"],
            request=int(request[start]),
            parts=int(parts[request[start]]),
            is_first=bool(begins[start]),
            connection=connection[start],
            line=int(line[start]),
        )
        for row, start, stop in zip(
            first, starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True
        )
    ]
