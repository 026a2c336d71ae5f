"""The one-minute rate of a meter, as the metrics libraries of the JVM keep it.

Source: "Broker side quota (V1)", Low level design 2: "Meter exposes a OneMinuteRate, which is an
EWMA and is refreshed every 5 seconds by default". The arithmetic is that of Dropwizard's
metrics-core 4.2, ``EWMA`` and ``Meter``; the brokers of that time had its ancestor, Yammer's
metrics-core 2.2, whose arithmetic is the same and whose ticks come otherwise (:class:`Ticks`).

Decided here:

- A meter is created when it is first touched, and its ticks are anchored there.
- Ticks missed while idle are all caught up. Dropwizard 4.2 resets a meter that was idle for some
  12.8 h (its ``maxTicks``) and drops what it had counted last; that cap is left out.
- On the fixed schedule a tick comes before whatever happens in the same millisecond.
- A time before the last tick counts for the interval in progress.
"""

from __future__ import annotations

import math
from enum import StrEnum

TICK_INTERVAL_MS = 5_000
# The library's own order of operations, and its nanoseconds, so that no bit differs.
M1_ALPHA = 1.0 - math.exp(-5 / 60.0 / 1)
_NS_PER_TICK = 5e9
_NS_PER_S = 1e9


class Ticks(StrEnum):
    """When a meter takes what it has counted into its rate."""

    WHEN_TOUCHED = "when_touched"
    """Dropwizard: caught up when the meter is touched and more than 5 s have passed."""
    FIXED_SCHEDULE = "fixed_schedule"
    """Yammer: by a thread every 5 s, touched or not."""


class OneMinuteRate:
    """An exponentially weighted rate per second, 0 until its first tick, constant between ticks.

    The first tick sets it to the rate of its 5 s, even to 0. Java: ``Meter.getOneMinuteRate``.

    >>> meter = OneMinuteRate(created_ms=0)
    >>> meter.mark(60, now_ms=0)
    >>> meter.rate(now_ms=5_000), meter.rate(now_ms=5_001), meter.rate(now_ms=10_001)
    (0.0, 12.0, 11.040532975551878)
    """

    __slots__ = ("_is_initialized", "_last_tick_ms", "_rate_per_ns", "_uncounted", "count", "ticks")

    def __init__(self, created_ms: int, ticks: Ticks = Ticks.WHEN_TOUCHED) -> None:
        self.ticks = ticks
        self.count = 0  # everything marked
        self._last_tick_ms = created_ms
        self._uncounted = 0
        self._rate_per_ns = 0.0
        self._is_initialized = False

    def mark(self, amount: int, now_ms: int) -> None:
        """Count ``amount``; no rate shows it before the next tick."""
        assert amount >= 0, amount
        self._tick_if_necessary(now_ms)
        self.count += amount
        self._uncounted += amount

    def rate(self, now_ms: int) -> float:
        """Return the amount marked per second, as of the last tick."""
        self._tick_if_necessary(now_ms)
        return self._rate_per_ns * _NS_PER_S

    def _tick_if_necessary(self, now_ms: int) -> None:
        age_ms = now_ms - self._last_tick_ms
        # Dropwizard waits for more than 5 s to have passed, a schedule fires after 5 s.
        if age_ms < TICK_INTERVAL_MS + (self.ticks is Ticks.WHEN_TOUCHED):
            return
        due = age_ms // TICK_INTERVAL_MS
        self._last_tick_ms += due * TICK_INTERVAL_MS
        self._tick()
        for _ in range(due - 1):
            before = self._rate_per_ns
            self._tick()
            # Where a rate stays as it is, so it does after every further tick: days cost nothing.
            if self._rate_per_ns == before:
                break

    def _tick(self) -> None:
        """Take the 5 s that end into the rate. Java: ``EWMA.tick``."""
        instant_rate = self._uncounted / _NS_PER_TICK
        self._uncounted = 0
        if self._is_initialized:
            self._rate_per_ns += M1_ALPHA * (instant_rate - self._rate_per_ns)
        else:
            self._rate_per_ns = instant_rate
            self._is_initialized = True
