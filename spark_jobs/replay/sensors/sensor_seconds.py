"""Decisions on mutations → what each sensor did per second, for the rates table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.warehouse.tables import RATES


def seconds_of_decisions(decisions: pa.Table) -> pa.Table:
    """Return the rows of ``rates`` of few decisions, in order, each second added as recorded."""
    place = ["sensor_epoch", "sensor_seq"]
    order = [(name, "ascending") for name in (*SENSOR_COLUMNS, *place)]
    rows = decisions.sort_by(order)
    at_ms = rows["recorded_at_ms"].to_numpy()
    is_throttled = pc.or_(
        pc.greater(rows["logged_throttle_time_ms"], 0), pc.invert(rows["logged_admitted"])
    )
    counted = pc.if_else(rows["is_unrecorded"], 0.0, pc.fill_null(rows["amount"], 0.0))
    seconds = pa.table(
        {
            **{name: rows[name] for name in SENSOR_COLUMNS},
            "second_ms": at_ms // 1000 * 1000,
            "amount": counted,
            **{name: rows[name] for name in ("rate", "tokens", "bound")},
            "throttled_requests": is_throttled.cast(pa.int64()),
            "throttle_time_ms": rows["logged_throttle_time_ms"].cast(pa.int64()),
        }
    )
    found = seconds.group_by([*SENSOR_COLUMNS, "second_ms"], use_threads=False).aggregate(
        [(name, "sum") for name in ("amount", "throttled_requests", "throttle_time_ms")]
        + [(name, "last", _AS_IT_IS) for name in ("rate", "tokens", "bound")]
    )
    renamed = found.rename_columns([_COLUMN_OF.get(n, n) for n in found.column_names])
    in_order = [(name, "ascending") for name in (*SENSOR_COLUMNS, "second_ms")]
    return renamed.select(RATES.names).cast(RATES).sort_by(in_order)


_AS_IT_IS = pc.ScalarAggregateOptions(skip_nulls=False)
_COLUMN_OF = {
    f"{name}_{how}": name
    for how, names in (
        ("sum", ("amount", "throttled_requests", "throttle_time_ms")),
        ("last", ("rate", "tokens", "bound")),
    )
    for name in names
}
