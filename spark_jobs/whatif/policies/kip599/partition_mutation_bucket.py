"""The token bucket of KIP-599's early revision, in whole numbers."""

from __future__ import annotations

MS_PER_S = 1000


class PartitionMutationBucket:
    """Tokens for everyone, that refill at ``rate`` per second up to ``burst``.

    They are counted in thousandths, so that times in ms leave no remainder, and as integers: the
    default burst is 2^63 - 1, and a float of that size does not notice seven times 80 less.

    Document: KIP-599, early revision, ``remaining-tokens``.

    >>> bucket = PartitionMutationBucket(rate=5, burst=2**63 - 1)
    >>> bucket.spend(560, now_ms=0)
    >>> 2**63 - 1 - bucket.tokens(now_ms=0), bucket.tokens(now_ms=112_000) == 2**63 - 1
    (560, True)
    """

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._thousandths = burst * MS_PER_S
        self._updated_ms: int | None = None

    def tokens(self, now_ms: int) -> int:
        """Return the whole tokens at ``now_ms``, rounded down; <= 0: throttled."""
        return self.thousandths(now_ms) // MS_PER_S

    def thousandths(self, now_ms: int) -> int:
        """Return the thousandths of a token at ``now_ms``; refills. A time before adds nothing."""
        if self._updated_ms is None:
            self._updated_ms = now_ms
        elapsed_ms = max(now_ms - self._updated_ms, 0)
        refilled = self._thousandths + self.rate * elapsed_ms
        self._thousandths = min(refilled, self.burst * MS_PER_S)
        self._updated_ms += elapsed_ms
        return self._thousandths

    def spend(self, tokens: int, now_ms: int) -> None:
        """Take tokens, perhaps more than there are."""
        self._thousandths = self.thousandths(now_ms) - tokens * MS_PER_S

    def reconfigure(self, rate: int, burst: int, now_ms: int) -> None:
        """Go on with another rate and burst from ``now_ms``; tokens above the burst are lost."""
        self.thousandths(now_ms)
        self.rate, self.burst = rate, burst
        self._thousandths = min(self._thousandths, burst * MS_PER_S)

    def until_positive_ms(self, now_ms: int) -> int:
        """Return the fewest ms after which there are tokens again, 0 where there are."""
        thousandths = self.thousandths(now_ms)
        return 0 if thousandths > 0 else -thousandths // self.rate + 1

    def until_paid_ms(self, now_ms: int) -> int:
        """Return the fewest ms after which there is no debt: -K / R, 0 where there is none."""
        return max(-(self.thousandths(now_ms) // self.rate), 0)
