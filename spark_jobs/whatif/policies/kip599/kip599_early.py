"""KIP-599, early revision: one token bucket for all partition mutations of a cluster.

Configs ``quota.partition.mutations.rate`` and ``.burst`` (long, default 2^63 - 1, cluster-wide);
QUOTA_VIOLATED to CreateTopics 6, CreatePartitions 3, DeleteTopics 5 and later; metric
``remaining-tokens``, <= 0 means throttled.

Decided where the document is silent or contradicts itself:

- One bucket for everyone, at the controller, full at first and after a failover. Topic by topic in
  the order of the request, each admitted iff K > 0, after which K may be below zero; a topic that
  fails for another reason spends nothing, a validate-only one spends, as in the late revision.
- A rate at its default is no quota: no bucket. A burst at its default with a rate set is replayed
  as written, with the finding ``burst_never_throttles``.
- Configs are whole numbers of at least 1. A changed one takes the tokens there are along, cut to
  the new burst.
- Tokens are integers: a float of 2^63 does not register seven topics of 80 partitions.
- The throttle time is the first ms at which K > 0, for at K = 0 a try is still refused. The error
  tells it (its message too, in DeleteTopics 5 as well) and the connection is not held.
- Older versions are accepted, spend, and their connection is held while K <= 0.
- ``retry.quota.violation.exception`` (admin client, default true) is whether a refusal is retried
  by the client itself; ``kafka-topics.sh`` behaves as with false.
- A mutation of unknown size is charged nothing and reported.
"""

from __future__ import annotations

import math

from spark_jobs.quota.partition_inventory import is_strict
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

QUOTA_VIOLATED = "QUOTA_VIOLATED"
RETRY = "retry.quota.violation.exception"


class Kip599Early(PartitionMutationQuota):
    """Refused with an error, or held where the version does not know the error."""

    name = "kip599_early"
    title = "KIP-599, early revision: partition mutation quota"
    keys = PartitionMutationQuota.keys | {RETRY}
    is_retried: bool

    def _read(self, config: KafkaConfig) -> None:
        self.is_retried = config.boolean(RETRY, default=True)

    def _is_refusable(self, request: PolicyRequest) -> bool:
        return is_strict(request.api_name, request.api_version)

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        now_ms, refusable = request.at_ms, self._is_refusable(request)
        findings = dict.fromkeys(self._findings(bucket))
        topics, is_refused = [], False
        for part in request.topics:
            if part.other_error_code:
                topics.append(failed(part))
                continue
            if math.isnan(part.amount):
                findings[PARTITIONS_UNKNOWN] = None
            measured, wait_ms = remaining_tokens(bucket, now_ms), bucket.until_positive_ms(now_ms)
            if wait_ms == 0 and not self._is_known:
                findings[STATE_UNKNOWN] = None
            refusal = self._refusal(wait_ms) if refusable and wait_ms else None
            is_refused |= refusal is not None
            if refusal is None:
                self._spend(part, bucket, now_ms)
            topics.append(TopicDecision(part.topic, part.amount, refusal, measured))
        is_held = not refusable and any(_is_charged(part) for part in request.topics)
        return answered(
            request,
            tuple(topics),
            throttle_int32(bucket.until_positive_ms(now_ms)) if is_refused or is_held else 0,
            measured=remaining_tokens(bucket, now_ms),
            bound=float(bucket.rate),
            held=Held.NOTHING if is_refused else Held.NEXT_REQUEST,
            findings=tuple(findings),
        )

    def _refusal(self, wait_ms: int) -> Refusal:
        reason = (
            "The partition mutation quota has been violated; "
            f"try again in {throttle_int32(wait_ms)} ms."
        )
        return Refusal(QUOTA_VIOLATED, reason, is_retriable=self.is_retried)


def _is_charged(part: TopicPart) -> bool:
    return not part.other_error_code
