"""What brokers' own logs say of a batch's rows: the epoch each is of, the time it was recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.ingest.quota_sources.restarts import restarts_ms
from spark_jobs.quota.repeated import repeated
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.quota.states import Int64s
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, scopes_of_days

NO_START_MS = 0
"""Stands for a start that no log tells of."""
KNOWN_MS = 1 << 40
"""Since when a state is known that is known altogether."""
NOT_STAMPED = -1


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epoch of the broker, from start to start, that each row is of."""

    restart_ms: np.ndarray  # NO_START_MS where the log does not tell

    def known_for_ms(self, at_ms: np.ndarray, known_from_ms: np.ndarray) -> np.ndarray:
        """Return the time (ms) each row's sensor has been known at ``at_ms``.

        ``known_from_ms`` is since when all its amounts are in the log. A broker that was started
        since then began with nothing, and is known altogether (KNOWN_MS).
        """
        restarted = (self.restart_ms > NO_START_MS) & (self.restart_ms >= known_from_ms)
        return np.where(restarted, KNOWN_MS, at_ms - known_from_ms)


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """Starts and throttle records of a cluster's brokers; empty where none is archived."""

    starts: Mapping[int, np.ndarray] = field(default_factory=dict)
    records: Mapping[SensorKey, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, starts: Iterable[Mapping[str, Any]], throttle_records: pa.Table | None = None
    ) -> BrokerLog:
        """Return the log that rows of ``broker_starts`` and ``throttle_records`` make up."""
        by_broker = {
            broker_id: np.array(each, np.int64) for broker_id, each in restarts_ms(starts).items()
        }
        return cls(by_broker, {} if throttle_records is None else _by_sensor(throttle_records))

    def epochs(self, broker_id: np.ndarray, latest_ms: np.ndarray) -> Epochs:
        """Return the epoch in which each row, recorded at ``latest_ms`` at the latest, was."""
        if not self.starts:
            return Epochs(repeated(NO_START_MS, len(broker_id)))
        restart_ms = np.full(len(broker_id), NO_START_MS, np.int64)
        for broker, started_ms in self.starts.items():
            rows = np.flatnonzero(broker_id == broker)
            index = np.searchsorted(started_ms, latest_ms[rows], side="right") - 1
            rows, index = rows[index >= 0], index[index >= 0]
            restart_ms[rows] = started_ms[index]
        return Epochs(restart_ms)

    def stamps_ms(
        self,
        broker_id: int,
        quota_type: str,
        names: Sequence[tuple[str, str]],
        sensor: np.ndarray,
        earliest_ms: np.ndarray,
        latest_ms: np.ndarray,
        estimate_us: np.ndarray,
        throttle_time_ms: np.ndarray,
    ) -> np.ndarray:
        """Return the stamp of the broker's record of each throttled row, else NOT_STAMPED.

        ``sensor`` holds indices into ``names``, pairs of quota_user and quota_client_id. A record
        is stamped in the millisecond of its record time, or (1 in 9, measured on 4.1.0) in the next
        one.
        """
        throttled = np.flatnonzero(throttle_time_ms > 0)
        if not self.records or not len(throttled):
            return repeated(NOT_STAMPED, len(sensor))
        at_ms = np.full(len(sensor), NOT_STAMPED, np.int64)
        for code in np.unique(sensor[throttled]).tolist():
            key = SensorKey(broker_id, quota_type, *names[code])
            if key not in self.records:
                continue
            stamps, delays = self.records[key]
            rows = throttled[sensor[throttled] == code]
            told = earliest_ms[rows], latest_ms[rows], estimate_us[rows], throttle_time_ms[rows]
            found = matched_records(*told, stamps, delays)
            is_matched = found != NOT_MATCHED
            at_ms[rows[is_matched]] = stamps[found[is_matched]]
        return at_ms


def _by_sensor(records: pa.Table) -> dict[SensorKey, tuple[np.ndarray, np.ndarray]]:
    columns = [records[name].to_numpy() for name in ("at_ms", "throttle_time_ms")]
    rows: dict[SensorKey, list[int]] = defaultdict(list)
    for row, key in enumerate(records.select(SENSOR_COLUMNS).to_pylist()):
        rows[SensorKey.of(key)].append(row)
    return {key: (columns[0][each], columns[1][each]) for key, each in rows.items()}


def read_starts(scope: RunScope) -> list[dict[str, Any]]:
    """Return the rows of ``broker_starts`` of all ingested days of the cluster, in no order."""
    return [
        row for day in scopes_of_days(scope) for row in read_table(day, "broker_starts").to_pylist()
    ]


def read_broker_log(scope: RunScope) -> BrokerLog:
    """Return the starts that any ingested day tells of, and the throttle records of this one."""
    return BrokerLog.of_rows(read_starts(scope), read_table(scope, "throttle_records"))


NOT_MATCHED = -1
STAMP_SLACK_MS = 1
"""A record's stamp may lie this far outside its request's interval: both are cut to a ms."""


def matched_records(
    earliest_ms: npt.ArrayLike,
    latest_ms: npt.ArrayLike,
    estimate_us: npt.ArrayLike,
    logged_throttle_time_ms: npt.ArrayLike,
    record_at_ms: npt.ArrayLike,
    record_throttle_time_ms: npt.ArrayLike,
) -> Int64s:
    """Return, for each of one sensor's n rows, the index of its record among m, or NOT_MATCHED.

    A record fits a row of the same throttle time whose [earliest, latest], widened by
    STAMP_SLACK_MS, it lies in. No record is used twice; rows without throttle have none. Where
    several fit, as many rows as possible are matched, in order (of the estimates and of the
    records), and among such matchings the one with the smallest distances is returned.
    """
    earliest, latest, estimate, throttle = (
        np.asarray(a, np.int64)
        for a in (earliest_ms, latest_ms, estimate_us, logged_throttle_time_ms)
    )
    at_ms, delay = np.asarray(record_at_ms, np.int64), np.asarray(record_throttle_time_ms, np.int64)
    found = np.full(len(earliest), NOT_MATCHED, np.int64)
    low, high = earliest - STAMP_SLACK_MS, latest + STAMP_SLACK_MS
    for rows, records in _groups(throttle, estimate, delay, at_ms):
        for some_rows, some_records in _clusters(rows, records, low, high, estimate, at_ms):
            gain = _gains(some_rows, some_records, low, high, estimate, at_ms)
            for row, record in _best_in_order(gain):
                found[some_rows[row]] = some_records[record]
    return found


def _groups(
    throttle: Int64s, estimate: Int64s, delay: Int64s, at_ms: Int64s
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the rows and the records of each throttle time, both in the order of time."""
    rows, records = np.lexsort((estimate, throttle)), np.lexsort((at_ms, delay))
    of_rows, of_records = throttle[rows], delay[records]
    for value in np.intersect1d(throttle[throttle > 0], delay):
        yield rows[_run(of_rows, value)], records[_run(of_records, value)]


def _run(ordered: Int64s, value: int) -> slice:
    first, last = np.searchsorted(ordered, (value, value + 1))
    return slice(int(first), int(last))


def _clusters(
    rows: Int64s, records: Int64s, low: Int64s, high: Int64s, estimate: Int64s, at_ms: Int64s
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the rows whose intervals hang together, with the records that lie in their span."""
    order = rows[np.argsort(low[rows], kind="stable")]
    reach = np.maximum.accumulate(high[order])
    times = at_ms[records]
    for some in np.split(order, np.flatnonzero(low[order][1:] > reach[:-1]) + 1):
        first, last = np.searchsorted(times, (low[some].min(), high[some].max() + 1))
        if first < last:
            yield some[np.lexsort((some, estimate[some]))], records[first:last]


def _gains(
    rows: Int64s, records: Int64s, low: Int64s, high: Int64s, estimate: Int64s, at_ms: Int64s
) -> npt.NDArray[np.float64]:
    """Return the gain of matching each row with each record, 0 where the record does not fit.

    One more match is worth more than any distances.
    """
    at = at_ms[records][None, :]
    fits = (low[rows][:, None] <= at) & (at <= high[rows][:, None])
    distance_ms = np.abs(at - estimate[rows][:, None] / 1000.0)
    scale = 1.0 + distance_ms.max() * (min(len(rows), len(records)) + 1)
    return np.where(fits, 1.0 - distance_ms / scale, 0.0)


def _best_in_order(gain: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs (row, record), both rising, whose gains add up to the most."""
    n, m = gain.shape
    best = np.zeros((n + 1, m + 1))
    for i in range(n - 1, -1, -1):
        paired = np.where(gain[i] > 0, gain[i] + best[i + 1, 1:], 0.0)
        best[i, :m] = np.maximum.accumulate(np.maximum(paired, best[i + 1, :m])[::-1])[::-1]
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        if best[i, j] == best[i + 1, j]:
            i += 1
        elif best[i, j] == best[i, j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs
