"""A sensor as it was before one of its decisions: the day's amounts replayed up to there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.partition_inventory import is_strict
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.quota.rate import Rate, Sample
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.token_bucket import TokenBucket

Row = Mapping[str, Any]


def rate_before(broker: Row, carried: Row | None, earlier: Sequence[Row]) -> Rate:
    """Return the rate of a sensor after ``earlier``, its decisions of this epoch, in their order.

    ``broker`` is its row of ``tables.BROKERS``; ``carried`` its row of ``tables.QUOTA_STATE`` at
    the end of the day before, None where it begins anew with the first of them.
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
    """Return the longest throttle of a quota type; only the request quota has one.

    Kafka: ``ClientRequestQuotaManager.maxThrottleTimeMs``.
    """
    return broker["window_ms"] if quota_type == QuotaType.REQUEST_PERCENTAGE else None


def _number(found: float | None) -> float:
    return math.nan if found is None else float(found)
