"""What the systems of KIP-599's early revision share: two broker configs and one bucket."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Self

from spark_jobs.quota.java_math import INT_MAX, LONG_MAX
from spark_jobs.quota.partition_inventory import MUTATION_APIS
from spark_jobs.whatif.policies.change import Change, ConfigChanged, ControllerFailedOver
from spark_jobs.whatif.policies.decision import Decision, TopicDecision
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.kip599.partition_mutation_bucket import (
    MS_PER_S,
    PartitionMutationBucket,
)
from spark_jobs.whatif.policies.mutation_answer import failed
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

RATE = "quota.partition.mutations.rate"
BURST = "quota.partition.mutations.burst"
BURST_NEVER_THROTTLES = "burst_never_throttles"
"""The burst is at its default, so the bucket cannot become empty in practice."""
KNOWN_LIMITS = (
    "Topics changed through ZooKeeper bypass the quota: nothing controls or rejects them.",
    "Topics that a broker creates by itself, on METADATA or FIND_COORDINATOR, bypass the quota.",
)
"""What the document says that it does not cover."""


class PartitionMutationQuota(Policy):
    """One bucket for everyone at the controller; no bucket while the rate is at its default."""

    apis = frozenset(MUTATION_APIS)
    scope = StateScope.CLUSTER
    keys: ClassVar[frozenset[str]] = frozenset({RATE, BURST})
    known_limits: ClassVar[tuple[str, ...]] = KNOWN_LIMITS

    def __init__(self, config: Mapping[str, object]) -> None:
        self._bucket: PartitionMutationBucket | None = None
        self._is_known = True
        self._configure(config, at_ms=None)

    @classmethod
    def configured(cls, config: Mapping[str, object]) -> Self:
        """Return the policy in its first state. Raises PolicyConfigError."""
        return cls(config)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the name of the one bucket."""
        return "controller"

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on each topic; without a rate everything is admitted."""
        if self._bucket is None:
            topics = tuple(
                failed(part) if part.other_error_code else TopicDecision(part.topic, part.amount)
                for part in request.topics
            )
            return Decision(topics=topics)
        return self._decide(request, self._bucket)

    def observe(self, change: Change) -> None:
        """Take over other values of the cluster-wide configs; a new controller's bucket is full."""
        if isinstance(change, ConfigChanged):
            values = {**self._values, **change.values}
            config = {key: value for key, value in values.items() if value is not None}
            self._configure(config, change.at_ms)
        elif isinstance(change, ControllerFailedOver) and self._bucket is not None:
            self._bucket = PartitionMutationBucket(self._bucket.rate, self._bucket.burst)
            self._is_known = True

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        raise NotImplementedError

    def _read(self, config: KafkaConfig) -> None:
        """Read the policy's own keys."""

    def _configure(self, config: Mapping[str, object], at_ms: int | None) -> None:
        read = KafkaConfig(self.name, config, self.keys)
        rate = read.whole_number(RATE, default=LONG_MAX)
        burst = read.whole_number(BURST, default=LONG_MAX)
        self._read(read)
        self._values = dict(config)
        if rate == LONG_MAX:
            self._bucket = None
        elif self._bucket is None or at_ms is None:
            self._bucket, self._is_known = PartitionMutationBucket(rate, burst), True
        else:
            self._bucket.reconfigure(rate, burst, at_ms)

    def _spend(self, part: TopicPart, bucket: PartitionMutationBucket, now_ms: int) -> None:
        if math.isnan(part.amount):
            self._is_known = False
        else:
            bucket.spend(int(part.amount), now_ms)

    def _findings(self, bucket: PartitionMutationBucket) -> tuple[str, ...]:
        return (BURST_NEVER_THROTTLES,) if bucket.burst == LONG_MAX else ()


def remaining_tokens(bucket: PartitionMutationBucket, now_ms: int) -> float:
    """Return the tokens as the number that decisions carry: rounded near 2^63."""
    return bucket.thousandths(now_ms) / MS_PER_S


def throttle_int32(throttle_time_ms: int) -> int:
    """Return a throttle time as ``QuotaViolationException`` has room for it."""
    return min(throttle_time_ms, INT_MAX)
