"""Which sensors a day has, and their traffic in portions that fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero

from spark_jobs.recommend.traffic import (
    SENSOR,
    TRAFFIC_COLUMNS,
    SensorKey,
    SensorTraffic,
    split_by_sensor,
)

PORTION_ROWS_MAX = 500_000
"""Decisions held at once; a single sensor with more is held whole."""

Aggregate = tuple[str, str, pc.FunctionOptions | None, str]
"""Column, Acero's function, its options, and what the result is called."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor over all brokers, and the quota it followed last in the day."""

    key: SensorKey
    decisions: int
    last_ms: int
    level: str  # one of tables.QUOTA_LEVELS
    bound: float


def bound_sensors(decisions: ds.Dataset) -> list[Sensor]:
    """Return the sensors that a quota still bounds at their last decision, sorted by key.

    Reads ``decisions`` batch by batch: what is held is one row per sensor and value of its quota.
    """
    aggregates: list[Aggregate] = [
        ("recorded_at_ms", "hash_count", pc.CountOptions(mode="all"), "decisions"),
        ("recorded_at_ms", "hash_max", None, "last_ms"),
    ]
    by_sensor: dict[SensorKey, list[dict[str, Any]]] = {}
    for row in grouped(decisions, [*SENSOR, "quota_level", "bound"], aggregates):
        by_sensor.setdefault(tuple(row[name] for name in SENSOR), []).append(row)
    sensors = (_sensor(key, rows) for key, rows in sorted(by_sensor.items()))
    return [sensor for sensor in sensors if sensor is not None]


def _sensor(key: SensorKey, rows: list[dict[str, Any]]) -> Sensor | None:
    last = max(rows, key=lambda r: (r["last_ms"], r["bound"] is not None, r["bound"] or 0.0))
    if last["bound"] is None or last["quota_level"] is None:
        return None
    return Sensor(
        key=key,
        decisions=sum(row["decisions"] for row in rows),
        last_ms=last["last_ms"],
        level=last["quota_level"],
        bound=last["bound"],
    )


def traffic_of(
    decisions: ds.Dataset, sensors: Iterable[Sensor], rows_max: int = PORTION_ROWS_MAX
) -> Iterator[SensorTraffic]:
    """Yield the traffic of ``sensors``, holding ``rows_max`` decisions or one sensor at a time."""
    for portion in _portions(sensors, rows_max):
        yield from split_by_sensor(read_sensors(decisions, [sensor.key for sensor in portion]))


def _portions(sensors: Iterable[Sensor], rows_max: int) -> Iterator[list[Sensor]]:
    portion: list[Sensor] = []
    rows = 0
    for sensor in sensors:
        if portion and rows + sensor.decisions > rows_max:
            yield portion
            portion, rows = [], 0
        portion.append(sensor)
        rows += sensor.decisions
    if portion:
        yield portion


def read_sensors(decisions: ds.Dataset, keys: Sequence[SensorKey]) -> pa.Table:
    """Return all decisions of the sensors named by ``keys``, in TRAFFIC_COLUMNS."""
    wanted = pa.table(dict(zip(SENSOR, map(list, zip(*keys, strict=True)), strict=True)))
    # Each part by itself skips files early; only all three together say which rows are meant.
    parts = [pc.field(name).isin(wanted[name].unique()) for name in SENSOR]
    batches = decisions.to_batches(
        columns=list(TRAFFIC_COLUMNS), filter=parts[0] & parts[1] & parts[2]
    )
    tables = (
        pa.Table.from_batches([batch]).join(wanted, keys=list(SENSOR), join_type="left semi")
        for batch in batches
        if len(batch)
    )
    return pa.concat_tables(tables)


def grouped(
    data: ds.Dataset,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate] = (),
    where: pc.Expression | None = None,
    also_read: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return a row for each group of ``keys``, of the rows ``where`` (all of them without).

    ``also_read`` are the columns of ``where`` that are neither keys nor aggregated.
    """
    columns = list(dict.fromkeys([*keys, *(column for column, *_ in aggregates), *also_read]))
    scan = acero.ScanNodeOptions(data, columns=columns, filter=where)
    steps = [acero.Declaration("scan", scan)]
    if where is not None:
        # A scan passes over files and row groups only.
        steps.append(acero.Declaration("filter", acero.FilterNodeOptions(where)))
    options = acero.AggregateNodeOptions(list(aggregates), keys=list(keys))
    steps.append(acero.Declaration("aggregate", options))
    rows: list[dict[str, Any]] = acero.Declaration.from_sequence(steps).to_table().to_pylist()
    return rows
