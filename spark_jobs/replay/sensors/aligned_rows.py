"""Rows of one sensor on their way from the sorting to the replay, at their chosen times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.sensors.amounts import AMOUNTS
from spark_jobs.warehouse.tables import BOOL, I64

ALIGNED_AMOUNTS = pa.schema(
    [
        *AMOUNTS,
        ("is_proven", BOOL),  # the throttles around it prove the sensor's state
        # What the request quota may have asked for; null: another quota, or nobody can say.
        ("throttle_time_min_ms", I64),
        ("throttle_time_max_ms", I64),
    ]
)


class OpenSensor(Protocol):
    """The sensor whose rows are coming in, in the order of their estimates."""

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield what is settled by them, as ALIGNED_AMOUNTS."""
        ...

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left."""
        ...

    def held(self) -> Mapping[str, Any] | None:
        """Return what the rows left open.

        Of a request quota, what its samples may be after them (``quota_state.intervals``); of
        mutations, the line with which their last stretch began.
        """
        ...


class SensorRow(NamedTuple):
    """What tells rows of different sensors, and of different lives of their broker, apart."""

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str
    restart_ms: int
    recorded_at_ms: int

    @classmethod
    def of(cls, batch: pa.RecordBatch, row: int) -> SensorRow:
        """Return that of a row of AMOUNTS."""
        return cls(*(batch[name][row].as_py() for name in cls._fields))

    @property
    def sensor(self) -> SensorKey:
        """Return the sensor's key."""
        return SensorKey(*self[:4])


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of ``batches``, at least one, as one batch."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def aligned_rows(
    rows: pa.RecordBatch,
    recorded_at_ms: np.ndarray,
    throttle_time_ms: tuple[pa.Array, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return rows of AMOUNTS as ALIGNED_AMOUNTS; ``throttle_time_ms`` is the least and the most."""
    n = len(rows)
    columns = [rows[name] for name in AMOUNTS.names]
    columns[AMOUNTS.get_field_index("recorded_at_ms")] = pa.array(recorded_at_ms, I64)
    columns.append(pa.array(np.zeros(n, bool), BOOL))
    columns += throttle_time_ms or (pa.nulls(n, I64), pa.nulls(n, I64))
    return pa.RecordBatch.from_arrays(columns, schema=ALIGNED_AMOUNTS)
