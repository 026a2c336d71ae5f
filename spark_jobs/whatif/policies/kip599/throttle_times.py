"""The throttle times that a client, or a broker for it, shows. Source: KIP-13."""

from __future__ import annotations

from collections import deque


class ThrottleTimes:
    """The largest and the average throttle time of the requests of the last ``window_ms``.

    Both are 0 where nothing was throttled. The average is over all requests, those not throttled
    with 0. The document leaves the window open; it holds requests later than now - window.

    Document: KIP-13, "Client Status Code".

    >>> times = ThrottleTimes(window_ms=30_000)
    >>> times.record(0, at_ms=0)
    >>> times.record(2_000, at_ms=1_000)
    >>> times.max_ms(now_ms=1_000), times.average_ms(now_ms=1_000), times.max_ms(now_ms=31_000)
    (2000, 1000.0, 0)
    """

    def __init__(self, window_ms: int = 30_000) -> None:
        assert window_ms >= 1, window_ms
        self.window_ms = window_ms
        self._times: deque[tuple[int, int]] = deque()

    def record(self, throttle_time_ms: int, at_ms: int) -> None:
        """Add a request's throttle time: 0 of one that was not throttled, or not told."""
        self._within(at_ms)
        self._times.append((at_ms, throttle_time_ms))

    def max_ms(self, now_ms: int) -> int:
        """Return the largest throttle time of the window."""
        return max((time_ms for _, time_ms in self._within(now_ms)), default=0)

    def average_ms(self, now_ms: int) -> float:
        """Return the average throttle time of the window's requests."""
        times = self._within(now_ms)
        return sum(time_ms for _, time_ms in times) / len(times) if times else 0.0

    def _within(self, now_ms: int) -> deque[tuple[int, int]]:
        while self._times and self._times[0][0] <= now_ms - self.window_ms:
            self._times.popleft()
        return self._times
