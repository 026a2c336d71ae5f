"""What held and happened when: each quota's values during the log, each sensor's rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.wording.names import NamedEntity, entity_name


@dataclass(frozen=True, slots=True)
class EntityTimeline(NamedEntity):
    """Every value one entity's quota had during the log, in order of time.

    ``held`` are rows of ``quota_changes`` with where in the log's time they begin, and how long
    they last there, in percent: ``left_percent`` and ``width_percent``.
    """

    quota_type: str
    quota_user: str | None
    quota_client_id: str | None
    held: tuple[dict[str, Any], ...]


def quota_timelines(
    rows: Iterable[dict[str, Any]], span_ms: tuple[int, int]
) -> tuple[EntityTimeline, ...]:
    """Return the timelines of ``rows`` of ``quota_changes`` over ``span_ms`` (epoch ms)."""
    return tuple(
        EntityTimeline(
            quota_type, user or None, client_id or None, tuple(_held(row, span_ms) for row in group)
        )
        for (quota_type, _, user, client_id), group in groupby(
            sorted(rows, key=_order), key=_entity
        )
    )


def _entity(row: dict[str, Any]) -> tuple[str, str, str, str]:
    user, client_id = row["quota_user"], row["quota_client_id"]
    return row["quota_type"], entity_name(user, client_id), user or "", client_id or ""


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    broker_id = -1 if row["broker_id"] is None else row["broker_id"]
    return (*_entity(row), row["valid_from_ms"], broker_id, row["bound"])


def _held(row: dict[str, Any], span_ms: tuple[int, int]) -> dict[str, Any]:
    first, last = span_ms
    length = max(last - first, 1)
    until = last if row["valid_until_ms"] is None else row["valid_until_ms"]
    left = _percent(row["valid_from_ms"] - first, length)
    width = round(_percent(until - first, length) - left, 2)
    return row | {"left_percent": left, "width_percent": width}


def _percent(part: int, whole: int) -> float:
    return round(min(max(100.0 * part / whole, 0.0), 100.0), 2)


POINTS_MAX = 720


_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)


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


def thinned(sensor: SensorKey, rows: pa.Table, throttled: set[int]) -> SensorHistory:
    """Return the history of a sensor's rows of ``rates``, in order of time.

    ``throttled`` holds the seconds (epoch ms) in which it throttled.
    """
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
