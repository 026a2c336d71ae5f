"""The token bucket in plain Python: slow, and made to be read beside Kafka's source."""

from __future__ import annotations

from spark_jobs.quota.constants import SAMPLES, WINDOW_MS


class TokenBucket:
    """Tokens that refill at the bound per second up to a burst; below zero the quota is exhausted.

    It starts with no tokens at time 0 of the epoch, so the first touch finds it full. A changed
    bound is not noticed before the next touch, which refills at the new bound for all the time
    since the last one (Kafka: ``KafkaMetric.config`` replaces the configuration and nothing else).

    Kafka: ``TokenBucket``; every method takes the bound as its ``MetricConfig`` has it.

    >>> bucket = TokenBucket(samples=10, window_ms=2_000)
    >>> bucket.measure(bound=5.0, now_ms=1_700_000_000_000)
    100.0
    >>> bucket.record(60.0, bound=5.0, now_ms=1_700_000_000_000)
    >>> bucket.measure(bound=5.0, now_ms=1_700_000_002_000)
    50.0
    """

    def __init__(
        self,
        samples: int = SAMPLES,
        window_ms: int = WINDOW_MS,
        tokens: float = 0.0,
        last_update_ms: int = 0,
    ) -> None:
        assert samples >= 1, samples
        assert window_ms >= 1, window_ms
        self.samples = samples
        self.window_ms = window_ms
        self.tokens = tokens
        self.last_update_ms = last_update_ms

    def measure(self, bound: float, now_ms: int) -> float:
        """Return the tokens at ``now_ms``; refills. Kafka: ``TokenBucket.measure``."""
        self._refill(bound, now_ms)
        return self.tokens

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Spend ``value`` tokens; a negative value gives back, up to the burst.

        Kafka: ``TokenBucket.record``.
        """
        self._refill(bound, now_ms)
        self.tokens = min(self.burst(bound), self.tokens - value)

    def burst(self, bound: float) -> float:
        """Return the most tokens it can hold. Kafka: ``TokenBucket.burst``.

        >>> TokenBucket(samples=11, window_ms=1_000).burst(2.5)
        27.5
        """
        return self.samples * (self.window_ms / 1000.0) * bound

    def _refill(self, bound: float, now_ms: int) -> None:
        elapsed_s = (now_ms - self.last_update_ms) / 1000.0
        self.tokens = min(self.burst(bound), self.tokens + bound * elapsed_s)
        self.last_update_ms = now_ms
