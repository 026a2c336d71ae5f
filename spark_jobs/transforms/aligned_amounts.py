"""Amounts in the order of their estimates → in the order and at the times they were recorded at.

Between the sorting and the replay, on the same partitions: a sensor's rows are gathered into
windows, and every window is aligned with what its broker logged (``spark_jobs.align``). Only
producer sensors are: a logged throttle of theirs tells when the request was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.align.events import EXACT, UP_TO, Events, Samples, Window
from spark_jobs.align.placement import Placed
from spark_jobs.align.proof import proven
from spark_jobs.align.step import NOT_ASKED
from spark_jobs.align.window import align_window
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.states import SensorStates
from spark_jobs.tables import BOOL, I64
from spark_jobs.transforms.amounts import AMOUNTS, AmountBatches, bools, floats
from spark_jobs.transforms.sensor_replay import (
    EXPIRED_AFTER_MS,
    BrokerRules,
    CarriedState,
    SensorKey,
    sensor_runs,
)

ALIGNED_AMOUNTS = pa.schema(
    [*AMOUNTS, ("is_proven", BOOL)]  # the throttles around it prove the sensor's state
)
ALIGNED_TYPE = "producer_byte_rate"

# A window is aligned when it holds this many rows and rate windows, or so many rows at most.
ROWS_MIN, ROWS_MAX = 2_048, 16_384
_RATE_WINDOWS = 4
# The bits of an int64 name the samples.
SAMPLES_MAX = 60


def align_amounts(
    rules: Mapping[int, BrokerRules], carried: Mapping[SensorKey, CarriedState]
) -> AmountBatches:
    """Return the ``mapInArrow`` function that turns sorted AMOUNTS into ALIGNED_AMOUNTS.

    The rows of a sensor must be contiguous; they stay so. Rows of one broker's life, between two
    restarts or an hour of silence, are aligned together.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sensor: _OpenSensor | None = None
        for batch in batches:
            if not len(batch):
                continue
            starts, _ = sensor_runs(batch)
            for start, stop in pairwise([*starts, len(batch)]):
                first = _Row.of(batch, start)
                if sensor is not None and not sensor.goes_on(first):
                    yield from sensor.flush()
                    sensor = None
                if sensor is None:
                    sensor = _OpenSensor(first, rules[first.broker_id], carried.get(first.sensor))
                yield from sensor.take(batch.slice(start, stop - start))
        if sensor is not None:
            yield from sensor.flush()

    return run


def as_estimated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield AMOUNTS as ALIGNED_AMOUNTS at their estimated times, for plain replays."""
    for batch in batches:
        yield _aligned_rows(batch, _as_estimated(batch), np.zeros(len(batch), bool))


class _OpenSensor:
    """The sensor whose rows are coming in: those not settled yet, and the samples before them."""

    def __init__(self, first: _Row, rules: BrokerRules, state: CarriedState | None) -> None:
        samples, window_ms = rules.of_type(first.quota_type)
        self._last = first
        self._profile = rules.profile
        self._window = Window(samples, window_ms, rules.profile.keeps_overlapping_sample)
        self._states = self._fresh_states()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        slots = rules.profile.slots(samples)
        if state is not None and not state.is_lost(slots, first.restart_ms, first.recorded_at_ms):
            self._states.restore(0, state.sample_index, state.samples, None, None)

    def goes_on(self, first: _Row) -> bool:
        """Return whether the row ``first`` is of the same sensor's same life."""
        return (
            self._last[:-1] == first[:-1]
            and first.recorded_at_ms - self._last.recorded_at_ms <= EXPIRED_AFTER_MS
        )

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield what is settled by them."""
        self._last = _Row.of(rows, len(rows) - 1)
        if self._last.quota_type != ALIGNED_TYPE or self._window.samples > SAMPLES_MAX:
            yield _aligned_rows(rows, _as_estimated(rows), np.zeros(len(rows), bool))
            return
        for start in range(0, len(rows), ROWS_MIN):
            self._waiting.append(rows.slice(start, ROWS_MIN))
            self._rows += len(self._waiting[-1])
            if self._is_due():
                yield self._settle(is_last=False)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left."""
        if self._rows:
            yield self._settle(is_last=True)

    def _fresh_states(self) -> SensorStates:
        return SensorStates.allocate(
            [self._profile], [self._window.samples], [self._window.window_ms]
        )

    def _is_due(self) -> bool:
        first_ms = self._waiting[0]["recorded_at_ms"][0].as_py()
        span_ms = self._last.recorded_at_ms - first_ms
        is_long = span_ms >= _RATE_WINDOWS * self._window.expire_age_ms
        return self._rows >= ROWS_MAX or (self._rows >= ROWS_MIN and is_long)

    def _settle(self, *, is_last: bool) -> pa.RecordBatch:
        rows = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()[0]
        placed, is_proven, settled = self._placed(rows, is_last=is_last)
        in_turn = rows.take(pa.array(placed.order[:settled]))
        done = Placed(*(column[:settled] for column in placed))
        _replay(in_turn, done.recorded_at_ms, self._states)
        self._waiting = [rows.slice(settled)] if settled < len(rows) else []
        self._rows = len(rows) - settled
        return _aligned_rows(in_turn, done, is_proven[:settled])

    def _placed(self, rows: pa.RecordBatch, *, is_last: bool) -> tuple[Placed, np.ndarray, int]:
        """Return the record times, whether the state is proven, and how many rows are settled."""
        unverified = np.zeros(len(rows), bool)
        estimated = _as_estimated(rows)
        if np.isnan(floats(rows["amount"])).any():
            return estimated, unverified, len(rows)
        if self._has_nothing_to_explain(rows):
            # The last samples may still matter to a throttle that comes.
            until_ms = (
                estimated.recorded_at_ms[-1] - _RATE_WINDOWS * self._window.expire_age_ms // 2
            )
            settled = int(np.searchsorted(estimated.recorded_at_ms, until_ms))
            if is_last or settled > 0:
                return estimated, unverified, len(rows) if is_last else settled
        events = _events(rows)
        aligned = align_window(events, _samples(self._states), self._window, is_last=is_last)
        in_turn = rows.take(pa.array(aligned.placed.order))
        is_proven = proven(
            aligned.placed, events, self._tried_ms(in_turn, aligned.placed.recorded_at_ms),
            self._window.window_ms, 2 * self._window.expire_age_ms,
        )  # fmt: skip
        return aligned.placed, is_proven, aligned.settled

    def _has_nothing_to_explain(self, rows: pa.RecordBatch) -> bool:
        """Return whether nobody was throttled nor was due to be: any order will do."""
        if rows["logged_throttle_time_ms"].to_numpy().any():
            return False
        return not self._tried_ms(rows, rows["recorded_at_ms"].to_numpy()).any()

    def _tried_ms(self, rows: pa.RecordBatch, recorded_at_ms: np.ndarray) -> np.ndarray:
        """Return the throttles of rows at these times; the sensor's own state stays."""
        trial = self._fresh_states()
        trial.copy_sensor(0, self._states, 0)
        return _replay(rows, recorded_at_ms, trial).throttle_time_ms


class _Row(NamedTuple):
    """What tells rows of different sensors, and of different lives of their broker, apart."""

    broker_id: int
    quota_type: str
    quota_user: str
    quota_client_id: str
    restart_ms: int
    recorded_at_ms: int

    @classmethod
    def of(cls, batch: pa.RecordBatch, row: int) -> _Row:
        return cls(*(batch[name][row].as_py() for name in cls._fields))

    @property
    def sensor(self) -> SensorKey:
        return self.broker_id, self.quota_type, self.quota_user, self.quota_client_id


def _as_estimated(rows: pa.RecordBatch) -> Placed:
    return Placed(
        order=np.arange(len(rows)),
        recorded_at_ms=rows["recorded_at_ms"].to_numpy(),
        status=np.full(len(rows), NOT_ASKED),
    )


def _events(rows: pa.RecordBatch) -> Events:
    """Return the rows as the search takes them; the broker's own stamp is at most 1 ms late."""
    stamp_ms = floats(rows["recorded_logged_ms"])
    is_stamped = ~np.isnan(stamp_ms)
    at_ms = np.where(is_stamped, stamp_ms, 0).astype(np.int64)
    return Events(
        earliest_ms=np.where(is_stamped, at_ms - 1, rows["earliest_ms"].to_numpy()),
        latest_ms=np.where(is_stamped, at_ms, rows["latest_ms"].to_numpy()),
        likely_from_ms=np.where(is_stamped, at_ms, rows["likely_from_ms"].to_numpy()),
        likely_until_ms=np.where(is_stamped, at_ms, rows["latest_ms"].to_numpy()),
        amount=floats(rows["amount"]),
        bound=rows["bound"].to_numpy(),
        logged_throttle_time_ms=rows["logged_throttle_time_ms"].to_numpy().astype(np.int64),
        evidence=np.where(bools(rows["has_request_bound"]), UP_TO, EXACT).astype(np.int8),
    )


def _samples(states: SensorStates) -> Samples:
    return Samples(
        start_ms=states.start_ms[0].copy(),
        last_event_ms=states.last_event_ms[0].copy(),
        value=states.value[0].copy(),
        count=int(states.count[0]),
        index=int(states.index[0]),
    )


def _replay(rows: pa.RecordBatch, recorded_at_ms: np.ndarray, states: SensorStates) -> RateReplay:
    """Return the decisions at these times; ``states`` moves on."""
    n = len(rows)
    return replay_rate(
        np.zeros(n, np.int64),
        recorded_at_ms,
        np.nan_to_num(floats(rows["amount"])),
        rows["bound"].to_numpy(),
        rows["behaviour"].to_numpy(),
        rows["logged_throttle_time_ms"].to_numpy().astype(np.int64),
        np.full(n, NO_THROTTLE_MAX),
        *states.rate_arrays(),
    )


def _aligned_rows(rows: pa.RecordBatch, placed: Placed, is_proven: np.ndarray) -> pa.RecordBatch:
    columns = [rows[name] for name in AMOUNTS.names]
    columns[AMOUNTS.get_field_index("recorded_at_ms")] = pa.array(placed.recorded_at_ms, I64)
    columns.append(pa.array(is_proven, BOOL))
    return pa.RecordBatch.from_arrays(columns, schema=ALIGNED_AMOUNTS)
