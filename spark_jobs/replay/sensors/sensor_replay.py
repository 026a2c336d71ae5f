"""Amounts in recording order → decisions: one pass over Arrow batches, the open sensor carried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.quota.states import UNTOUCHED, BucketState, SensorStates
from spark_jobs.replay.sensors.amounts import as_column
from spark_jobs.replay.sensors.replay_batch import Replayed, replay_mutations, replay_rates
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.warehouse.tables import BOOL, BUCKET, DECISIONS, I64, QUOTA_STATE, STR

DECISION, STATE = "decision", "state"
EXPIRED_AFTER_MS = 3_630_000
"""A sensor without a record for an hour is removed by a task that runs every 30 s, and begins anew
(Kafka: ``ClientQuotaManager.InactiveSensorExpirationTimeSeconds``, ``Metrics.ExpireSensorTask``).
Between 3600 s and this it may be there still, but holds nothing that counts: a purged window, a
bucket that is full again.
"""
Place = tuple[int, str, int]
"""A request's estimate in ms, its file and line."""


@dataclass(frozen=True, slots=True)
class BrokerRules:
    """How one broker keeps its rates: the profile of its version and its window settings."""

    profile: RateProfile
    samples: int
    window_ms: int
    controller_samples: int
    controller_window_ms: int

    def of_type(self, quota_type: str) -> tuple[int, int]:
        """Return (samples, window_ms) of a quota type's sensors."""
        if quota_type == "controller_mutation_rate":
            return self.controller_samples, self.controller_window_ms
        return self.samples, self.window_ms


@dataclass(frozen=True, slots=True)
class CarriedState:
    """One sensor as the day before hands it on (a row of ``quota_state``)."""

    sensor_epoch: int
    sensor_seq: int
    sample_index: int
    samples: tuple[tuple[int, int, float], ...]
    bucket: BucketState | None = None
    resumes_at: Place | None = None
    """The first amount of the day before that is not in it; None: all are."""
    intervals: Mapping[str, Any] | None = None
    """Of a request quota: what its samples may be (``quota_state.intervals``); None: not said."""

    def is_lost(self, slots: int, restart_ms: int, recorded_at_ms: int) -> bool:
        """Return whether a sensor of ``slots`` samples begins anew when it records again then.

        ``restart_ms`` is the start of the life since then. More samples than slots were kept under
        other settings or by another version: the broker was restarted.
        """
        ends_ms = [last for _, last, _ in self.samples]
        if self.bucket is not None:
            ends_ms.append(self.bucket.last_update_ms)
        if not ends_ms:
            return False  # it had not recorded anything
        last_ms = max(ends_ms)
        is_forgotten = restart_ms > last_ms or recorded_at_ms - last_ms > EXPIRED_AFTER_MS
        return len(self.samples) > slots or is_forgotten

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> tuple[SensorKey, CarriedState]:
        """Return a row of ``quota_state`` as the sensor's key and its state at the day's end."""
        key = SensorKey.of(row)
        return key, cls(
            sensor_epoch=row["sensor_epoch"],
            sensor_seq=row["sensor_seq"],
            sample_index=row["sample_index"],
            samples=_samples(row),
            bucket=(
                None
                if row["tokens"] is None
                else BucketState.of(row["tokens"], row["last_update_ms"])
            ),
            intervals=row["intervals"],
        )

    @classmethod
    def handed_on(cls, row: Mapping[str, Any]) -> tuple[SensorKey, CarriedState]:
        """Return a row of ``quota_state`` as the sensor's key and where the next day resumes."""
        key, at_the_end = cls.of_row(row)
        resumed = row["resumes_from"]
        if resumed is None:
            return key, at_the_end
        return key, cls(
            sensor_epoch=resumed["sensor_epoch"],
            sensor_seq=resumed["sensor_seq"],
            sample_index=resumed["sample_index"],
            samples=_samples(resumed),
            bucket=BucketState(**resumed["bucket"]) if resumed["bucket"] else None,
            resumes_at=(resumed["at_ms"], resumed["source_file"], resumed["source_line"]),
        )


def _samples(row: Mapping[str, Any]) -> tuple[tuple[int, int, float], ...]:
    return tuple((s["start_ms"], s["last_event_ms"], s["value"]) for s in row["samples"])


def _replayed_schema() -> pa.Schema:
    fields = {"row_kind": pa.field("row_kind", pa.string())}
    for schema in (DECISIONS, QUOTA_STATE):
        for column in schema:
            fields.setdefault(column.name, column.with_nullable(True))
    return pa.schema([*fields.values(), *_MORE])


_MORE = (
    # What two quotas of one request have to say to each other (transforms.shared_throttles).
    pa.field("has_request_bound", BOOL),
    pa.field("throttle_time_min_ms", I64),
    pa.field("throttle_time_max_ms", I64),
    pa.field("verdict_alone", STR),
    pa.field("reason_alone", STR),
    # A mutation sensor's state, with what the log leaves open.
    pa.field("bucket", BUCKET),
)
REPLAYED = _replayed_schema()


def replay_sensors(
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    tolerances: Tolerances,
    intervals: Mapping[SensorKey, Mapping[str, Any]] | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that replays batches of AMOUNTS.

    The rows of a sensor must be contiguous and in recording order. Emits decisions, and each
    sensor's state after its last amount; ``intervals`` has what is known of it besides, when all
    its rows came.
    """
    told = intervals if intervals is not None else {}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_sensors: _OpenSensors | None = None
        for batch in batches:
            if not len(batch):
                continue
            sensors = _OpenSensors.of(batch, rules, carried, open_sensors)
            if open_sensors is not None and sensors.keys[0] != open_sensors.keys[-1]:
                yield open_sensors.closed(told, from_sensor=len(open_sensors.keys) - 1)
            yield _decisions(batch, sensors, tolerances)
            if len(sensors.keys) > 1:
                yield sensors.closed(told, from_sensor=0, until_sensor=len(sensors.keys) - 1)
            open_sensors = sensors
        if open_sensors is not None:
            yield open_sensors.closed(told, from_sensor=len(open_sensors.keys) - 1)

    return run


@dataclass(slots=True)
class _OpenSensors:
    """The sensors of one batch, in the order they appear, and their states.

    A sensor that forgot everything in between is there once more, with its next epoch.
    """

    keys: list[SensorKey]
    sensor: np.ndarray
    restart_ms: int  # of the last row
    recorded_at_ms: int  # of the last row
    seq: np.ndarray
    epochs: np.ndarray
    next_seq: np.ndarray
    states: SensorStates

    @classmethod
    def of(
        cls,
        batch: pa.RecordBatch,
        rules: Mapping[int, BrokerRules],
        carried: Mapping[SensorKey, CarriedState],
        before: _OpenSensors | None,
    ) -> _OpenSensors:
        starts, sensor = sensor_runs(batch)
        first_rows = batch.take(pa.array(starts)).select(list(SENSOR_COLUMNS)).to_pylist()
        keys = [SensorKey.of(row) for row in first_rows]
        settings = [rules[k[0]].of_type(k[1]) for k in keys]
        states = SensorStates.allocate(
            profiles=[rules[k[0]].profile for k in keys],
            samples=[s for s, _ in settings],
            window_ms=[w for _, w in settings],
        )
        epochs, next_seq = np.zeros(len(keys), np.int32), np.zeros(len(keys), np.int64)
        restart_ms, at_ms = batch["restart_ms"].to_numpy(), batch["recorded_at_ms"].to_numpy()
        for i, key in enumerate(keys):
            first_row = int(restart_ms[starts[i]]), int(at_ms[starts[i]])
            if i > 0 and keys[i - 1] == key:
                epochs[i] = epochs[i - 1] + 1
            elif i == 0 and before is not None and before.keys[-1] == key:
                if before.is_forgotten(*first_row):
                    epochs[0] = before.epochs[-1] + 1
                    continue
                states.copy_sensor(0, before.states, len(before.keys) - 1)
                epochs[0], next_seq[0] = before.epochs[-1], before.next_seq[-1]
            elif key in carried:
                state = carried[key]
                slots = rules[key[0]].profile.slots(settings[i][0])
                if state.is_lost(slots, *first_row):
                    epochs[i] = state.sensor_epoch + 1
                    continue
                epochs[i], next_seq[i] = state.sensor_epoch, state.sensor_seq
                bucket = state.bucket or UNTOUCHED
                states.restore(i, state.sample_index, state.samples, bucket)
        seq = np.arange(len(batch)) - np.array(starts)[sensor] + next_seq[sensor]
        next_seq = next_seq + np.bincount(sensor, minlength=len(keys))
        last_row = int(restart_ms[-1]), int(at_ms[-1])
        return cls(keys, sensor, *last_row, seq, epochs, next_seq, states)

    def is_forgotten(self, restart_ms: int, recorded_at_ms: int) -> bool:
        """Return whether the last sensor begins anew with a next row of that life and time."""
        is_expired = recorded_at_ms - self.recorded_at_ms > EXPIRED_AFTER_MS
        return restart_ms != self.restart_ms or is_expired

    def closed(
        self,
        intervals: Mapping[SensorKey, Mapping[str, Any]],
        from_sensor: int,
        until_sensor: int | None = None,
    ) -> pa.RecordBatch:
        """Return the state rows of sensors [from, until), to be written as ``quota_state``."""
        rows = []
        for i in range(len(self.keys))[from_sensor:until_sensor]:
            if i + 1 < len(self.keys) and self.keys[i + 1] == self.keys[i]:
                continue  # it forgot this
            index, samples, bucket = self.states.export(i)
            is_bucket = self.keys[i].quota_type == "controller_mutation_rate"
            rows.append(
                {
                    "row_kind": STATE,
                    **self.keys[i]._asdict(),
                    "sensor_epoch": int(self.epochs[i]),
                    "sensor_seq": int(self.next_seq[i]),
                    "sample_index": index,
                    "samples": [
                        {"start_ms": s, "last_event_ms": e, "value": v} for s, e, v in samples
                    ],
                    "tokens": bucket.tokens if is_bucket else None,
                    "last_update_ms": bucket.last_update_ms if is_bucket else None,
                    "bucket": bucket._asdict() if is_bucket else None,
                    "intervals": intervals.get(self.keys[i]),
                }
            )
        return pa.RecordBatch.from_pylist(rows, schema=REPLAYED)


def sensor_runs(batch: pa.RecordBatch) -> tuple[list[int], np.ndarray]:
    """Return the first row of each run of one sensor's one epoch, and each row's run."""
    changed = np.zeros(len(batch), bool)
    changed[0] = True
    for name in SENSOR_COLUMNS:
        column = batch[name]
        changed[1:] |= pc.not_equal(column.slice(1), column.slice(0, len(batch) - 1)).to_numpy(
            zero_copy_only=False
        )
    changed[1:] |= np.diff(batch["restart_ms"].to_numpy()) != 0
    changed[1:] |= np.diff(batch["recorded_at_ms"].to_numpy()) > EXPIRED_AFTER_MS
    return np.flatnonzero(changed).tolist(), np.cumsum(changed) - 1


def _decisions(
    batch: pa.RecordBatch, sensors: _OpenSensors, tolerances: Tolerances
) -> pa.RecordBatch:
    is_mutation = pc.equal(batch["quota_type"], "controller_mutation_rate").to_numpy(
        zero_copy_only=False
    )
    parts = []
    for rows, replay in (
        (np.flatnonzero(~is_mutation), replay_rates),
        (np.flatnonzero(is_mutation), replay_mutations),
    ):
        if len(rows):
            part = batch.take(pa.array(rows))
            replayed = replay(part, sensors.sensor[rows], sensors.states, tolerances)
            parts.append(_rows(part, replayed, sensors, rows, tolerances))
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _rows(
    part: pa.RecordBatch,
    replayed: Replayed,
    sensors: _OpenSensors,
    rows: np.ndarray,
    tolerances: Tolerances,
) -> pa.RecordBatch:
    is_judged = (part["known_for_ms"].to_numpy() >= tolerances.warm_up_ms) & (
        part["change_distance_ms"].to_numpy() >= tolerances.change_ms
    )
    own: dict[str, object] = {
        "row_kind": [DECISION] * len(part),
        "sensor_epoch": sensors.epochs[sensors.sensor[rows]],
        "sensor_seq": sensors.seq[rows],
        "is_unrecorded": np.zeros(len(part), bool),
        "amount": _nullable(replayed.amount),
        "bound": _nullable(part["bound"].to_numpy()),
        "rate": _nullable(replayed.rate),
        "window_size_ms": pa.array(replayed.window_size_ms, mask=replayed.window_size_ms < 0),
        "tokens": _nullable(replayed.tokens),
        "replayed_throttle_time_ms": pa.array(
            replayed.throttle_time_ms, mask=np.isnan(part["bound"].to_numpy())
        ),
        "replayed_admitted": replayed.admitted,
        "verdict": replayed.verdicts.verdict,
        "reason": replayed.verdicts.reason,
        "verdict_alone": replayed.verdicts_alone.verdict,
        "reason_alone": replayed.verdicts_alone.reason,
        "throttle_time_min_ms": _where(is_judged, part["throttle_time_min_ms"]),
        "throttle_time_max_ms": _where(is_judged, part["throttle_time_max_ms"]),
    }
    columns = []
    for field in REPLAYED:
        if field.name in own:
            columns.append(as_column(own[field.name], field.type))
        elif field.name in part.schema.names:
            columns.append(part[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(len(part), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=REPLAYED)


def _where(mask: np.ndarray, column: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(mask), column, pa.scalar(None, column.type))


def _nullable(values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))
