"""One sensor's rate, bound and tokens over time, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.warehouse.read import read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope

POINTS_MAX = 720
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_COLUMNS = [*SENSOR_COLUMNS, "second_ms", "rate", "tokens", "bound"]


@dataclass(frozen=True, slots=True)
class SensorHistory:
    """Arrays of one length, in order of time; NaN where there is no value."""

    sensor: SensorKey
    step_ms: int  # each point stands for this long
    start_ms: np.ndarray
    rate: np.ndarray  # the highest of the step
    tokens: np.ndarray  # the lowest of the step
    bound: np.ndarray  # the last of the step
    is_throttled: np.ndarray  # a request of the step was throttled or refused

    @property
    def end_ms(self) -> int:
        """Return the end of the last step."""
        return int(self.start_ms[-1]) + self.step_ms


def sensor_histories(
    scope: RunScope, sensors: Iterable[SensorKey], throttled: Mapping[SensorKey, set[int]]
) -> dict[SensorKey, SensorHistory]:
    """Return the history of each of ``sensors`` that has rows in ``rates``.

    ``throttled`` holds the seconds in which each sensor throttled.
    """
    chosen = list(sensors)
    rows = read_table(scope, "rates", _COLUMNS, sensor_filter(chosen))
    histories = {}
    for sensor in chosen:
        own = rows.filter(sensor_filter([sensor])).sort_by("second_ms")
        if own.num_rows:
            histories[sensor] = _thinned(sensor, own, throttled.get(sensor, set()))
    return histories


def _thinned(sensor: SensorKey, rows: pa.Table, throttled: set[int]) -> SensorHistory:
    second_ms = rows["second_ms"].to_numpy()
    span_s = (second_ms[-1] - second_ms[0]) / 1000
    step_ms = 1000 * next((s for s in _STEPS_S if span_s / s <= POINTS_MAX), _STEPS_S[-1])
    starts = second_ms // step_ms * step_ms
    # Rows are in order of time: a step begins where its start differs from the row before.
    first = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    last = np.append(first[1:], len(starts)) - 1
    in_throttled = np.isin(second_ms, np.fromiter(throttled, np.int64, len(throttled)))
    return SensorHistory(
        sensor=sensor,
        step_ms=step_ms,
        start_ms=starts[first],
        rate=np.fmax.reduceat(_floats(rows, "rate"), first),
        tokens=np.fmin.reduceat(_floats(rows, "tokens"), first),
        bound=_floats(rows, "bound")[last],
        is_throttled=np.logical_or.reduceat(in_throttled, first),
    )


def _floats(rows: pa.Table, column: str) -> np.ndarray:
    return np.asarray(rows[column].cast(pa.float64()).to_numpy(), dtype=float)
