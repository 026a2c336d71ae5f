"""The rate as KIP-13 and KIP-599 work it out, which is not the rate that brokers measure."""

from __future__ import annotations

from collections import deque

from spark_jobs.quota.java_math import INT_MAX, java_divide, java_round


def excess_delay_ms(total: float, bound: float, window_s: float) -> int:
    """Return (total - bound x window) / bound in ms, rounded; 0 where nothing is violated.

    It is KIP-599's (R - Q) / Q x S x W too. Rounded, not cut, for that one comes to 11 999.99... ms
    in floating point; capped at the largest int32, the field it is sent in.

    >>> excess_delay_ms(total=60.0, bound=5.0, window_s=10.0)
    2000
    """
    excess = total - bound * window_s
    if excess <= 0.0:
        return 0
    return min(java_round(java_divide(excess, bound) * 1000), INT_MAX)


class GridRate:
    """What was recorded over a grid of ``samples`` samples of ``window_ms``, the current included.

    Samples begin at whole multiples of ``window_ms`` since 1970, and the denominator is always
    ``samples * window_ms``. A broker's ``Rate`` starts samples at events and divides by what has
    elapsed, so the documents' worked numbers come out here and not there.

    Documents: KIP-13 (N windows of a second); KIP-599, late revision (S samples of W).

    >>> grid = GridRate(samples=10)
    >>> for second in range(9):
    ...     grid.record(5.0, now_ms=1_000 * second)
    >>> grid.record(15.0, now_ms=9_000)
    >>> grid.total(now_ms=9_000), grid.rate(now_ms=9_000), grid.delay_ms(5.0, now_ms=9_000)
    (60.0, 6.0, 2000)
    """

    __slots__ = ("_newest", "_values", "samples", "window_ms", "window_s")

    def __init__(self, samples: int = 10, window_ms: int = 1000) -> None:
        assert samples >= 1, samples
        assert window_ms >= 1, window_ms
        self.samples = samples
        self.window_ms = window_ms
        # Of the whole grid, in seconds: what every total is divided by.
        self.window_s = samples * window_ms / 1000
        self._newest: int | None = None
        self._values = deque([0.0] * samples, maxlen=samples)  # oldest first

    def record(self, amount: float, now_ms: int) -> None:
        """Add ``amount`` to the sample of ``now_ms``.

        A time before the newest one is counted in its own sample, or nowhere once that has left
        the grid.
        """
        age = self._age(now_ms)
        if age < self.samples:
            self._values[-1 - age] += amount

    def add(self, amount: float, age: int, now_ms: int) -> None:
        """Add ``amount`` to the sample ``age`` samples before the one of ``now_ms``."""
        assert 0 <= age < self.samples, age
        self.record(amount, now_ms - age * self.window_ms)

    def values(self, now_ms: int) -> list[float]:
        """Return every sample's value at ``now_ms``, oldest first; empty ones are 0."""
        self._age(now_ms)
        return list(self._values)

    def total(self, now_ms: int) -> float:
        """Return the sum of the grid at ``now_ms``; the newest time seen, if that is later."""
        self._age(now_ms)
        return sum(self._values)

    def rate(self, now_ms: int) -> float:
        """Return the total per second of the whole grid."""
        return self.total(now_ms) / self.window_s

    def is_violated(self, bound: float, now_ms: int) -> bool:
        """Return True if more than ``bound`` per second was recorded over the whole grid."""
        return self.total(now_ms) > bound * self.window_s

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """Return the wait (ms) that brings the total back to ``bound``; see excess_delay_ms."""
        return excess_delay_ms(self.total(now_ms), bound, self.window_s)

    def _age(self, now_ms: int) -> int:
        """Move the grid on to ``now_ms``; return its distance behind the newest, in samples."""
        index = now_ms // self.window_ms
        if self._newest is None:
            self._newest = index
        behind = self._newest - index
        if behind >= 0:
            return behind
        for _ in range(min(-behind, self.samples)):
            self._values.append(0.0)
        self._newest = index
        return 0
