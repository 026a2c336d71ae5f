"""What the request quota may have asked for: its sensors, replayed with what the log leaves open.

The time of network threads is in no line, so the rate is an interval, and so is the throttle
(:mod:`spark_jobs.quota.request_time`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from spark_jobs.quota.constants import CHANGE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.interval_states import IntervalStates, RateIntervals
from spark_jobs.quota.request_time import (
    PERCENT_PER_US,
    LikelyReads,
    RequestRows,
    ToldShares,
    replay_requests,
)
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.replay.sensors.amounts import encoded
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState

UNKNOWN_MS = -1
HANDSHAKE_US = 20_000.0
"""What authentication may have taken; the first request of a connection pays for it. Where a
throttle tells of more, it waited for a core, no longer than lines of its broker's log are late."""
SLOW_READS = 2.0
"""A network thread that waits for a core takes longer than the sends of the log tell: on a starved
machine a sound broker of Kafka 4.2.2 threw what reads twice as long explain."""
CONNECTIONS_MAX = 65_536
# With so few samples the arithmetic of intervals was not compared with brokers.
SAMPLES_MIN = 4


class RequestThrottles(NamedTuple):
    """What the request quota asked for, per request in ms; UNKNOWN_MS where nobody can say."""

    least_ms: np.ndarray
    most_ms: np.ndarray
    # By what the sensor's sends tell of its reads (LikelyReads), and its last throttles of both
    # (ToldShares).
    likely_least_ms: np.ndarray
    likely_most_ms: np.ndarray

    @classmethod
    def unknown(cls, n: int) -> Self:
        """Return that nothing is known of n requests."""
        return cls(*np.full((len(cls._fields), n), UNKNOWN_MS))

    def only_where(self, is_known: np.ndarray) -> RequestThrottles:
        """Return the same, UNKNOWN_MS for all other requests."""
        return RequestThrottles(*(np.where(is_known, ms, UNKNOWN_MS) for ms in self))


class RequestIntervals:
    """The sensors of one broker's request quota, by their codes."""

    def __init__(self, rules: BrokerRules, carried: Callable[[int], CarriedState | None]) -> None:
        """``carried`` returns the state that was handed on of a sensor."""
        self._rules, self._carried = rules, carried
        self._sensors: dict[int, _Sensor] = {}

    def throttles_ms(
        self, rows: StreamRows, run: np.ndarray, begins: np.ndarray
    ) -> RequestThrottles:
        """Return the throttles (ms) that the quota may have asked for, by row.

        ``run`` numbers the sensors' epochs, whose rows are together; ``begins`` tells which of
        them begin with these rows. Rows of a sensor that overlap must be in one call.
        """
        found = RequestThrottles.unknown(len(rows))
        starts = np.flatnonzero(np.append(True, run[1:] != run[:-1])).tolist()
        for start, stop in pairwise([*starts, len(rows)]):
            own = rows.take(np.arange(start, stop))
            code = int(own.sensor[0])
            if begins[run[start]] or code not in self._sensors:
                self._sensors[code] = self._begun(own)
            of_sensor = self._sensors[code].throttles_ms(own)
            for column, own_ms in zip(found, of_sensor, strict=True):
                column[start:stop] = own_ms
        return found

    def held(self, sensor: int) -> Mapping[str, Any]:
        """Return the intervals of a sensor's state after its rows (``quota_state.intervals``)."""
        return self._sensors[sensor].held()

    def _begun(self, rows: StreamRows) -> _Sensor:
        """Return the sensor whose epoch begins with ``rows``."""
        samples, window_ms = self._rules.samples, self._rules.window_ms
        slots = self._rules.profile.slots(samples)
        state = self._carried(int(rows.sensor[0]))
        if state is not None and state.is_lost(slots, int(rows.restart_ms[0]), int(rows.at_ms[0])):
            state = None
        sensor = _Sensor(SensorStates.allocate([self._rules.profile], [samples], [window_ms]))
        held = state.intervals if state is not None else None
        if held is not None and len(held["samples"]) <= slots:
            sensor.take_over(held)
        # A sensor that is silent for a window begins a sample with the next row.
        elif state is not None or rows.known_for_ms[0] < window_ms:
            sensor.begin_unknown(rows)
        return sensor


class _Taken(NamedTuple):
    """What some requests took at most, in percent, by their times, in order."""

    at_ms: np.ndarray
    most: np.ndarray

    @classmethod
    def nothing(cls) -> Self:
        """Return that of no request."""
        return cls(np.zeros(0, np.int64), np.zeros(0))

    def since(self, at_ms: int) -> _Taken:
        """Return that of the requests at ``at_ms`` and later."""
        kept = int(np.searchsorted(self.at_ms, at_ms))
        return _Taken(self.at_ms[kept:], self.most[kept:])

    def more(self, at_ms: np.ndarray, most: np.ndarray) -> _Taken:
        """Return that of these and of later requests."""
        return _Taken(np.append(self.at_ms, at_ms), np.append(self.most, most))

    def between(self, since: np.ndarray, until: np.ndarray) -> np.ndarray:
        """Return the percent that the requests of each slice took together, such as 47.

        A slice goes from a position in ``since`` to before the same one in ``until``.
        """
        total = np.append(0.0, np.cumsum(self.most))
        return np.asarray(total[until] - total[np.minimum(since, until)])


class _Sensor:
    """One sensor, which recorded nothing so far."""

    def __init__(self, states: SensorStates) -> None:
        window_ms = int(states.window_ms[0])
        span_ms = int(states.samples[0]) * window_ms
        # As the lines say, as is likely, and if lines are late.
        self._states, self._likely, self._late = (IntervalStates.of(states) for _ in range(3))
        self._reads, self._told = LikelyReads(span_ms), ToldShares(span_ms, window_ms)
        self._can_say = int(states.samples[0]) >= SAMPLES_MIN
        self._known_from_ms = self._until_ms = 0
        self._first_ms = 1
        self._last = _Taken.nothing()  # of the last LINE_LAG_MAX_MS
        self._slow_handshakes = _Taken.nothing()  # of the last span
        self._authenticated: set[str] = set()

    def take_over(self, held: Mapping[str, Any]) -> None:
        """Go on with what :meth:`held` returned where the rows before ended."""
        # What a sample likely holds is not handed on: after a span all samples are others.
        for own in (self._states, self._likely, self._late):
            own.restore(0, held)
        self._known_from_ms, self._until_ms = held["known_from_ms"], held["until_ms"]
        self._first_ms = self._until_ms + 1  # a row before may have met less than what is held

    def begin_unknown(self, rows: StreamRows) -> None:
        """Begin with a sensor that had recorded something, nobody knows what or when.

        It is gone after two windows, but when its samples begin follows from when they began.
        """
        for own in (self._states, self._likely, self._late):
            own.may_hold_a_sample(0, int(rows.earliest_ms[0]), int(rows.latest_ms[0]))
        span_ms = int(self._states.samples[0] * self._states.window_ms[0])
        self._known_from_ms = int(rows.at_ms[0]) + 2 * span_ms

    def held(self) -> Mapping[str, Any]:
        """Return the intervals of the state after all rows, as :meth:`take_over` takes them."""
        known = {"known_from_ms": self._known_from_ms, "until_ms": self._until_ms}
        return known | self._states.export(0)

    def throttles_ms(self, rows: StreamRows) -> RequestThrottles:
        """Return the throttles (ms) that the quota may have asked for in the next rows."""
        begun = self._first_of_connections(rows)
        handshakes_us = np.zeros(len(rows))
        handshakes_us[begun] = HANDSHAKE_US
        most_us = rows.unlogged_amount_max / PERCENT_PER_US + handshakes_us
        # No line tells what authentication likely takes: it is left out, and may make a throttle
        # longer than is likely.
        reads_us = self._reads.most_us(rows.at_ms, rows.short_send_us)
        likely_us = rows.unlogged_likely / PERCENT_PER_US + reads_us
        counted = self._request_rows(rows, most_us)
        surely = replay_requests(counted, self._states)
        likely = replay_requests(
            replace(counted, network_time_max_us=np.fmin(likely_us, most_us)), self._likely
        )
        late = replace(
            counted,
            earliest_ms=rows.earliest_ms - rows.line_lag_max_ms,
            line_from_ms=rows.log_time_ms - rows.line_lag_max_ms,
        )
        if_late = replay_requests(late, self._late)
        known = self._can_say & (rows.at_ms >= self._known_from_ms)
        known &= (rows.earliest_ms >= self._first_ms) & ~np.isnan(rows.bound)
        told_least_ms, told_most_ms = self._told.throttles_ms(
            rows.at_ms, rows.logged_ms, rows.bound, likely, known & counted.surely_counted
        )
        self._until_ms = max(self._until_ms, int(rows.latest_ms.max()), int(rows.log_time_ms.max()))
        least_ms = self._least_of_late_lines_ms(rows, counted, surely.throttle_time_min_ms)
        most_ms = self._most_of_slow_threads_ms(rows, surely, begun)
        likely_least_ms = np.maximum(surely.throttle_time_min_ms, told_least_ms)
        return RequestThrottles(
            _less_if(rows.logged_ms, least_ms, if_late.throttle_time_min_ms),
            _more_if(rows.logged_ms, most_ms, if_late.throttle_time_max_ms),
            likely_least_ms,
            np.maximum(np.minimum(likely.throttle_time_max_ms, told_most_ms), likely_least_ms),
        ).only_where(known)

    def _least_of_late_lines_ms(
        self, rows: StreamRows, counted: RequestRows, least_ms: np.ndarray
    ) -> np.ndarray:
        """Return the least throttles (ms), less where a request was throttled less than that.

        Its line may be late: then what was recorded shortly before its line came after it.
        """
        most = (counted.handler_time_us + 1.0 + counted.network_time_max_us) * PERCENT_PER_US
        taken = self._last.more(rows.at_ms, most)
        since = np.searchsorted(taken.at_ms, rows.earliest_ms - rows.line_lag_max_ms)
        later = taken.between(since, np.arange(len(self._last.at_ms), len(taken.at_ms)))
        self._last = taken.since(int(rows.at_ms[-1]) - LINE_LAG_MAX_MS)
        with np.errstate(invalid="ignore", divide="ignore"):
            late_ms = np.ceil(np.nan_to_num(later / rows.bound * 1000.0, posinf=np.inf))
        return _less_if(rows.logged_ms, least_ms, least_ms - np.minimum(late_ms, least_ms))

    def _most_of_slow_threads_ms(
        self, rows: StreamRows, surely: RateIntervals, begun: np.ndarray
    ) -> np.ndarray:
        """Return the most throttles (ms), more where a request was throttled more than that.

        Its network thread may have waited for a core: where reads that took SLOW_READS times as
        long explain the throttle, or handshakes that took as much longer as a line may be late,
        nobody can say that it is too long. Connections begin with the rows ``begun``.
        """
        samples, window_ms = int(self._states.samples[0]), int(self._states.window_ms[0])
        span_ms = samples * window_ms
        slow = self._slow_handshakes.more(
            rows.at_ms[begun], rows.line_lag_max_ms[begun] * 1000.0 * PERCENT_PER_US
        )
        since = np.searchsorted(slow.at_ms, rows.at_ms - span_ms)
        handshakes = slow.between(since, np.searchsorted(slow.at_ms, rows.at_ms, side="right"))
        self._slow_handshakes = slow.since(int(rows.at_ms[-1]) - span_ms)
        rate = surely.rate_min + SLOW_READS * (surely.rate_max - surely.rate_min)
        rate = rate + handshakes * 1000.0 / (max(samples - 1, 1) * window_ms)
        with np.errstate(invalid="ignore", divide="ignore"):
            slow_ms = np.nan_to_num((rate / rows.bound - 1.0) * span_ms, posinf=np.inf)
        return _more_if(rows.logged_ms, surely.throttle_time_max_ms, slow_ms)

    def _request_rows(self, rows: StreamRows, most_us: np.ndarray) -> RequestRows:
        return RequestRows(
            sensor=np.zeros(len(rows), np.int64),
            earliest_ms=rows.earliest_ms,
            latest_ms=rows.latest_ms,
            line_from_ms=rows.log_time_ms,
            log_time_ms=rows.log_time_ms,
            handler_time_us=np.rint(rows.amount / PERCENT_PER_US),
            network_time_max_us=most_us,
            surely_counted=rows.change_distance_ms >= CHANGE_MS,
            bound=rows.bound,
            unlogged_max=np.where(
                rows.lost_requests > 0, np.nan_to_num(rows.lost_amount_max, nan=np.inf), 0.0
            ),
        )

    def _first_of_connections(self, rows: StreamRows) -> np.ndarray:
        """Return the rows with which connections begin, in order."""
        names = encoded(rows.lines["connection"])
        codes, firsts = np.unique(names.indices.to_numpy()[rows.line], return_index=True)
        named = names.dictionary.take(pa.array(codes)).to_pylist()
        pairs = zip(named, firsts.tolist(), strict=True)
        begun = [first for name, first in pairs if name not in self._authenticated]
        if len(self._authenticated) > CONNECTIONS_MAX:
            self._authenticated.clear()
        self._authenticated.update(named)
        return np.sort(np.array(begun, np.int64))


def _less_if(logged_ms: np.ndarray, least_ms: np.ndarray, if_so_ms: np.ndarray) -> np.ndarray:
    """Return the least throttles (ms); ``if_so_ms`` where a request was throttled less than that.

    Of one that ``if_so_ms`` explains, what was logged is the least.
    """
    less_ms = np.maximum(np.minimum(if_so_ms, least_ms), logged_ms)
    return np.where(logged_ms < least_ms, less_ms, least_ms).astype(np.int64)


def _more_if(logged_ms: np.ndarray, most_ms: np.ndarray, if_so_ms: np.ndarray) -> np.ndarray:
    """Return the most throttles (ms); ``if_so_ms`` where a request was throttled more than that."""
    # Below what was logged: the cap is not met by it.
    more_ms = np.maximum(np.minimum(if_so_ms, logged_ms - 1), most_ms)
    return np.where(logged_ms > most_ms, more_ms, most_ms).astype(np.int64)
