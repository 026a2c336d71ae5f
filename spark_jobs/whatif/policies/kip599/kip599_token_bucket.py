"""KIP-599's controller mutation quota, late revision: a token bucket that may go below zero.

R = Q, B = Q x S x W; K = min(K + (now - T) x R, B); a topic is admitted iff K >= 0, and then
K -= N; else THROTTLING_QUOTA_EXCEEDED with a throttle of -K / R. Brokers took the arithmetic over
(:mod:`spark_jobs.quota.token_bucket`).

Decided where the document is silent or contradicts itself:

- ``-K * R`` and ``((R - Q / Q * S * W))`` are misprints: its example and every broker divide.
- A bucket is full when it is first touched, and again after a failover of the controller.
- The throttle in ms is rounded, and int32 caps it.
- Versions that do not know the error (before CreateTopics 6, CreatePartitions 3, DeleteTopics 5)
  are accepted, spend, and are muted while K < 0, as the early revision says.
- A changed quota is noticed at the bucket's next touch, as by brokers.
- The metrics: the rate is over a grid of S x W, the throttle time the average over the requests of
  the last S x W; neither decides anything.
- A mutation of unknown size is charged nothing and reported; what follows is then not certain.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.grid_rate import GridRate
from spark_jobs.whatif.policies.mutation_quota import (
    MutationQuota,
    TopicVerdict,
    debt_throttle_time_ms,
    tokens_at,
)


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


@dataclass(frozen=True, slots=True)
class MutationMetrics:
    """The metrics of a sensor, group ControllerMutation; partitions, seconds, milliseconds."""

    user: str
    client_id: str
    rate: float
    # Below zero the quota throttles.
    tokens: float
    throttle_time_ms: float


@dataclass(slots=True)
class ObservedQuota:
    """A bucket, and what the metrics beside it saw."""

    quota: ControllerMutationQuota
    rate: GridRate
    throttle_times: ThrottleTimes
    bound: float = math.nan  # at the last touch

    def tokens(self, now_ms: int) -> float:
        """Return the tokens at ``now_ms`` without touching the bucket, NaN where unknown."""
        return tokens_at(self.quota, self.bound, now_ms)


class Kip599TokenBucket(MutationQuota[ObservedQuota]):
    """A bucket per (user, client-id), full at first, spent topic by topic."""

    name = "kip599_token_bucket"
    title = "KIP-599, late revision: token bucket"

    def metrics(self, now_ms: int) -> list[MutationMetrics]:
        """Return the metrics of every sensor at ``now_ms``; looking at them changes nothing."""
        return [
            MutationMetrics(
                user=key.user,
                client_id=key.client_id,
                rate=state.rate.rate(now_ms),
                tokens=state.tokens(now_ms),
                throttle_time_ms=state.throttle_times.average_ms(now_ms),
            )
            for key, state in self._states
        ]

    def _new_state(self) -> ObservedQuota:
        full = TokenBucket(self.samples, self.window_ms, tokens=math.inf)
        return ObservedQuota(
            ControllerMutationQuota(full),
            GridRate(self.samples, self.window_ms),
            ThrottleTimes(self.samples * self.window_ms),
        )

    def _topic(
        self, state: ObservedQuota, amount: float, bound: float, now_ms: int, refusable: bool
    ) -> TopicVerdict:
        found = state.quota.decide(amount, bound, now_ms, is_strict=refusable)
        if found.is_admitted and not math.isnan(amount):
            state.rate.record(amount, now_ms)
        debt = found.tokens_before if refusable else state.quota.most.tokens
        return TopicVerdict(
            found.is_admitted,
            debt_throttle_time_ms(debt, bound),
            found.tokens_before,
            found.is_state_known,
        )

    def _measured(self, state: ObservedQuota, bound: float, now_ms: int) -> float:
        return tokens_at(state.quota, bound, now_ms)

    def _answered(self, state: ObservedQuota, decision: Decision, now_ms: int) -> None:
        state.throttle_times.record(decision.delay_ms, now_ms)
        state.bound = decision.bound
