"""A producer's sensor: at which times, and in which order, its broker recorded its requests.

Rows are gathered into windows, and every window is aligned with what the broker logged
(``spark_jobs.align``): a logged throttle tells when its request was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_jobs.align.events import EXACT, UP_TO, Events, Samples, Window
from spark_jobs.align.placement import Placed
from spark_jobs.align.proof import proven
from spark_jobs.align.window import align_window
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.transforms.aligned_rows import aligned_rows, estimated, one_batch
from spark_jobs.transforms.amounts import bools, floats
from spark_jobs.transforms.sensor_replay import CarriedState

# A window is aligned when it holds this many rows and rate windows, or so many rows at most.
ROWS_MIN, ROWS_MAX = 2_048, 16_384
_RATE_WINDOWS = 4
# The bits of an int64 name the samples.
SAMPLES_MAX = 60


class AlignedSensor:
    """The sensor whose rows are coming in: those not settled yet, and the samples before them."""

    def __init__(self, profile: RateProfile, window: Window, state: CarriedState | None) -> None:
        """Begin with what the sensor held before, None: nothing."""
        self._profile, self._window = profile, window
        self._states = self._fresh_states()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        if state is not None:
            self._states.restore(0, state.sample_index, state.samples, None, None)

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; yield what is settled by them."""
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
        span_ms = self._waiting[-1]["recorded_at_ms"][-1].as_py() - first_ms
        is_long = span_ms >= _RATE_WINDOWS * self._window.expire_age_ms
        return self._rows >= ROWS_MAX or (self._rows >= ROWS_MIN and is_long)

    def _settle(self, *, is_last: bool) -> pa.RecordBatch:
        rows = one_batch(self._waiting)
        placed, is_proven, settled = self._placed(rows, is_last=is_last)
        in_turn = rows.take(pa.array(placed.order[:settled]))
        done = Placed(*(column[:settled] for column in placed))
        _replay(in_turn, done.recorded_at_ms, self._states)
        self._waiting = [rows.slice(settled)] if settled < len(rows) else []
        self._rows = len(rows) - settled
        return aligned_rows(in_turn, done.recorded_at_ms, is_proven[:settled])

    def _placed(self, rows: pa.RecordBatch, *, is_last: bool) -> tuple[Placed, np.ndarray, int]:
        """Return the record times, whether the state is proven, and how many rows are settled."""
        unverified = np.zeros(len(rows), bool)
        placed = estimated(rows)
        if np.isnan(floats(rows["amount"])).any():
            return placed, unverified, len(rows)
        if self._has_nothing_to_explain(rows):
            # The last samples may still matter to a throttle that comes.
            until_ms = placed.recorded_at_ms[-1] - _RATE_WINDOWS * self._window.expire_age_ms // 2
            settled = int(np.searchsorted(placed.recorded_at_ms, until_ms))
            if is_last or settled > 0:
                return placed, unverified, len(rows) if is_last else settled
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
