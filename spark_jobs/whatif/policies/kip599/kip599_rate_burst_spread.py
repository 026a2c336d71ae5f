"""KIP-599, late revision: the rate, with bursts put into the samples before them.

A burst fills earlier samples up to Q x W each, and the rest goes to the current one, so that the
rate falls regularly, as a token bucket fills.

Decided where the document is silent:

- Oldest sample first, each by max(0, Q x W - its value). ``burst.spread`` = ``newest_first`` is the
  other reading; it does not fall regularly.
- Samples of the grid that nothing was recorded in are filled too.
- Q is the one in force when it is recorded; what was spread before stays where it is. Without a
  quota in force nothing is a burst.
- Everything else as in ``kip599_rate``.

Equal to the token bucket at whole windows, tokens = Q x S x W - total, as long as no mutation asks
for more than there are tokens. An overshoot stays in one sample, and leaves all at once with it.
"""

from __future__ import annotations

from enum import StrEnum

from spark_jobs.quota.throttle_time import UNLIMITED
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.kip599.kip599_rate import Kip599Rate

BURST_SPREAD = "burst.spread"


class BurstSpread(StrEnum):
    """Which earlier sample is filled first."""

    OLDEST_FIRST = "oldest_first"
    NEWEST_FIRST = "newest_first"


class Kip599RateBurstSpread(Kip599Rate):
    """The rate of ``kip599_rate``, recorded otherwise."""

    name = "kip599_rate_burst_spread"
    title = "KIP-599, late revision: the rate, bursts spread over earlier samples"
    keys = Kip599Rate.keys | {BURST_SPREAD}
    spread: BurstSpread

    def _read(self, config: KafkaConfig) -> None:
        self.spread = config.choice(BURST_SPREAD, BurstSpread.OLDEST_FIRST)

    def _record(self, grid: GridRate, amount: float, bound: float, now_ms: int) -> None:
        if bound < UNLIMITED:
            spread_burst(grid, amount, bound, now_ms, self.spread)
        else:
            grid.record(amount, now_ms)


def spread_burst(
    grid: GridRate,
    amount: float,
    bound: float,
    now_ms: int,
    spread: BurstSpread = BurstSpread.OLDEST_FIRST,
) -> None:
    """Record ``amount`` in the samples before ``now_ms`` as far as they have room, then in its own.

    >>> grid = GridRate(samples=100)
    >>> spread_burst(grid, 560.0, bound=5.0, now_ms=1_700_000_000_000)
    >>> values = grid.values(1_700_000_000_000)
    >>> sorted(set(values)), values.count(5.0), values[-1]
    ([5.0, 65.0], 99, 65.0)
    """
    full, rest = bound * grid.window_ms / 1000, amount
    values = grid.values(now_ms)
    places = range(len(values) - 1)
    for place in places if spread is BurstSpread.OLDEST_FIRST else reversed(places):
        if rest <= 0.0:
            break
        part = min(rest, max(0.0, full - values[place]))
        if part > 0.0:
            grid.add(part, len(values) - 1 - place, now_ms)
            rest -= part
    grid.record(rest, now_ms)
