"""What the request quota may have asked for: its sensors, replayed with what the log leaves open.

The time of network threads is in no line, so the rate is an interval, and so is the throttle
(:mod:`spark_jobs.quota.request_time`). A sensor's rows are gathered until no later one can overlap
them, and go on with the least and the most throttle of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.interval_states import IntervalStates
from spark_jobs.quota.request_time import PERCENT_PER_US, RequestRows, replay_requests
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.sensors.aligned_rows import aligned_rows, one_batch
from spark_jobs.replay.sensors.amounts import floats

ROWS_MIN, ROWS_MAX = 2_048, 16_384
SETTLE_MS = 2_000
"""No row that is still to come was recorded so long before the last one that is there."""
CHANGE_MS = 1_000
"""So close to a quota change, another sensor may have got a request."""
HANDSHAKE_US = 20_000.0
"""What authentication may have taken; the first request of a connection pays for it."""
_RECORDED = ("latest_ms", "log_time_ms")
# With so few samples the arithmetic of intervals was not compared with brokers.
SAMPLES_MIN = 4


class RequestIntervals:
    """One sensor of the request quota; rows wait until those that overlap them are there."""

    def __init__(
        self,
        states: SensorStates,
        *,
        is_state_known: bool = True,
        held: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin with a sensor that recorded nothing so far (``states`` of one row).

        ``is_state_known`` False: it had, nobody knows what or when; it is gone after two windows,
        but when its samples begin follows from when they began. ``held`` is what :meth:`held`
        returned where the rows before ended.
        """
        self._states = IntervalStates.of(states)
        self._is_begun = is_state_known or held is not None
        self._known_from_ms = self._until_ms = 0
        if held is not None:
            self._states.restore(0, held)
            self._known_from_ms, self._until_ms = held["known_from_ms"], held["until_ms"]
        self._first_ms = self._until_ms + 1  # a row before may have met less than what is held
        self._can_say = int(states.samples[0]) >= SAMPLES_MIN
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        # Of the rows settled last: whatever lasts so long is authenticated.
        self._connections: frozenset[str] = frozenset()

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield what is settled by them."""
        if not self._is_begun:
            self._begin(rows)
        for start in range(0, len(rows), ROWS_MIN):
            self._waiting.append(rows.slice(start, ROWS_MIN))
            self._rows += len(self._waiting[-1])
            if self._rows >= ROWS_MIN:
                yield from self._settle(is_last=False)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left."""
        if self._rows:
            yield from self._settle(is_last=True)

    def held(self) -> Mapping[str, Any]:
        """Return what the sensor may hold after all rows, as :class:`RequestIntervals` takes it."""
        known = {"known_from_ms": self._known_from_ms, "until_ms": self._until_ms}
        return known | self._states.export(0)

    def _begin(self, rows: pa.RecordBatch) -> None:
        first = (rows[name][0].as_py() for name in ("earliest_ms", "latest_ms"))
        self._states.may_hold_a_sample(0, *first)
        span_ms = int(self._states.samples[0] * self._states.window_ms[0])
        self._known_from_ms = rows["recorded_at_ms"][0].as_py() + 2 * span_ms
        self._is_begun = True

    def _settle(self, *, is_last: bool) -> Iterator[pa.RecordBatch]:
        rows = one_batch(self._waiting)
        settled = len(rows) if is_last else _settled(rows)
        if len(rows) - settled >= ROWS_MAX:
            settled = len(rows) - ROWS_MIN
        self._waiting = [rows.slice(settled)] if settled < len(rows) else []
        self._rows = len(rows) - settled
        if settled:
            yield self._replayed(rows.slice(0, settled))

    def _replayed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        at_ms = rows["recorded_at_ms"].to_numpy()
        allowed = replay_requests(_request_rows(rows, self._connections), self._states)
        self._connections = frozenset(rows["connection"].unique().to_pylist())
        unknown = np.full(len(rows), not self._can_say) | (at_ms < self._known_from_ms)
        unknown |= rows["earliest_ms"].to_numpy() < self._first_ms
        self._until_ms = max(self._until_ms, *(pc.max(rows[name]).as_py() for name in _RECORDED))
        unknown |= np.isnan(rows["bound"].to_numpy())
        least, most = (
            pa.array(ms, mask=unknown)
            for ms in (allowed.throttle_time_min_ms, allowed.throttle_time_max_ms)
        )
        return aligned_rows(rows, at_ms, throttle_time_ms=(least, most))


def _settled(rows: pa.RecordBatch) -> int:
    """Return how many rows at the begin surely do not overlap any that follows, or will come."""
    latest_ms = np.maximum.accumulate(rows["log_time_ms"].to_numpy())
    earliest_ms = np.minimum.accumulate(rows["earliest_ms"].to_numpy()[::-1])[::-1]
    coming_ms = rows["recorded_at_ms"].to_numpy()[-1] - SETTLE_MS
    is_apart = latest_ms[:-1] < np.minimum(earliest_ms[1:], coming_ms)
    (cuts,) = np.nonzero(is_apart)
    return int(cuts[-1]) + 1 if len(cuts) else 0


def _request_rows(rows: pa.RecordBatch, authenticated: frozenset[str]) -> RequestRows:
    n = len(rows)
    later_us = floats(rows["unlogged_amount_max"]) / PERCENT_PER_US
    connections = rows["connection"].dictionary_encode()
    codes, first_rows = np.unique(connections.indices.to_numpy(), return_index=True)
    names = connections.dictionary.to_pylist()
    is_new = np.array([names[code] not in authenticated for code in codes.tolist()], bool)
    later_us[first_rows[is_new]] += HANDSHAKE_US
    lost = floats(rows["lost_requests"]), floats(rows["lost_bytes_max"])
    return RequestRows(
        sensor=np.zeros(n, np.int64),
        earliest_ms=rows["earliest_ms"].to_numpy(),
        latest_ms=rows["latest_ms"].to_numpy(),
        log_time_ms=rows["log_time_ms"].to_numpy(),
        handler_time_us=np.rint(floats(rows["amount"]) / PERCENT_PER_US),
        network_time_max_us=later_us,
        surely_counted=rows["change_distance_ms"].to_numpy() >= CHANGE_MS,
        bound=rows["bound"].to_numpy(),
        unlogged_max=np.where(lost[0] > 0, np.nan_to_num(lost[1], nan=np.inf), 0.0),
    )
