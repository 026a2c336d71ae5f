"""How late the lines of a broker may have been written, as its own log proves.

A line's time is when it was written, not when its request was done: a thread that is stopped
between the two makes the whole request look later than it was. The log bounds this twice.

A broker reads nothing from a connection until it has written the line of the request before
(Kafka: ``SocketServer.Processor.processCompletedSends``), and, where it throttled that one, until
its throttle is over (``ClientQuotaManager.throttle``). So a request is as late at most as the time
since then.

One thread is stopped for LATE_LINE_MS at most, such as one that waits for a core. What stops for
longer is the process, such as by garbage collection, and then no thread writes a line. So a line is
no later than the silence of the whole log that ended up to LATE_LINE_MS before it.

A silence of more than LINE_LAG_MAX_MS is a stop where STOPPED_CONNECTIONS have lines within
LATE_LINE_MS of its end: they waited for the process to go on. So it is where all connections do
that were active before, two at least: each had two lines in the last LINE_LAG_MAX_MS. And so it is
where two end it at once whose throttles had been over for more than LATE_LINE_MS: clients that wait
for nothing but their throttles send apart. Others are of clients that sent nothing, and a line
after them is taken to be LINE_LAG_MAX_MS late at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.states import Bools, Int64s
from spark_jobs.replay.sensors.amounts import encoded

STAMP_STEPS_MS = 2
"""Two stamps that are cut to a millisecond may be that much closer than their moments."""

STOPPED_CONNECTIONS = 3
"""Of simulated brokers, 3 of 3 stops ended with lines of as many, and none of 8 idle silences."""
STOPPED_ACTIVE = 2
"""So many are enough where no other connection was active just before."""
STOPPED_DUE = 2
"""So many are enough that their throttles kept silent, and that have lines at once."""
DUE_WITHIN_MS = 30_000
"""A throttle that began so long before a silence is not asked whether it was over in it."""

_ACTIVE_LINES = 2
_OF_SILENCE = ["silence", "connection"]

_TEXT = pa.string()
_CONNECTIONS_MAX = 65_536
_NEVER = 0, 0, 0
_FAR_FUTURE_MS = 1 << 60


def stretches_ms(log_time_ms: Int64s) -> Int64s:
    """Return the stretches without a silence of more than LINE_LAG_MAX_MS: n×2, in ms.

    Of each its first line and its last: lines at 0, 300 and 900 ms make the stretches from 0 to 300
    and from 900 to 900.
    """
    at_ms = log_time_ms
    if not len(at_ms):
        return np.zeros((0, 2), np.int64)
    if (at_ms[1:] < at_ms[:-1]).any():
        at_ms = np.sort(at_ms)
    ends = np.flatnonzero(np.diff(at_ms) > LINE_LAG_MAX_MS)
    return np.column_stack((at_ms[np.append(0, ends + 1)], at_ms[np.append(ends, -1)]))


def silences_ms(stretches: Sequence[Int64s]) -> Int64s:
    """Return the silences of more than LINE_LAG_MAX_MS: n×2, last line before and first line after.

    ``stretches`` are those of all parts of a log, whose times may overlap.
    """
    whole = np.concatenate([np.zeros((0, 2), np.int64), *stretches])
    first_ms, last_ms = whole[np.argsort(whole[:, 0], kind="stable")].T
    last_ms = np.maximum.accumulate(last_ms)
    silent = np.flatnonzero(first_ms[1:] - last_ms[:-1] > LINE_LAG_MAX_MS)
    return np.column_stack((last_ms[silent], first_ms[silent + 1]))


@dataclass(frozen=True, slots=True)
class Stops:
    """When the process was stopped, in order.

    Each row of ``silent_ms`` (n×2) is the last line before a stop and the first line after it, such
    as 1,000 and 4,100 ms.
    """

    silent_ms: Int64s

    def running_ms(self, at_ms: Int64s) -> Int64s:
        """Return the first moments from each of ``at_ms`` on at which the process ran.

        Such as 4,100 ms for 2,000 ms, and 5,000 ms for itself, with a stop from 1,000 to 4,100 ms.
        One that is STAMP_STEPS_MS before a stop may be in it.
        """
        if not len(self.silent_ms):
            return at_ms
        from_ms, until_ms = self.silent_ms.T
        before = np.searchsorted(from_ms - STAMP_STEPS_MS, at_ms, side="right") - 1
        return np.asarray(np.where(before >= 0, np.maximum(at_ms, until_ms[before]), at_ms))

    @classmethod
    def of(cls, silent_ms: Int64s, lines: Iterable[pa.Table]) -> Stops:
        """Return those that STOPPED_CONNECTIONS end, or all that were active, or STOPPED_DUE.

        ``lines`` have ``connection``, ``log_time_ms`` and ``throttle_time_ms`` of all lines up to
        DUE_WITHIN_MS before a silence and up to LATE_LINE_MS after its end.
        """
        if not len(silent_ms):
            return cls(silent_ms)
        nobody = pa.table({"silence": pa.array([], pa.int64()), "connection": pa.array([], _TEXT)})
        woken, at_once, active, due = [nobody], [nobody], [nobody], [nobody]
        for part in lines:
            at_ms = part["log_time_ms"].to_numpy()
            name = part["connection"]
            over = np.searchsorted(silent_ms[:, 1], at_ms, side="right") - 1
            since_ms = np.where(over >= 0, at_ms - silent_ms[over, 1], _FAR_FUTURE_MS)
            woken.append(_told(over, name, since_ms <= LATE_LINE_MS))
            at_once.append(_told(over, name, since_ms <= STAMP_STEPS_MS))
            coming = np.searchsorted(silent_ms[:, 0], at_ms)
            next_ms = np.append(silent_ms[:, 0], _FAR_FUTURE_MS)[coming]
            active.append(_told(coming, name, next_ms - at_ms <= LINE_LAG_MAX_MS))
            throttle_ms = part["throttle_time_ms"].to_numpy()
            read_ms = at_ms + throttle_ms
            during = np.searchsorted(silent_ms[:, 0], read_ms) - 1
            is_due = (throttle_ms > 0) & (during >= 0)
            is_due &= read_ms < silent_ms[during, 1] - LATE_LINE_MS
            due.append(_told(during, name, is_due))
        woken_by, active_by = _told_by(woken, 1), _told_by(active, _ACTIVE_LINES)
        asleep = active_by.join(woken_by, _OF_SILENCE, join_type="left anti")
        due_at_once = _told_by(due, 1).join(_told_by(at_once, 1), _OF_SILENCE, join_type="inner")
        is_stop = _silences_of(woken_by, STOPPED_CONNECTIONS)
        is_stop |= _silences_of(active_by, STOPPED_ACTIVE) - _silences_of(asleep, 1)
        is_stop |= _silences_of(due_at_once, STOPPED_DUE)
        return cls(silent_ms[np.array(sorted(is_stop), np.int64)])

    def before_ms(self, at_ms: Int64s) -> tuple[Int64s, Bools]:
        """Return the last line before the stop at each of ``at_ms``, and True where one was."""
        if not len(self.silent_ms):
            return np.zeros(len(at_ms), np.int64), np.zeros(len(at_ms), bool)
        stop = np.maximum(np.searchsorted(self.silent_ms[:, 0], at_ms, side="right") - 1, 0)
        from_ms, until_ms = self.silent_ms[stop].T
        return from_ms, (from_ms <= at_ms) & (at_ms < until_ms)


def _told(silence: Int64s, connection: pa.ChunkedArray, is_told: Bools) -> pa.Table:
    own = connection.filter(pa.array(is_told)).cast(_TEXT)
    return pa.table({"silence": silence[is_told], "connection": own})


def _told_by(told: Sequence[pa.Table], lines: int) -> pa.Table:
    """Return the connections, by silence, of which so many lines are told."""
    by_connection = pa.concat_tables(told).group_by(_OF_SILENCE)
    counted = by_connection.aggregate([([], "count_all")])
    return counted.filter(pc.greater_equal(counted["count_all"], lines)).drop_columns("count_all")


def _silences_of(told: pa.Table, connections: int) -> set[int]:
    """Return the silences of which so many connections are told."""
    counted = told.group_by("silence").aggregate([("connection", "count")])
    is_enough = pc.greater_equal(counted["connection_count"], connections)
    return set(counted["silence"].filter(is_enough).to_pylist())


NO_STOPS = Stops(np.zeros((0, 2), np.int64))


class LineLags:
    """Follows one broker's connections through its requests, in the order of their estimates."""

    def __init__(self, stops: Stops = NO_STOPS) -> None:
        self._stops = stops
        # Per connection, when its last line was written, until when it was muted, and the line.
        self._last: dict[str, tuple[int, int, int]] = {}
        # When the last lines were written, of any connection, in order.
        self._written_ms = np.zeros(0, np.int64)

    def of(self, requests: pa.Table, order: np.ndarray) -> Int64s:
        """Return, per row of ``requests``, how many ms its line may be late; 0 where not in order.

        It may be later than LINE_LAG_MAX_MS where the process was stopped for so long, such as by
        3,100 ms. ``order`` names the rows that follow those of the call before.
        """
        lags_ms = np.zeros(len(requests), np.int64)
        if not len(order):
            return lags_ms
        names = encoded(requests["connection"])
        code = names.indices.to_numpy()[order]
        by_connection = np.argsort(code, kind="stable")
        rows, code = order[by_connection], code[by_connection]
        is_first = np.append(True, code[1:] != code[:-1])
        earliest_ms = requests["recorded_earliest_ms"].to_numpy()[rows]
        line_ms = requests["log_time_ms"].to_numpy()[rows]
        line = requests["source_line"].to_numpy()[rows]
        throttle_ms = requests["throttle_time_ms"].to_numpy()[rows].astype(np.int64)
        muted_ms = np.where(throttle_ms > 0, earliest_ms + throttle_ms, line_ms)
        before_line_ms, before_mute_ms, before = (
            np.roll(each, 1) for each in (line_ms, muted_ms, line)
        )
        firsts = np.flatnonzero(is_first)
        own = names.dictionary.take(pa.array(code[firsts])).to_pylist()
        lasts = np.array([self._last.get(name, _NEVER) for name in own])
        before_line_ms[firsts], before_mute_ms[firsts], before[firsts] = lasts.T
        after_line_ms = earliest_ms + STAMP_STEPS_MS - before_line_ms
        after_mute_ms = earliest_ms + STAMP_STEPS_MS - before_mute_ms
        # A broker that did not wait, or one whose log says more than it did, proves nothing.
        lag_ms = np.where(
            after_mute_ms >= 0, np.minimum(after_mute_ms, after_line_ms), after_line_ms
        )
        # Estimates of one millisecond may be the other way round than their lines.
        is_swapped = (line_ms == before_line_ms) & (line < before)
        lag_ms = np.where(is_swapped, LINE_LAG_MAX_MS, lag_ms)
        lag_ms = np.minimum(lag_ms, self._silence_ms(requests, order)[by_connection])
        lags_ms[rows] = np.maximum(lag_ms, 0)
        if len(self._last) > _CONNECTIONS_MAX:
            self._last.clear()
        at = np.append(firsts[1:], len(rows)) - 1
        last = zip(*(each[at].tolist() for each in (line_ms, muted_ms, line)), strict=True)
        self._last.update(zip(own, last, strict=True))
        return lags_ms

    def _silence_ms(self, requests: pa.Table, order: np.ndarray) -> Int64s:
        """Return the silence before each row of ``order``, such as 202 ms: its line is no later.

        It counts from the last line that was written more than LATE_LINE_MS before. Lines
        since the row's estimate are left aside: those of rows to come may be among them. One that
        was no stop counts as LINE_LAG_MAX_MS at most.
        """
        line_ms = requests["log_time_ms"].to_numpy()[order]
        estimate_ms = requests["recorded_estimate_us"].to_numpy()[order] // 1000
        until_ms = np.minimum(line_ms - LATE_LINE_MS - 1, estimate_ms)
        written_ms = np.sort(np.concatenate((self._written_ms, line_ms)), kind="stable")
        place = np.searchsorted(written_ms, until_ms, side="right") - 1
        silence_ms = line_ms + STAMP_STEPS_MS - written_ms[place]
        # How long it was silent before its first line is not known.
        silence_ms = np.where(place >= 0, np.minimum(silence_ms, LINE_LAG_MAX_MS), LINE_LAG_MAX_MS)
        # The rows that follow have later estimates, and look back from there.
        kept_ms = int(estimate_ms[-1]) - LATE_LINE_MS - 1
        self._written_ms = written_ms[max(int(np.searchsorted(written_ms, kept_ms)) - 1, 0) :]
        stopped_from_ms, is_stop = self._stops.before_ms(until_ms)
        return np.where(is_stop, line_ms + STAMP_STEPS_MS - stopped_from_ms, silence_ms)
