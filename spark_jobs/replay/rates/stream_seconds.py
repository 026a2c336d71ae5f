"""A stream's decisions → its rows of ``rates``: one sensor in one second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_jobs.replay.rates.rate_stream import Decided, RateStream
from spark_jobs.replay.rates.stream_tables import coded, constant, finite, named_sensors, table_of
from spark_jobs.warehouse.tables import RATES

HELD_BACK_MS = 2_000
"""A row that is fixed later was recorded so long before a sensor's last one at most."""

GATHERED_ROWS = 32_768
_COUNTS = ("throttled_requests", "throttle_time_ms")
_LASTS = ("rate", "bound")
_KEY = ("sensor", "second_ms")
Columns = dict[str, np.ndarray]


@dataclass(slots=True)
class StreamSeconds:
    """Seconds of a stream, gathered to be written many at a time in the order of sensors.

    The last ones of each sensor are held back, for more rows of them.
    """

    _held: Columns | None = None
    _over: list[Columns] = field(default_factory=list)

    def take(self, decided: Decided) -> Columns | None:
        """Return the seconds that are over, once they are many; arrays of one length."""
        fresh = _seconds(decided)
        seconds = _merged(_concat([*([self._held] if self._held else []), fresh]))
        last_ms = np.full(int(seconds["sensor"].max()) + 1, -1, np.int64)
        np.maximum.at(last_ms, seconds["sensor"], seconds["second_ms"])
        is_held = seconds["second_ms"] > last_ms[seconds["sensor"]] - HELD_BACK_MS
        self._held = {name: column[is_held] for name, column in seconds.items()}
        self._over.append({name: column[~is_held] for name, column in seconds.items()})
        if sum(len(over["sensor"]) for over in self._over) < GATHERED_ROWS:
            return None
        return self._gathered()

    def rest(self) -> Columns | None:
        """Return all seconds not returned so far; None where there are none."""
        if self._held is not None:
            self._over.append(self._held)
            self._held = None
        return self._gathered() if self._over else None

    def _gathered(self) -> Columns:
        gathered, self._over = _concat(self._over), []
        return gathered


def rate_rows(seconds: Columns, stream: RateStream) -> pa.Table:
    """Return rows of RATES, in the order of the sensors' names and of time."""
    order = _order(stream.codes.ranks()[seconds["sensor"]], seconds["second_ms"])
    ordered = {name: column[order] for name, column in seconds.items()}
    n = len(order)
    users, client_ids = named_sensors(stream.codes, ordered["sensor"])
    columns = {
        "broker_id": pa.array(np.full(n, stream.broker_id, np.int32)),
        "quota_type": constant(stream.states.quota_type, n),
        "quota_user": users,
        "quota_client_id": client_ids,
        "second_ms": pa.array(ordered["second_ms"]),
        "amount": pa.array(ordered["amount"]),
        "rate": finite(ordered["rate"]),
        "bound": finite(ordered["bound"]),
        "throttled_requests": pa.array(ordered["throttled_requests"]),
        "throttle_time_ms": pa.array(ordered["throttle_time_ms"]),
    }
    return table_of(columns, coded(RATES), n)


def _seconds(decided: Decided) -> Columns:
    rows = decided.rows
    amount = np.where(decided.is_unrecorded, 0.0, np.nan_to_num(rows.amount))
    return {
        "sensor": rows.sensor.astype(np.int64),
        "second_ms": decided.recorded_at_ms // 1000 * 1000,
        "amount": amount,
        "throttled_requests": (rows.logged_ms > 0).astype(np.int64),
        "throttle_time_ms": rows.logged_ms,
        "rate": decided.rate,
        "bound": rows.bound,
    }


def _order(sensor: np.ndarray, second_ms: np.ndarray) -> np.ndarray:
    """Return the order of sensors and of time: runs that are in order already are merged."""
    second = (second_ms - second_ms.min()) // 1000
    return np.argsort(sensor.astype(np.int64) * (second.max() + 1) + second, kind="stable")


def _concat(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _merged(rows: Columns) -> Columns:
    """Return one row for each sensor and second; of rates and bounds the last one counts.

    Amounts are added from the left, as the sensor recorded them.
    """
    order = _order(rows["sensor"], rows["second_ms"])
    sensor, second_ms = rows["sensor"][order], rows["second_ms"][order]
    is_first = np.append(True, (sensor[1:] != sensor[:-1]) | (second_ms[1:] != second_ms[:-1]))
    starts, second = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    lasts = np.append(starts[1:], len(sensor)) - 1
    merged = {name: rows[name][order[starts]] for name in _KEY}
    merged |= {name: np.add.reduceat(rows[name][order], starts) for name in _COUNTS}
    merged["amount"] = np.bincount(second, rows["amount"][order])
    return merged | {name: rows[name][order[lasts]] for name in _LASTS}
