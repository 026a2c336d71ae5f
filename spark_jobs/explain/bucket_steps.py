"""What a controller computed for one mutation on a token bucket, each number by itself."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from spark_jobs.quota.controller_mutation import ControllerMutationQuota


@dataclass(frozen=True, slots=True)
class BucketSteps:
    """From the tokens before to the throttle; tokens are partitions."""

    # After the last mutation, and how long before this one that was; None: never touched.
    tokens_then: float | None
    elapsed_ms: int | None
    burst: float
    tokens_before: float
    amount: float
    tokens_after: float
    bound: float
    is_strict: bool
    is_admitted: bool
    throttle_time_ms: int


def bucket_steps(
    before: ControllerMutationQuota, amount: float, bound: float, now_ms: int, *, is_strict: bool
) -> BucketSteps:
    """Return the steps for a mutation of ``amount`` partitions; ``before`` stays as it is.

    Source: Kafka's ``ControllerMutationQuotaManager``, ``StrictControllerMutationQuota``,
    ``PermissiveControllerMutationQuota``, ``TokenBucket``.
    """
    bucket = before.most
    is_touched = bucket.last_update_ms > 0
    tokens_then, then_ms = before.tokens, bucket.last_update_ms
    made = copy.deepcopy(before).decide(amount, bound, now_ms, is_strict=is_strict)
    return BucketSteps(
        tokens_then=tokens_then if is_touched else None,
        elapsed_ms=now_ms - then_ms if is_touched else None,
        burst=bucket.burst(bound),
        tokens_before=made.tokens_before,
        amount=amount,
        tokens_after=made.tokens,
        bound=bound,
        is_strict=is_strict,
        is_admitted=made.is_admitted,
        throttle_time_ms=made.throttle_time_ms,
    )
