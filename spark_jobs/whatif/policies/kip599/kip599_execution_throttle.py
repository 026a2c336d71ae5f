"""KIP-599, early revision, rejected alternative: accept at once, execute when there are tokens.

Decided where the document is silent:

- The configs and the bucket of ``kip599_early``. Mutations are executed in the order in which they
  were accepted, each as soon as those before it are paid for: -K / R after it came, K being what
  the earlier ones left.
- The answer waits for the execution of the request's last topic; nobody is told of a throttle.
- Longer than the client's ``request.timeout.ms`` (default 30 s), the client gives up: the finding
  ``request_timed_out``. The execution goes on.
- A topic is registered when it is accepted, not when it is executed, so the retry of its creation
  gets TOPIC_ALREADY_EXISTS and spends nothing. So does every other creation of a topic that was
  accepted here and not deleted since; registered topics survive a failover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.partition_inventory import CREATE_TOPICS, DELETE_TOPICS
from spark_jobs.whatif.policies.decision import Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.kip599.partition_mutation_bucket import PartitionMutationBucket
from spark_jobs.whatif.policies.kip599.partition_mutation_quota import (
    PartitionMutationQuota,
    remaining_tokens,
    throttle_int32,
)
from spark_jobs.whatif.policies.mutation_answer import (
    PARTITIONS_UNKNOWN,
    STATE_UNKNOWN,
    answered,
    failed,
)
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

REQUEST_TIMEOUT = "request.timeout.ms"
REQUEST_TIMED_OUT = "request_timed_out"
"""The client gave up before the answer came, and may have sent the request again."""


class Kip599ExecutionThrottle(PartitionMutationQuota):
    """Accepted and registered at once, executed when earlier mutations are paid for."""

    name = "kip599_execution_throttle"
    title = "KIP-599, rejected: throttle the execution"
    keys = PartitionMutationQuota.keys | {REQUEST_TIMEOUT}
    request_timeout_ms: int

    def __init__(self, config: Mapping[str, object]) -> None:
        self._registered: set[str] = set()
        super().__init__(config)

    def _read(self, config: KafkaConfig) -> None:
        self.request_timeout_ms = config.whole_number(
            REQUEST_TIMEOUT, default=30_000, at_most=INT_MAX
        )

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        now_ms, delay_ms = request.at_ms, 0
        findings = dict.fromkeys(self._findings(bucket))
        topics = []
        for part in request.topics:
            if part.other_error_code:
                topics.append(failed(part))
                continue
            if request.api_name == CREATE_TOPICS and part.topic in self._registered:
                topics.append(TopicDecision(part.topic, part.amount, _already_exists(part)))
                continue
            if math.isnan(part.amount):
                findings[PARTITIONS_UNKNOWN] = None
            if not self._is_known:
                findings[STATE_UNKNOWN] = None
            measured = remaining_tokens(bucket, now_ms)
            delay_ms = max(delay_ms, bucket.until_paid_ms(now_ms))
            self._spend(part, bucket, now_ms)
            self._register(request, part)
            topics.append(TopicDecision(part.topic, part.amount, measured=measured))
        if delay_ms > self.request_timeout_ms:
            findings[REQUEST_TIMED_OUT] = None
        return answered(
            request,
            tuple(topics),
            throttle_int32(delay_ms),
            measured=remaining_tokens(bucket, now_ms),
            bound=float(bucket.rate),
            held=Held.EXECUTION,
            findings=tuple(findings),
        )

    def _register(self, request: PolicyRequest, part: TopicPart) -> None:
        if request.validate_only:
            return
        if request.api_name == CREATE_TOPICS:
            self._registered.add(part.topic)
        elif request.api_name == DELETE_TOPICS:
            self._registered.discard(part.topic)


def _already_exists(part: TopicPart) -> Refusal:
    reason = f"Topic '{part.topic}' already exists."
    return Refusal("TOPIC_ALREADY_EXISTS", reason, is_retriable=False)
