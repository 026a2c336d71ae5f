"""Tokens looked at without touching the bucket, and what a debt of them is in time."""

from __future__ import annotations

import math

from spark_jobs.quota.controller_mutation import ControllerMutationQuota, mutation_throttle_time_ms
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket


def copied(bucket: TokenBucket) -> TokenBucket:
    """Return a bucket of its own in the same state."""
    return TokenBucket(bucket.samples, bucket.window_ms, bucket.tokens, bucket.last_update_ms)


def tokens_at(quota: ControllerMutationQuota, bound: float, now_ms: int) -> float:
    """Return the tokens at ``now_ms``, NaN where unknown; nothing changes.

    >>> tokens_at(ControllerMutationQuota(TokenBucket(samples=10)), 5.0, 1_700_000_000_000)
    50.0
    """
    if math.isnan(quota.tokens):
        return math.nan
    return copied(quota.most).measure(bound_in_force(bound), now_ms)


def debt_throttle_time_ms(tokens: float, bound: float) -> int:
    """Return -K / R in ms, 0 without a debt; capped where it does not fit an int32.

    Document: KIP-599, late revision, whose example divides where its formula multiplies.

    >>> debt_throttle_time_ms(-60.0, 5.0), debt_throttle_time_ms(20.0, 5.0)
    (12000, 0)
    """
    if tokens >= 0:
        return 0
    return min(mutation_throttle_time_ms(tokens, bound_in_force(bound)), INT_MAX)
