"""Who was throttled: each throttled request counted once, for the quota that throttled it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_jobs.judge.decision_counts import SensorUse
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS, SensorKey
from spark_jobs.warehouse.read import read_batches, sensor_filter
from spark_jobs.warehouse.scope import RunScope

_REPEATED = [*ENTITY_COLUMNS, "source_file"]
_COLUMNS = [
    "broker_id",
    *_REPEATED,
    "source_line",
    "recorded_at_ms",
    "logged_throttle_time_ms",
    "replayed_throttle_time_ms",
    "logged_admitted",
]


_SUMMED = (
    ("requests", "sum"),
    ("refused", "sum"),
    ("throttle_time_ms", "sum"),
    ("longest_ms", "max"),
    ("first_ms", "min"),
    ("last_ms", "max"),
)
"""The measures of a second, and how those of a sensor follow from them."""


@dataclass(frozen=True, slots=True)
class ThrottledSensor:
    """How much one sensor throttled."""

    use: SensorUse
    requests: int  # throttled or refused
    refused: int  # mutations refused
    throttle_time_ms: int  # the sum over the requests
    longest_ms: int
    seconds: int  # in which a request was throttled or refused
    first_ms: int
    last_ms: int

    @property
    def sensor(self) -> SensorKey:
        """Return the sensor that throttled."""
        return self.use.sensor


def throttled_by_second(scope: RunScope) -> pa.Table:
    """Return the throttles and refusals of each sensor, by the second in which they happened.

    A request is recorded on several sensors, and its throttle is logged once, as the longest of
    theirs (Kafka: ``KafkaApis.handleProduceRequest``): it belongs to the sensor whose replayed
    throttle is the longest, in doubt to the bandwidth quota. Where none is replayed as throttling
    it belongs to the request quota, of whose use the log holds only a part. Columns: sensor key,
    ``second_ms``, ``requests``, ``refused`` (mutations), ``throttle_time_ms``, ``longest_ms``,
    ``first_ms``, ``last_ms``.
    """
    rows = _held_back(scope)
    rows = _once_per_request(rows) if rows.num_rows else rows
    second = pc.multiply(pc.divide(rows["recorded_at_ms"], 1000), 1000)
    rows = rows.append_column("second_ms", second)
    keys = [*SENSOR_COLUMNS, "second_ms"]
    counted = rows.group_by(keys).aggregate(
        [
            ([], "count_all"),
            ("refused", "sum"),
            ("logged_throttle_time_ms", "sum"),
            ("logged_throttle_time_ms", "max"),
            ("recorded_at_ms", "min"),
            ("recorded_at_ms", "max"),
        ]
    )
    counted = counted.rename_columns([*keys, *(name for name, _ in _SUMMED)])
    for name in ENTITY_COLUMNS:
        at = counted.column_names.index(name)
        counted = counted.set_column(at, name, counted[name].cast(pa.string()))
    return counted


def _held_back(scope: RunScope) -> pa.Table:
    """Return the decisions whose request was throttled or refused; names as dictionaries."""
    held_back = (ds.field("logged_throttle_time_ms") > 0) | ~ds.field("logged_admitted")
    bounded = ds.field("bound").is_valid() | (ds.field("reason") == "throttled_without_quota")
    batches = list(_encoded(read_batches(scope, "decisions", _COLUMNS, held_back & bounded)))
    if not batches:
        kinds = {name: pa.int64() for name in _COLUMNS} | dict.fromkeys(_REPEATED, pa.string())
        return pa.schema((kinds | {"refused": pa.int64()}).items()).empty_table()
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()


def _encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Millions of throttled rows repeat a few names: as dictionaries they are numbers.
    for batch in batches:
        columns = {name: batch[name] for name in batch.schema.names}
        columns |= {name: batch[name].dictionary_encode() for name in _REPEATED}
        columns["refused"] = pc.invert(batch["logged_admitted"]).cast(pa.int64())
        yield pa.RecordBatch.from_pydict(columns)


def _once_per_request(rows: pa.Table) -> pa.Table:
    """Return of each request the row that held it back, with the refusals of all its rows.

    A line of the log is a request; a mutation request is one row a topic on the same sensor.
    """
    replayed = pc.fill_null(rows["replayed_throttle_time_ms"], 0).to_numpy().astype(np.int64)
    quota_type = rows["quota_type"].chunk(0)
    request_quota = quota_type.dictionary.index("request_percentage").as_py()
    is_request_quota = quota_type.indices.to_numpy() == request_quota
    claim = 2 * replayed + np.where(replayed > 0, ~is_request_quota, is_request_quota)
    file = rows["source_file"].chunk(0).indices.to_numpy()
    line = rows["source_line"].to_numpy()
    broker_id = rows["broker_id"].to_numpy()
    order = np.lexsort((-claim, line, file, broker_id))
    request = np.stack([broker_id, file, line])[:, order]
    first = np.flatnonzero(np.any(np.diff(request, prepend=-1) != 0, axis=0))
    refused = np.add.reduceat(rows["refused"].to_numpy()[order], first)
    owners = rows.take(pa.array(order[first]))
    return owners.set_column(owners.column_names.index("refused"), "refused", pa.array(refused))


def throttled_sensors(
    by_second: pa.Table, uses: dict[SensorKey, SensorUse]
) -> tuple[ThrottledSensor, ...]:
    """Return the throttled sensors, the longest total throttle time first.

    ``by_second`` is what :func:`throttled_by_second` returns.
    """
    summed = by_second.group_by(list(SENSOR_COLUMNS)).aggregate([([], "count_all"), *_SUMMED])
    names = [*SENSOR_COLUMNS, "seconds", *(name for name, _ in _SUMMED)]
    sensors = []
    for row in summed.rename_columns(names).to_pylist():
        use = uses[SensorKey(*(row.pop(name) for name in SENSOR_COLUMNS))]
        sensors.append(ThrottledSensor(use, **row))
    sensors.sort(key=lambda s: (-s.throttle_time_ms, -s.requests, s.sensor))
    return tuple(sensors)


def throttled_seconds(by_second: pa.Table, sensors: list[SensorKey]) -> dict[SensorKey, set[int]]:
    """Return, for each of ``sensors``, the seconds (epoch ms) in which it throttled."""
    seconds: dict[SensorKey, set[int]] = {sensor: set() for sensor in sensors}
    for row in by_second.filter(sensor_filter(sensors)).to_pylist():
        seconds[SensorKey.of(row)].add(row["second_ms"])
    return seconds
