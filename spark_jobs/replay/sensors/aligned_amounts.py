"""Request times and mutations: in the order of their estimates → at the times of their recording.

Between the sorting and the replay, on the same partitions. What the log tells of the times differs
by quota type, and so does how a sensor's rows are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import pairwise
from typing import Any

import pyarrow as pa

from spark_jobs.quota.mutation_times import Bucket
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.sensors.aligned_mutations import AlignedMutations
from spark_jobs.replay.sensors.aligned_rows import OpenSensor, SensorRow
from spark_jobs.replay.sensors.amounts import AmountBatches
from spark_jobs.replay.sensors.request_intervals import RequestIntervals
from spark_jobs.replay.sensors.sensor_replay import (
    EXPIRED_AFTER_MS,
    BrokerRules,
    CarriedState,
    sensor_runs,
)


def align_amounts(
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    held: MutableMapping[SensorKey, Mapping[str, Any]] | None = None,
) -> AmountBatches:
    """Return the ``mapInArrow`` function that turns sorted AMOUNTS into ALIGNED_AMOUNTS.

    The rows of a sensor must be contiguous; they stay so. Rows of one broker's life, between two
    restarts or an hour of silence, are aligned together. ``held`` gets what a sensor's rows left
    open (:meth:`OpenSensor.held`) when its last row was yielded, and another is asked for.
    """

    def closed(sensor: OpenSensor, last: SensorRow) -> Iterator[pa.RecordBatch]:
        yield from sensor.flush()
        left = sensor.held()
        if held is not None and left is not None:
            held[last.sensor] = left

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sensor: OpenSensor | None = None
        last: SensorRow | None = None
        for batch in batches:
            if not len(batch):
                continue
            starts, _ = sensor_runs(batch)
            for start, stop in pairwise([*starts, len(batch)]):
                first = SensorRow.of(batch, start)
                if sensor is not None and last is not None and not _goes_on(last, first):
                    yield from closed(sensor, last)
                    sensor = None
                if sensor is None:
                    known_for_ms = batch["known_for_ms"][start].as_py()
                    state = carried.get(first.sensor)
                    sensor = _opened(first, rules[first.broker_id], state, known_for_ms)
                last = SensorRow.of(batch, stop - 1)
                yield from sensor.take(batch.slice(start, stop - start))
        if sensor is not None and last is not None:
            yield from closed(sensor, last)

    return run


def _goes_on(last: SensorRow, first: SensorRow) -> bool:
    """Return whether the row ``first`` is of the same sensor's same life as ``last``."""
    return (
        last[:-1] == first[:-1] and first.recorded_at_ms - last.recorded_at_ms <= EXPIRED_AFTER_MS
    )


def _opened(
    first: SensorRow, rules: BrokerRules, state: CarriedState | None, known_for_ms: int
) -> OpenSensor:
    samples, window_ms = rules.of_type(first.quota_type)
    profile = rules.profile
    slots = profile.slots(samples)
    if state is not None and state.is_lost(slots, first.restart_ms, first.recorded_at_ms):
        state = None
    held = SensorStates.allocate([profile], [samples], [window_ms])
    if first.quota_type == QuotaType.REQUEST_PERCENTAGE:
        told = state.intervals if state is not None else None
        if told is not None and len(told["samples"]) <= slots:
            return RequestIntervals(held, held=told)
        # A sensor that is silent for a window begins a sample with the next row.
        return RequestIntervals(held, is_state_known=state is None and known_for_ms >= window_ms)
    bucket = Bucket(burst_s=samples * (window_ms / 1000.0))
    if state is not None and state.bucket is not None:
        bucket.least, bucket.most, bucket.last_update_ms, *_ = state.bucket
    return AlignedMutations(bucket)
