"""KIP-599's late revision with the rate as it is: why the token bucket was proposed.

A topic is admitted iff R <= Q; else THROTTLING_QUOTA_EXCEEDED with (R - Q) / Q x S x W. R is what
was admitted over S samples of W, by the document's arithmetic: always divided by S x W, the sample
of the moment included (:mod:`grid_rate`; a broker's ``Rate`` counts otherwise).
A burst leaves the rate all at once, S x W after it: the throttle that was computed is too short.

Decided where the document is silent:

- Samples begin at whole multiples of W since 1970.
- Old versions, failover, rounding and unknown sizes are as in ``kip599_token_bucket``; after an
  unknown size what is admitted is not certain until S x W later.
- A changed quota is compared with what was recorded before it, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.quota.throttle_time import UNLIMITED, bound_in_force
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.mutation_quota import MutationQuota, TopicVerdict


@dataclass(slots=True)
class MutationRate:
    """The rate of a sensor as far as the log tells."""

    grid: GridRate
    # When partitions of unknown number were admitted last.
    unknown_at_ms: float = -math.inf

    def is_known(self, now_ms: int) -> bool:
        """Return True if everything in the grid is known."""
        return now_ms - self.unknown_at_ms >= self.grid.window_s * 1000


class Kip599Rate(MutationQuota[MutationRate]):
    """A rate per (user, client-id) over a grid of samples, compared before each topic."""

    name = "kip599_rate"
    title = "KIP-599, late revision: the rate"

    def _new_state(self) -> MutationRate:
        return MutationRate(GridRate(self.samples, self.window_ms))

    def _topic(
        self, state: MutationRate, amount: float, bound: float, now_ms: int, refusable: bool
    ) -> TopicVerdict:
        grid, bound = state.grid, bound_in_force(bound)
        rate, is_over = grid.rate(now_ms), grid.is_violated(bound, now_ms)
        is_known = is_over or state.is_known(now_ms)
        is_admitted = not (is_over and refusable)
        if is_admitted and math.isnan(amount):
            state.unknown_at_ms = now_ms
        elif is_admitted:
            self._record(grid, amount, bound, now_ms)
        is_throttled = is_over or not refusable
        throttle_time_ms = grid.delay_ms(bound, now_ms) if is_throttled else 0
        return TopicVerdict(is_admitted, throttle_time_ms, rate, is_known)

    def _record(self, grid: GridRate, amount: float, bound: float, now_ms: int) -> None:
        grid.record(amount, now_ms)

    def _measured(self, state: MutationRate, bound: float, now_ms: int) -> float:
        return state.grid.rate(now_ms)


BURST_SPREAD = "burst.spread"


class BurstSpread(StrEnum):
    """Which earlier sample is filled first."""

    OLDEST_FIRST = "oldest_first"
    NEWEST_FIRST = "newest_first"


class Kip599RateBurstSpread(Kip599Rate):
    """The rate of ``kip599_rate``, recorded otherwise.

    A burst fills earlier samples up to Q x W each, and the rest goes to the current one, so that
    the rate falls regularly, as a token bucket fills.

    Decided where the document is silent:

    - Oldest sample first, each by max(0, Q x W - its value). ``burst.spread`` = ``newest_first`` is
      the other reading; it does not fall regularly.
    - Samples of the grid that nothing was recorded in are filled too.
    - Q is the one in force when it is recorded; what was spread before stays where it is. Without a
      quota in force nothing is a burst.
    - Everything else as in ``kip599_rate``.

    Equal to the token bucket at whole windows, tokens = Q x S x W - total, as long as no mutation
    asks for more than there are tokens. An overshoot stays in one sample, and leaves all at once
    with it.
    """

    name = "kip599_rate_burst_spread"
    title = "KIP-599, late revision: the rate, bursts spread over earlier samples"
    keys = frozenset({BURST_SPREAD})
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
