"""Rows of a stream from plain rows of tests, as ``amount_rows.amount`` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import LINE_COLUMNS, StreamRows
from spark_jobs.resolve.broker_log import NOT_STAMPED
from spark_jobs.warehouse.tables import REQUESTS

Row = dict[str, Any]
LINES = pa.schema([REQUESTS.field(name).with_nullable(True) for name in LINE_COLUMNS])


def stream_rows(rows: Sequence[Row], codes: SensorCodes | None = None) -> StreamRows:
    """Return ``rows`` in their order; their sensors are numbered by ``codes``."""
    codes = codes or SensorCodes()

    def column(name: str, kind: Any, missing: Any) -> np.ndarray:
        values = [row.get(name) for row in rows]
        return np.array([missing if v is None else v for v in values], kind)

    lines = [{name: row.get(name) for name in LINE_COLUMNS} for row in rows]
    return StreamRows(
        lines=pa.Table.from_pylist(lines, schema=LINES),
        line=np.arange(len(rows)),
        log_time_ms=column("log_time_ms", np.int64, 0),
        sensor=np.array([codes.code((r["quota_user"], r["quota_client_id"])) for r in rows], int),
        level=np.full(len(rows), -1, np.int8),
        restart_ms=column("restart_ms", np.int64, 0),
        at_ms=column("recorded_at_ms", np.int64, 0),
        earliest_ms=column("earliest_ms", np.int64, 0),
        latest_ms=column("latest_ms", np.int64, 0),
        likely_from_ms=column("likely_from_ms", np.int64, 0),
        line_lag_max_ms=column("line_lag_max_ms", np.int64, 0),
        stamp_ms=column("recorded_logged_ms", np.int64, NOT_STAMPED),
        amount=column("amount", float, np.nan),
        bound=column("bound", float, np.nan),
        logged_ms=column("logged_throttle_time_ms", np.int64, 0),
        known_for_ms=column("known_for_ms", np.int64, 0),
        change_distance_ms=column("change_distance_ms", np.int64, 0),
        bound_beside=column("bound_beside", float, np.nan),
        has_request_bound=column("has_request_bound", bool, False),
        lost_requests=column("lost_requests", np.int64, 0),
        joined_ms=column("joined_ms", np.int64, 0),
        may_precede=column("may_precede", bool, False),
        request_bytes=column("request_bytes", float, np.nan),
        fetch_max_bytes=column("fetch_max_bytes", float, np.nan),
        has_records=column("has_records", bool, False),
        has_errors=column("has_errors", bool, False),
        unlogged_amount_max=column("unlogged_amount_max", float, np.nan),
        unlogged_likely=column("unlogged_likely", float, np.nan),
        short_send_us=column("short_send_us", np.int64, 0),
        lost_amount_max=column("lost_amount_max", float, np.nan),
    )
