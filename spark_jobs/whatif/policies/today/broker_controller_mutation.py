"""Today's quota on partitions created and deleted per second.

Source: Kafka's ``ControllerMutationQuotaManager``, ``StrictControllerMutationQuota`` and
``PermissiveControllerMutationQuota``. The rule is the audit's
own (:mod:`spark_jobs.quota.controller_mutation`), told nothing of what the log says was admitted.

Decided here:

- Each broker that logs mutations is a controller with its own buckets; after a failover or a start
  they are full. A bucket that was idle for an hour is full, too.
- Refused or held, the connection is muted for the throttle time, by the broker that forwards too.
- Several topics refused in one request have one throttle time: the last one's.
- A throttle of more than 24.8 days wraps to a negative one, which is none, as in Kafka.
"""

from __future__ import annotations

from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.whatif.policies.client_quota_policy import BROKER_VERSION, USES_ZOOKEEPER
from spark_jobs.whatif.policies.mutation_quota import (
    WINDOW_NUM,
    WINDOW_SIZE_SECONDS,
    MutationQuota,
    TopicVerdict,
    tokens_at,
)
from spark_jobs.whatif.policies.policy import StateScope


class BrokerControllerMutation(MutationQuota[ControllerMutationQuota]):
    """A token bucket per sensor; below zero new versions are refused and old ones muted."""

    name = "broker_controller_mutation"
    title = "Apache Kafka: controller_mutation_rate"
    scope = StateScope.SENSOR
    broker_keys = frozenset({BROKER_VERSION, USES_ZOOKEEPER, WINDOW_NUM, WINDOW_SIZE_SECONDS})
    expires = True

    def _new_state(self) -> ControllerMutationQuota:
        return ControllerMutationQuota(TokenBucket(self.samples, self.window_ms))

    def _topic(
        self,
        state: ControllerMutationQuota,
        amount: float,
        bound: float,
        now_ms: int,
        refusable: bool,
    ) -> TopicVerdict:
        found = state.decide(amount, bound, now_ms, is_strict=refusable)
        return TopicVerdict(
            found.is_admitted,
            max(found.throttle_time_ms, 0),
            found.tokens_before,
            found.is_state_known,
        )

    def _measured(self, state: ControllerMutationQuota, bound: float, now_ms: int) -> float:
        return tokens_at(state, bound, now_ms)
