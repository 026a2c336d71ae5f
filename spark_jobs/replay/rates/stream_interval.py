"""A stream over one interval of a log: what is decided of its lines, and what is handed on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.replay.rates.fixed_times import SPAN_MAX_MS
from spark_jobs.replay.rates.handover import Handover, OpenRows
from spark_jobs.replay.rates.rate_stream import Decided, RateStream
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.warehouse.days import Interval


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
