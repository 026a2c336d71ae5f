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
LATE_LINE_MS of its end: they waited for the process to go on. Others are of clients that sent
nothing, and a line after them is taken to be LINE_LAG_MAX_MS late at most.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.states import Bools, Int64s
from spark_jobs.replay.sensors.amounts import encoded

STAMP_STEPS_MS = 2
"""Two stamps that are cut to a millisecond may be that much closer than their moments."""

STOPPED_CONNECTIONS = 3
"""Of simulated brokers, 3 of 3 stops ended with lines of as many, and none of 8 idle silences."""

_CONNECTIONS_MAX = 65_536
_NEVER_MS = 0, 0


class LineLags:
    """Follows one broker's connections through its requests, in the order of their estimates."""

    def __init__(self) -> None:
        # Per connection, when its last line was written, and until when it was muted.
        self._last_ms: dict[str, tuple[int, int]] = {}
        # When the last lines were written, of any connection, in order, and whether that one had
        # written none for LATE_LINE_MS.
        self._written_ms = np.zeros(0, np.int64)
        self._is_first = np.zeros(0, bool)

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
        throttle_ms = requests["throttle_time_ms"].to_numpy()[rows].astype(np.int64)
        muted_ms = np.where(throttle_ms > 0, earliest_ms + throttle_ms, line_ms)
        before_line_ms, before_mute_ms = np.roll(line_ms, 1), np.roll(muted_ms, 1)
        firsts = np.flatnonzero(is_first)
        own = names.dictionary.take(pa.array(code[firsts])).to_pylist()
        last_ms = np.array([self._last_ms.get(name, _NEVER_MS) for name in own])
        before_line_ms[firsts], before_mute_ms[firsts] = last_ms.T
        after_line_ms = earliest_ms + STAMP_STEPS_MS - before_line_ms
        after_mute_ms = earliest_ms + STAMP_STEPS_MS - before_mute_ms
        # A broker that did not wait, or one whose log says more than it did, proves nothing.
        lag_ms = np.where(
            after_mute_ms >= 0, np.minimum(after_mute_ms, after_line_ms), after_line_ms
        )
        is_own_first = np.empty(len(rows), bool)
        is_own_first[by_connection] = line_ms - before_line_ms > LATE_LINE_MS
        lag_ms = np.minimum(lag_ms, self._silence_ms(requests, order, is_own_first)[by_connection])
        lags_ms[rows] = np.maximum(lag_ms, 0)
        lasts = np.append(firsts[1:], len(rows)) - 1
        if len(self._last_ms) > _CONNECTIONS_MAX:
            self._last_ms.clear()
        lasts_ms = zip(line_ms[lasts].tolist(), muted_ms[lasts].tolist(), strict=True)
        self._last_ms.update(zip(own, lasts_ms, strict=True))
        return lags_ms

    def _silence_ms(self, requests: pa.Table, order: np.ndarray, is_first: Bools) -> Int64s:
        """Return the silence before each row of ``order``, such as 202 ms: its line is no later.

        It counts from the last line that was written more than LATE_LINE_MS before. Lines
        since the row's estimate are left aside: those of rows to come may be among them. One that
        was no stop counts as LINE_LAG_MAX_MS at most. ``is_first`` tells of each row of ``order``
        if its connection has no line in the LATE_LINE_MS before.
        """
        line_ms = requests["log_time_ms"].to_numpy()[order]
        estimate_ms = requests["recorded_estimate_us"].to_numpy()[order] // 1000
        until_ms = np.minimum(line_ms - LATE_LINE_MS - 1, estimate_ms)
        written_ms = np.concatenate((self._written_ms, line_ms))
        in_time = np.argsort(written_ms, kind="stable")
        written_ms = written_ms[in_time]
        is_first = np.concatenate((self._is_first, is_first))[in_time]
        place = np.searchsorted(written_ms, until_ms, side="right") - 1
        silence_ms = line_ms + STAMP_STEPS_MS - written_ms[place]
        # Rows to come may have lines since the last estimate: how many woke up then is not known.
        woken_ms = written_ms[place + 1] + LATE_LINE_MS
        firsts = np.append(0, np.cumsum(is_first))
        woken = firsts[np.searchsorted(written_ms, woken_ms, side="right")] - firsts[place + 1]
        is_stop = (woken >= STOPPED_CONNECTIONS) | (woken_ms >= estimate_ms[-1])
        silence_ms = np.where(is_stop, silence_ms, np.minimum(silence_ms, LINE_LAG_MAX_MS))
        # The rows that follow have later estimates, and look back from there.
        kept_ms = int(estimate_ms[-1]) - LATE_LINE_MS - 1
        kept = max(int(np.searchsorted(written_ms, kept_ms)) - 1, 0)
        self._written_ms, self._is_first = written_ms[kept:], is_first[kept:]
        # How long it was silent before its first line is not known.
        return np.where(place >= 0, silence_ms, LINE_LAG_MAX_MS)
