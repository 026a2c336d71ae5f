"""KIP-599, late revision, rejected alternative: a quota on the time that mutations take.

Decided where the document is silent:

- The cost of a request is its logged handler time in ms, in place of the CPU time that no log has.
- It is charged when the request was executed, that long after it was decided on: what comes in
  between sees the tokens without it. It covers what failed and what was only validated: both took
  time. A refused request costs nothing.
- The bucket is ``kip599_token_bucket``'s with a quota of its own, ``controller_usage_rate`` in ms
  of handler time per second, in ``quotas`` of the configuration: quotas of partitions per second in
  a log say nothing of it.
- It decides on the request as a whole, before it is known what it will cost: iff K >= 0.
- The same three requests as the chosen system; old versions are accepted, and muted by what their
  own charge leaves.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from spark_jobs.quota.partition_inventory import is_strict
from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.whatif.policies.decision import Decision, Held, Refusal
from spark_jobs.whatif.policies.mutation_quota import (
    THROTTLING_QUOTA_EXCEEDED,
    MutationQuota,
    copied,
    debt_throttle_time_ms,
)
from spark_jobs.whatif.policies.request import PolicyRequest
from spark_jobs.whatif.policies.throttle_time_versions import tells_throttle_time

CONTROLLER_USAGE_RATE = "controller_usage_rate"
US_PER_MS = 1000


@dataclass(slots=True)
class UsageBucket:
    """Tokens in ms of handler time, and what is still being executed."""

    bucket: TokenBucket
    # (when it is charged, how many ms)
    executing: list[tuple[int, float]] = field(default_factory=list)

    def measure(self, bound: float, now_ms: int) -> float:
        """Return the tokens at ``now_ms``, with all charged that was executed by then."""
        while self.executing and self.executing[0][0] <= now_ms:
            charged_ms, cost_ms = heapq.heappop(self.executing)
            self.bucket.record(cost_ms, bound, max(charged_ms, self.bucket.last_update_ms))
        return self.bucket.measure(bound, max(now_ms, self.bucket.last_update_ms))

    def execute(self, cost_ms: float, now_ms: int) -> int:
        """Begin a request and return the time (ms) at which it will be charged."""
        charged_ms = now_ms + int(cost_ms)
        heapq.heappush(self.executing, (charged_ms, cost_ms))
        return charged_ms

    def tokens_at(self, bound: float, at_ms: int) -> float:
        """Return the tokens at a later time if nothing else comes; nothing changes."""
        return UsageBucket(copied(self.bucket), list(self.executing)).measure(bound, at_ms)


class Kip599UsageBased(MutationQuota[UsageBucket]):
    """A bucket of handler time per (user, client-id), charged after the execution."""

    name = "kip599_usage_based"
    title = "KIP-599, rejected: usage based quota"
    quota_types = (CONTROLLER_USAGE_RATE,)

    def _new_state(self) -> UsageBucket:
        return UsageBucket(TokenBucket(self.samples, self.window_ms, tokens=float("inf")))

    def _decide(self, request: PolicyRequest, state: UsageBucket, bound: float) -> Decision:
        in_force, now_ms = bound_in_force(bound), request.at_ms
        tokens = state.measure(in_force, now_ms)
        refusable = is_strict(request.api_name, request.api_version)
        is_refused = refusable and tokens < 0
        debt = tokens if is_refused else 0.0
        if not is_refused:
            charged_ms = state.execute(request.handler_time_us / US_PER_MS, now_ms)
            if not refusable:
                debt = state.tokens_at(in_force, charged_ms)
        delay_ms = debt_throttle_time_ms(debt, bound)
        tells = tells_throttle_time(request.api_name, request.api_version)
        return Decision(
            delay_ms=delay_ms,
            held=Held.NEXT_REQUEST if delay_ms else Held.NOTHING,
            is_told=delay_ms > 0 and tells,
            refusal=_refusal(delay_ms) if is_refused else None,
            measured=tokens,
            bound=bound,
        )


def _refusal(delay_ms: int) -> Refusal:
    reason = f"The controller usage quota has been exceeded; try again in {delay_ms} ms."
    return Refusal(THROTTLING_QUOTA_EXCEEDED, reason)
