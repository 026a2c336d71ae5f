"""What a broker computed for one decision, each number by itself.

The sensor is replayed through the day's amounts before the decision, which is then taken apart.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.partition_inventory import is_strict
from spark_jobs.quota.rate import Rate, Sample
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, decide
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.quota.token_bucket import TokenBucket

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CountedSample:
    """One sample of the window after the amount was recorded."""

    start_ms: int
    value: float
    is_oldest: bool
    is_current: bool


@dataclass(frozen=True, slots=True)
class RateSteps:
    """From the amount to the throttle; times in milliseconds, the rate per second."""

    samples: tuple[CountedSample, ...]
    total: float
    # From the oldest sample's start until now, and the time added to make the window.
    elapsed_ms: int
    added_ms: int
    # The fewest whole windows that are counted.
    full_windows_min: int
    window_size_ms: int
    rate: float
    bound: float
    is_acceptable: bool
    # Before the cap, where there is one.
    uncapped_ms: int
    throttle_time_ms: int

    @property
    def excess(self) -> float:
        """Return the amount above the bound in the window: so much less meets no throttle."""
        return max(self.total - self.bound * self.window_size_ms / 1000.0, 0.0)


def rate_steps(
    before: Rate, amount: float, bound: float, now_ms: int, throttle_max_ms: int | None = None
) -> RateSteps:
    """Return the steps for ``amount`` on a sensor in the state ``before``, which stays as it is.

    Source: Kafka's ``ClientQuotaManager.recordAndGetThrottleTimeMs``, ``Rate``, ``QuotaUtils``.
    """
    rate = copy.deepcopy(before)
    made = decide(rate, amount, bound, now_ms, throttle_max_ms=throttle_max_ms)
    oldest = rate.oldest(now_ms)
    elapsed_ms = now_ms - oldest.start_ms
    accepted = is_acceptable(made.rate, bound)
    uncapped_ms = 0 if accepted else throttle_time_ms(made.rate, bound, made.window_size_ms)
    counted = [
        CountedSample(sample.start_ms, sample.value, sample is oldest, i == rate.index)
        for i, sample in enumerate(rate.slots)
        if sample.value or sample is oldest or i == rate.index
    ]
    return RateSteps(
        samples=tuple(sorted(counted, key=lambda sample: sample.start_ms)),
        total=rate.total(now_ms),
        elapsed_ms=elapsed_ms,
        added_ms=made.window_size_ms - elapsed_ms,
        full_windows_min=rate.samples - 1,
        window_size_ms=made.window_size_ms,
        rate=made.rate,
        bound=bound,
        is_acceptable=accepted,
        uncapped_ms=uncapped_ms,
        throttle_time_ms=made.throttle_time_ms,
    )


def rate_before(broker: Row, carried: Row | None, earlier: Sequence[Row]) -> Rate:
    """Return the rate of a sensor after ``earlier``, its decisions of this epoch, in their order.

    ``broker`` is the row of ``tables.BROKERS``; ``carried`` the sensor's of ``tables.QUOTA_STATE``
    at the end of the day before, None where the sensor begins anew with the first decision.
    """
    profile = RateProfile(broker["rate_profile"])
    samples, window_ms = broker["samples"], broker["window_ms"]
    states = SensorStates.allocate([profile], [samples], [window_ms])
    if carried is not None:
        held = [(s["start_ms"], s["last_event_ms"], s["value"]) for s in carried["samples"]]
        states.restore(0, carried["sample_index"], held)
    is_unrecorded = np.array([row["is_unrecorded"] for row in earlier], bool)
    replay_rate(
        np.zeros(len(earlier), np.int64),
        np.array([row["recorded_at_ms"] for row in earlier], np.int64),
        np.array([_number(row["amount"]) for row in earlier], np.float64),
        np.array([_number(row["bound"]) for row in earlier], np.float64),
        np.where(is_unrecorded, RECORD_AND_UNRECORD, RECORD).astype(np.int8),
        np.array([row["logged_throttle_time_ms"] for row in earlier], np.int64),
        np.full(len(earlier), NO_THROTTLE_MAX, np.int64),
        *states.rate_arrays(),
    )
    index, held, _ = states.export(0)
    return Rate(profile, samples, window_ms, index, [Sample(*sample) for sample in held])


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


def bucket_before(
    broker: Row, carried: Row | None, earlier: Sequence[Row]
) -> ControllerMutationQuota:
    """Return the token bucket of a sensor after ``earlier``; see :func:`rate_before`."""
    bucket = TokenBucket(broker["controller_samples"], broker["controller_window_ms"])
    if carried is not None and carried["last_update_ms"] is not None:
        bucket.tokens, bucket.last_update_ms = carried["tokens"], carried["last_update_ms"]
    quota = ControllerMutationQuota(bucket)
    for row in earlier:
        quota.decide(
            _number(row["amount"]),
            _number(row["bound"]),
            row["recorded_at_ms"],
            is_strict=is_strict(row["api_name"], row["api_version"]),
            was_admitted=row["logged_admitted"],
        )
    return quota


def throttle_max_ms(quota_type: str, broker: Row) -> int | None:
    """Return the longest throttle of a quota type (ms), None where it is cut to 32 bits.

    Kafka: ``ClientRequestQuotaManager.maxThrottleTimeMs``, and since 4.4
    ``ClientQuotaManager.recordAndGetThrottleTimeMs``.
    """
    is_request = quota_type == QuotaType.REQUEST_PERCENTAGE
    longest_ms: int | None = broker["window_ms"] if is_request else broker["throttle_max_ms"]
    return longest_ms


def _number(found: float | None) -> float:
    return math.nan if found is None else float(found)
