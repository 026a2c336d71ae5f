"""What the search reads: one sensor's requests, each with what its log line admits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from spark_jobs.quota.states import Bools, Floats, Int8s, Int64s
from spark_jobs.replay.alignment.borrowed import borrowed

# What a row's logged throttle time tells of this sensor.
EXACT = 0  # the broker threw it for this quota
UP_TO = 1  # another quota of the same request may have thrown more
NOTHING = 2  # it was thrown by something else, or no quota was in force


# Columns of EventArrays.
EARLIEST, LATEST, LIKELY_FROM, LIKELY_UNTIL, LOGGED, EVIDENCE, LINE_LAG_MAX, CONNECTION = range(8)
AMOUNT, BOUND = range(2)


_NOBODY = np.iinfo(np.int64).min


class EventArrays(NamedTuple):
    """:class:`Events` as the compiled search takes them."""

    whole: Int64s  # [n, 8]
    broken: Floats  # [n, 2]


@njit(forceinline=True)
def borrowed_events(events: EventArrays) -> EventArrays:
    """Return the arrays without their owners, as :func:`borrowed` says."""
    return EventArrays(borrowed(events.whole), borrowed(events.broken))


class Events(NamedTuple):
    """The requests of one sensor in the order of their most likely record times; arrays of n."""

    earliest_ms: Int64s
    latest_ms: Int64s
    likely_from_ms: Int64s  # where nearly all record times lie: outside of it costs
    likely_until_ms: Int64s
    amount: Floats
    bound: Floats  # NaN: no quota in force
    logged_throttle_time_ms: Int64s
    evidence: Int8s
    line_lag_max_ms: Int64s  # so much earlier than earliest_ms where the line was written late
    connection: Int64s  # a number each: what one sent was recorded in the order of its lines

    def arrays(self) -> EventArrays:
        """Return the columns packed into two arrays."""
        whole = (
            self.earliest_ms,
            self.latest_ms,
            self.likely_from_ms,
            self.likely_until_ms,
            self.logged_throttle_time_ms,
            self.evidence.astype(np.int64),
            self.line_lag_max_ms,
            self.connection,
        )
        return EventArrays(
            np.stack(whole, axis=1).astype(np.int64),
            np.stack((self.amount, self.bound), axis=1).astype(np.float64),
        )


class Window(NamedTuple):
    """How the sensor keeps its rate (``MetricConfig``, and the rate profile of the version)."""

    samples: int
    window_ms: int
    keeps_overlapping: bool

    @property
    def slots(self) -> int:
        """Return the number of samples there can be at once."""
        return self.samples + 1 if self.keeps_overlapping else self.samples

    @property
    def expire_age_ms(self) -> int:
        """Return the age at which a sample is purged."""
        return self.samples * self.window_ms


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one sensor at a moment, slot by slot: arrays of ``slots``."""

    start_ms: Int64s
    last_event_ms: Int64s
    value: Floats
    count: int
    index: int

    @classmethod
    def empty(cls, slots: int) -> Samples:
        """Return the samples of a sensor that recorded nothing yet."""
        zeros = np.zeros(slots, np.int64)
        return cls(zeros, zeros.copy(), np.zeros(slots), 0, 0)


def after_unknown_begin(events: Events, is_known: Bools, window: Window) -> Events:
    """Return the events after one of no bytes, with which the sample of the first may have begun.

    Where nothing is known of what was recorded before, the first request belongs to a sample that
    began up to a window earlier, or begins one. The throttles of events that are not ``is_known``
    [n] tell nothing: what was recorded before may still count.
    """
    evidence = np.where(is_known, events.evidence, NOTHING).astype(np.int8)
    events = events._replace(evidence=evidence)
    until_ms = events.earliest_ms.min(keepdims=True) - 1
    from_ms = until_ms - window.window_ms + 1
    begin = Events(
        earliest_ms=from_ms,
        latest_ms=until_ms,
        likely_from_ms=from_ms,
        likely_until_ms=until_ms,
        amount=np.zeros(1),
        bound=np.full(1, np.nan),
        logged_throttle_time_ms=np.zeros(1, np.int64),
        evidence=np.full(1, NOTHING, np.int8),
        line_lag_max_ms=np.zeros(1, np.int64),
        connection=np.full(1, _NOBODY),
    )
    columns = (np.concatenate([ahead, own]) for ahead, own in zip(begin, events, strict=True))
    return Events._make(columns)


def earlier(events: Events, row: int) -> Events:
    """Return the events with one that may be as much earlier as its line may be late."""
    earliest_ms, likely_from_ms = events.earliest_ms.copy(), events.likely_from_ms.copy()
    lag_max_ms = events.line_lag_max_ms.copy()
    earliest_ms[row] -= lag_max_ms[row]
    likely_from_ms[row] = earliest_ms[row]
    lag_max_ms[row] = 0
    return events._replace(
        earliest_ms=earliest_ms, likely_from_ms=likely_from_ms, line_lag_max_ms=lag_max_ms
    )


SLOW_HANDLER_US = 3_000
WAITED_US = 300


def likely_from_ms(
    earliest_ms: np.ndarray,
    estimate_ms: np.ndarray,
    handler_time_us: np.ndarray,
    remote_time_us: np.ndarray,
    acks: np.ndarray,
) -> np.ndarray:
    """Return the time (ms) from which on each request was most likely recorded.

    As a rule just before its response was complete; a request that was long in the handler may
    have been recorded anywhere there, unless it waited for replicas (measured on a 4.1.0 broker's
    own record of its throttled requests).
    """
    is_slow = handler_time_us > SLOW_HANDLER_US
    waited = (acks == -1) & (remote_time_us > WAITED_US)
    likely_ms = np.maximum(estimate_ms - 2, earliest_ms)
    return np.asarray(np.where(is_slow & ~waited, earliest_ms, likely_ms))
