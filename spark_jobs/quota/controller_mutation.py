"""What a controller does with one mutation: spend its partitions, refuse it, or mute the client."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_jobs.quota.java_math import java_divide, java_int, java_round
from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket

SMALLEST_DEBT = -5e-324
"""The largest number of tokens that is refused: all that a refusal says of them."""


@dataclass(frozen=True, slots=True)
class MutationDecision:
    """What the rule says of one mutation; tokens are partitions."""

    # The most tokens there can have been after the refill, before anything was spent.
    tokens_before: float
    # Tokens left when it was over; NaN where unknown.
    tokens: float
    is_admitted: bool
    throttle_time_ms: int
    # False where an amount that the log does not have leaves the decision open.
    is_state_known: bool


def mutation_throttle_time_ms(tokens: float, bound: float) -> int:
    """Return the delay until a bucket with ``tokens`` below zero is back at zero.

    A long: its callers cast it to an int only after they have taken the wait off.

    Kafka: ``ControllerMutationQuotaManager.throttleTimeMs``.

    >>> mutation_throttle_time_ms(-5.0, bound=10.0)
    500
    """
    return java_round(java_divide(-tokens, bound) * 1000)


def remaining_throttle_time_ms(throttle_time_ms: int, recorded_at_ms: int, now_ms: int) -> int:
    """Return the rest (ms) of a throttle when the response is made: the wait until then counts.

    Kafka: ``AbstractControllerMutationQuota.throttleTime``, and the response's larger of it and of
    the request quota's (``RequestHandlerHelper.sendResponseMaybeThrottleWithControllerQuota``).

    >>> remaining_throttle_time_ms(8_000, recorded_at_ms=0, now_ms=5_000)
    3000
    """
    return max(0, java_int(max(0, throttle_time_ms - (now_ms - recorded_at_ms))))


class ControllerMutationQuota:
    """A sensor's bucket as far as the log tells: between ``least`` and ``most``.

    Both follow the same rule and are equal until an amount is missing from the log: such a mutation
    may have spent anything, so ``least`` then holds nothing at all. An admitted strict mutation
    shows that there was no debt, a refused one that there was, and a full bucket forgets: so the
    two meet again.

    Kafka: ``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``.
    """

    def __init__(self, most: TokenBucket, least: TokenBucket | None = None) -> None:
        self.most = most
        self.least = least or TokenBucket(
            most.samples, most.window_ms, most.tokens, most.last_update_ms
        )

    def decide(
        self,
        amount: float,
        bound: float,
        now_ms: int,
        *,
        is_strict: bool,
        was_admitted: bool | None = None,
    ) -> MutationDecision:
        """Return the decision on a mutation of ``amount`` partitions (NaN: not in the log).

        A strict quota refuses where there is debt, and a refused mutation spends nothing; a
        permissive one always spends and mutes the client where that leaves a debt. The buckets move
        as the broker's did where ``was_admitted`` says what it logged, so that one wrong decision
        of a broker does not spoil all later ones; else as the rule says. A NaN ``bound`` is none in
        force.

        Kafka: ``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``, ``record``.

        >>> quota = ControllerMutationQuota(TokenBucket(samples=10))
        >>> at_ms = 1_700_000_000_000
        >>> [quota.decide(90.0, 10.0, at_ms, is_strict=True).is_admitted for _ in range(3)]
        [True, True, False]
        >>> quota.decide(90.0, 10.0, at_ms, is_strict=True).throttle_time_ms
        8000
        """
        bound = bound_in_force(bound)
        tokens_before = self.most.measure(bound, now_ms)
        is_state_known = self.least.measure(bound, now_ms) >= 0 or tokens_before < 0
        is_admitted = not is_strict or tokens_before >= 0
        if is_strict and was_admitted is not None and not is_state_known:
            self._learn(was_admitted)
        if not is_strict or (is_admitted if was_admitted is None else was_admitted):
            self._spend(amount, bound, now_ms)
        debt = self.most.tokens if not is_strict else 0.0 if is_admitted else tokens_before
        return MutationDecision(
            tokens_before=tokens_before,
            tokens=self.tokens,
            is_admitted=is_admitted,
            throttle_time_ms=remaining_throttle_time_ms(
                mutation_throttle_time_ms(debt, bound) if debt < 0 else 0, now_ms, now_ms
            ),
            is_state_known=is_state_known,
        )

    @property
    def tokens(self) -> float:
        """Return the tokens in the bucket, NaN where the log does not tell."""
        return self.most.tokens if self.most.tokens == self.least.tokens else math.nan

    def _learn(self, was_admitted: bool) -> None:
        if was_admitted:
            self.least.tokens = 0.0
        else:
            self.most.tokens = min(self.most.tokens, SMALLEST_DEBT)

    def _spend(self, amount: float, bound: float, now_ms: int) -> None:
        if math.isnan(amount):
            self.least.tokens = -math.inf
            return
        self.most.record(amount, bound, now_ms)
        self.least.record(amount, bound, now_ms)
