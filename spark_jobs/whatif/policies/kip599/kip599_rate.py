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

from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.mutation_answer import TopicVerdict
from spark_jobs.whatif.policies.mutation_quota import MutationQuota


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
