"""A lane over one interval of a log: what is decided of its lines, and what is handed on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.replay.rates.fixed_times import SPAN_MAX_MS
from spark_jobs.replay.rates.handover import Handover, OpenRows
from spark_jobs.replay.rates.rate_stream import Decided, RateLane
from spark_jobs.replay.rates.stream_rows import LaneRows
from spark_jobs.warehouse.days import Interval


class ClosedInterval:
    """Decides the interval's own lines, and hands sensors on as they are after the last one."""

    def __init__(self, lane: RateLane, interval: Interval, rows_min: int) -> None:
        """``rows_min``: so many rows are worth a decision."""
        self.lane = lane
        self._interval, self._rows_min = interval, rows_min

    def decided(self, rows: LaneRows, until_ms: int | None) -> Iterator[Decided]:
        """Yield what is decided when ``rows`` have come, as :meth:`LaneInterval.decided`."""
        is_own = rows.log_time_ms >= self._interval.from_ms
        is_own &= rows.log_time_ms < self._interval.until_ms
        self.lane.take(rows.take(np.flatnonzero(is_own)))
        if until_ms is None or self.lane.is_due(self._rows_min):
            decided = self.lane.decide(until_ms)
            if decided is not None:
                yield decided

    def states(self) -> tuple[RateLane, None]:
        """Return the lane; nothing is handed on but its states."""
        return self.lane, None


class LaneInterval:
    """Decides what came, hands on how sensors were at one moment, and goes on to the end."""

    def __init__(
        self, lane: RateLane, interval: Interval, rows_min: int, *, reads_around: bool
    ) -> None:
        """``rows_min``: so many rows are worth a decision; ``reads_around``: others' lines come."""
        self.lane = lane
        self._interval, self._rows_min, self._reads_around = interval, rows_min, reads_around
        self._open = OpenRows(lane, interval.from_ms)
        self._handover: Handover | None = None
        self._own: RateLane | None = None  # goes on without the lines that follow the interval

    def decided(self, rows: LaneRows, until_ms: int | None) -> Iterator[Decided]:
        """Yield what is decided of the interval's lines when ``rows`` have come.

        All rows before ``until_ms`` have then; None: all there are.
        """
        if self._reads_around:
            rows = self._open.of(rows)
        moment_ms = self._interval.hands_over_ms
        if self._handover is None and (until_ms is None or until_ms > moment_ms):
            is_before = rows.at_ms < moment_ms
            self.lane.take(rows.take(np.flatnonzero(is_before)))
            yield from self._of_interval(self.lane.decide(moment_ms))
            # Else the next replay would begin at the last throttle of a client that went away.
            yield from self._of_interval(self.lane.decide_quiet(moment_ms - SPAN_MAX_MS))
            self._handover = Handover(self.lane)
            self._own = self.lane.fork() if self._reads_around else None
            rows = rows.take(np.flatnonzero(~is_before))
        self._take(rows)
        # What is decided is not kept here while others look at it.
        del rows
        if until_ms is None or self.lane.is_due(self._rows_min):
            yield from self._of_interval(self.lane.decide(until_ms))

    def states(self) -> tuple[RateLane, Handover]:
        """Return the lane as the interval's own lines left it, and what is handed on."""
        assert self._handover is not None, "all rows were decided"
        if self._own is None:
            return self.lane, self._handover
        self._own.decide(None)
        return self._own, self._handover

    def _take(self, rows: LaneRows) -> None:
        self.lane.take(rows)
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
