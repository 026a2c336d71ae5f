"""Part of step judge_decisions: rates per second → per minute, hour and day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.judge.throttles import throttled_by_second
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS
from spark_jobs.warehouse.read import count_rows, read_batches
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import RATE_ROLLUPS, ROLLUP_SPANS_MS
from spark_jobs.warehouse.write import ROWS_IN_GROUP, write_table

_KEYS = (*SENSOR_COLUMNS, "from_ms")
_RATES = (*SENSOR_COLUMNS, "second_ms", "amount", "rate", "tokens", "bound")
_ORDER = (*ENTITY_COLUMNS, "broker_id", "from_ms")
_MEASURES = {
    "seconds": "sum",
    "amount": "sum",
    "rate": "max",
    "tokens": "min",
    "bound_min": "min",
    "bound_max": "max",
    "throttled_requests": "sum",
    "throttle_time_ms": "sum",
}

# A sum of floats tells in which order it was made: of files, of threads.
_EXACT = pa.decimal128(38, 12)


def roll_up_rates(scope: RunScope) -> int:
    """Write the ``rate_rollups`` of a day, in order of sensor and time; return how many rows.

    No more than the day's minutes are in memory.
    """
    minutes = _minutes(scope)
    spans = [minutes.append_column("span_ms", _repeated(ROLLUP_SPANS_MS[0], minutes))]
    for span_ms in ROLLUP_SPANS_MS[1:]:
        coarser = _rolled_up(spans[-1], span_ms)
        spans.append(coarser.append_column("span_ms", _repeated(span_ms, coarser)))
    write_rollups(spans, scope)
    return sum(rows.num_rows for rows in spans)


def write_rollups(spans: Sequence[pa.Table], scope: RunScope) -> None:
    """Write the rows of each span, the minutes first, as a file in order of sensor and time."""
    in_order = [(name, "ascending") for name in _ORDER]
    ordered = [
        rows.select(RATE_ROLLUPS.names).cast(RATE_ROLLUPS).sort_by(in_order) for rows in spans
    ]
    # A client has few hours: groups as small as theirs cost little, for there are few in all.
    in_group = [ROWS_IN_GROUP, *[ROWS_IN_GROUP // 16] * (len(ordered) - 1)]
    write_table(list(zip(ordered, in_group, strict=True)), "rate_rollups", scope)


def _minutes(scope: RunScope) -> pa.Table:
    measures = [("amount", "sum"), ("rate", "max"), ("tokens", "min"), ("bound", "min"),
                ("bound", "max")]  # fmt: skip
    counted = count_rows(_by_minute(scope), _KEYS, measures)
    if counted is None:
        return RATE_ROLLUPS.empty_table().drop_columns(["span_ms"])
    minutes = counted.rename_columns(
        [*_KEYS, "seconds", "amount", "rate", "tokens", "bound_min", "bound_max"]
    )
    throttled = minutes.join(_throttled(scope), list(_KEYS), join_type="left outer")
    for name in ("throttled_requests", "throttle_time_ms"):
        place = throttled.column_names.index(name)
        throttled = throttled.set_column(place, name, pc.fill_null(throttled[name], 0))
    return throttled.select([n for n in RATE_ROLLUPS.names if n != "span_ms"])


def _by_minute(scope: RunScope) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(scope, "rates", _RATES):
        minute = _begin(batch.column("second_ms"), ROLLUP_SPANS_MS[0])
        columns = {name: batch.column(name) for name in _RATES if name != "second_ms"}
        columns["amount"] = columns["amount"].cast(_EXACT)
        yield pa.RecordBatch.from_pydict(columns | {"from_ms": minute})


def _throttled(scope: RunScope) -> pa.Table:
    seconds = throttled_by_second(scope)
    minute = _begin(seconds["second_ms"], ROLLUP_SPANS_MS[0])
    counted = (
        seconds.append_column("from_ms", minute)
        .group_by(list(_KEYS))
        .aggregate([("requests", "sum"), ("throttle_time_ms", "sum")])
    )
    names = [*_KEYS, "throttled_requests", "throttle_time_ms"]
    rows = counted.select([*_KEYS, "requests_sum", "throttle_time_ms_sum"]).rename_columns(names)
    # Of no row, no type was seen.
    return rows.cast(pa.schema([RATE_ROLLUPS.field(name) for name in names]))


def _rolled_up(rows: pa.Table, span_ms: int) -> pa.Table:
    place = rows.column_names.index("from_ms")
    wider = rows.set_column(place, "from_ms", _begin(rows["from_ms"], span_ms))
    counted = wider.group_by(list(_KEYS)).aggregate(list(_MEASURES.items()))
    taken = [f"{name}_{how}" for name, how in _MEASURES.items()]
    return counted.select([*_KEYS, *taken]).rename_columns([*_KEYS, *_MEASURES])


def _begin(times: pa.ChunkedArray, span_ms: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(times, span_ms), span_ms)


def _repeated(value: int, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows)
