"""A stream over one interval of a log: what is decided of its lines, and what is handed on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_jobs.replay.rates.fixed_times import SPAN_MAX_MS
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.stream_rows import Decided, StreamRows
from spark_jobs.replay.rates.stream_states import NEVER_MS
from spark_jobs.replay.sensors.sensor_states import CarriedState, Place
from spark_jobs.warehouse.days import Interval
from spark_jobs.warehouse.tables import QUOTA_STATE

_ALL_ARE_OPEN, _NONE_IS_OPEN = -1, np.iinfo(np.int64).max


class Handover:
    """A stream's sensors at a moment, where the next replay resumes; the stream itself may go on.

    What was fixed near the end of an interval might be fixed otherwise with the lines that follow.
    So a sensor is handed on as it was some time before the end, with the first amount that this
    state lacks; the next replay reads the log from there again.
    """

    def __init__(self, stream: RateStream) -> None:
        """Take the states as they are now, with what waits as the first amounts they lack."""
        self._stream, self._held = stream, stream.states.copied()
        self._first: dict[int, Place] = {}
        for rows in stream.waiting():
            self.note(rows)

    def note(self, rows: StreamRows) -> None:
        """Take rows that follow, which the states lack."""
        sensors, firsts = np.unique(rows.sensor, return_index=True)
        for sensor, first in zip(sensors.tolist(), firsts.tolist(), strict=True):
            if sensor not in self._first:
                self._first[sensor] = _place(rows, first)

    def rows(self, sensors: np.ndarray) -> pa.Array:
        """Return ``resumes_from`` of ``quota_state`` for these sensors; null where all is said."""
        kind = QUOTA_STATE.field("resumes_from").type
        return pa.array([self._row(sensor) for sensor in sensors.tolist()], kind)

    def _row(self, sensor: int) -> dict[str, object] | None:
        place = self._first.get(sensor)
        if place is None:
            return None
        state = self._state(sensor)
        return {
            "at_ms": place[0],
            "source_file": place[1],
            "source_line": place[2],
            "sensor_epoch": state.sensor_epoch,
            "sensor_seq": state.sensor_seq,
            "sample_index": state.sample_index,
            "samples": [
                {"start_ms": start, "last_event_ms": last, "value": value}
                for start, last, value in state.samples
            ],
            "bucket": None,
        }

    def _state(self, sensor: int) -> CarriedState:
        held = self._held
        if sensor < len(held.epoch) and held.at_ms[sensor] != NEVER_MS:
            index, samples, _ = held.states.export(sensor)
            epoch, seq = int(held.epoch[sensor]), int(held.seq[sensor])
            return CarriedState(epoch, seq, index, tuple(samples))
        # Nothing of it was fixed yet: it is as the interval before handed it on.
        return self._stream.carried(sensor) or CarriedState(0, 0, 0, ())


class OpenRows:
    """Of the lines before an interval, those whose amounts no state handed on has."""

    def __init__(self, stream: RateStream, from_ms: int) -> None:
        """``from_ms`` is when the interval begins; ``stream`` knows what was handed on."""
        self._stream, self._from_ms = stream, from_ms
        self._is_met: set[int] = set()  # sensors whose first open row came

    def of(self, rows: StreamRows) -> StreamRows:
        """Return the rows of the interval and the open ones before it."""
        if not len(rows):
            return rows
        is_before = rows.log_time_ms < self._from_ms
        if not is_before.any():
            return rows
        since_ms = np.full(len(self._stream.codes.names), _ALL_ARE_OPEN, np.int64)
        for sensor in np.unique(rows.sensor[is_before]).tolist():
            since_ms[sensor] = self._since_ms(sensor)
        since_ms = since_ms[rows.sensor]
        is_open = ~is_before | (rows.at_ms > since_ms)
        for row in np.flatnonzero(is_before & (rows.at_ms == since_ms)).tolist():
            is_open[row] = self._is_open(rows, row)
        return rows.take(np.flatnonzero(is_open))

    def _since_ms(self, sensor: int) -> int:
        state = self._stream.carried(sensor)
        if state is None:
            return _ALL_ARE_OPEN
        return _NONE_IS_OPEN if state.resumes_at is None else state.resumes_at[0]

    def _is_open(self, rows: StreamRows, row: int) -> bool:
        """Return True if a row in the millisecond of the first open row is not before that row."""
        sensor = int(rows.sensor[row])
        if sensor not in self._is_met:
            state = self._stream.carried(sensor)
            if state is None or state.resumes_at != _place(rows, row):
                return False
            self._is_met.add(sensor)
        return True


def _place(rows: StreamRows, row: int) -> Place:
    line = rows.lines.slice(int(rows.line[row]), 1)
    file, number = line["source_file"][0].as_py(), line["source_line"][0].as_py()
    return int(rows.at_ms[row]), file, number


class ClosedInterval:
    """Decides the interval's own lines, and hands sensors on as they are after the last one."""

    def __init__(self, stream: RateStream, interval: Interval, rows_min: int) -> None:
        """``rows_min``: so many rows are worth a decision."""
        self.stream = stream
        self._interval, self._rows_min = interval, rows_min

    def decided(self, rows: StreamRows, until_ms: int | None) -> Iterator[Decided]:
        """Yield what is decided when ``rows`` have come, as :meth:`StreamInterval.decided`."""
        is_own = rows.log_time_ms >= self._interval.from_ms
        is_own &= rows.log_time_ms < self._interval.until_ms
        self.stream.take(rows.take(np.flatnonzero(is_own)))
        if until_ms is None or self.stream.is_due(self._rows_min):
            decided = self.stream.decide(until_ms)
            if decided is not None:
                yield decided

    def states(self) -> tuple[RateStream, None]:
        """Return the stream; nothing is handed on but its states."""
        return self.stream, None


class StreamInterval:
    """Decides what came, hands on how sensors were at one moment, and goes on to the end."""

    def __init__(
        self, stream: RateStream, interval: Interval, rows_min: int, *, reads_around: bool
    ) -> None:
        """``rows_min``: so many rows are worth a decision; ``reads_around``: others' lines come."""
        self.stream = stream
        self._interval, self._rows_min, self._reads_around = interval, rows_min, reads_around
        self._open = OpenRows(stream, interval.from_ms)
        self._handover: Handover | None = None
        self._own: RateStream | None = None  # goes on without the lines that follow the interval

    def decided(self, rows: StreamRows, until_ms: int | None) -> Iterator[Decided]:
        """Yield what is decided of the interval's lines when ``rows`` have come.

        All rows before ``until_ms`` have then; None: all there are.
        """
        if self._reads_around:
            rows = self._open.of(rows)
        moment_ms = self._interval.hands_over_ms
        if self._handover is None and (until_ms is None or until_ms > moment_ms):
            is_before = rows.at_ms < moment_ms
            self.stream.take(rows.take(np.flatnonzero(is_before)))
            yield from self._of_interval(self.stream.decide(moment_ms))
            # Else the next replay would begin at the last throttle of a client that went away.
            yield from self._of_interval(self.stream.decide_quiet(moment_ms - SPAN_MAX_MS))
            self._handover = Handover(self.stream)
            self._own = self.stream.fork() if self._reads_around else None
            rows = rows.take(np.flatnonzero(~is_before))
        self._take(rows)
        # What is decided is not kept here while others look at it.
        del rows
        if until_ms is None or self.stream.is_due(self._rows_min):
            yield from self._of_interval(self.stream.decide(until_ms))

    def states(self) -> tuple[RateStream, Handover]:
        """Return the stream as the interval's own lines left it, and what is handed on."""
        assert self._handover is not None, "all rows were decided"
        if self._own is None:
            return self.stream, self._handover
        self._own.decide(None)
        return self._own, self._handover

    def _take(self, rows: StreamRows) -> None:
        self.stream.take(rows)
        if self._handover is None or not len(rows):
            return
        own = rows
        if self._own is not None:
            own = rows.take(np.flatnonzero(rows.log_time_ms < self._interval.until_ms))
            self._own.take(own)
        self._handover.note(own)

    def _of_interval(self, decided: Decided | None) -> Iterator[Decided]:
        if decided is None:
            return
        if self._reads_around:
            line_ms = decided.rows.log_time_ms
            is_own = (line_ms >= self._interval.from_ms) & (line_ms < self._interval.until_ms)
            if not is_own.all():
                decided = decided.take(np.flatnonzero(is_own))
        if len(decided):
            yield decided
