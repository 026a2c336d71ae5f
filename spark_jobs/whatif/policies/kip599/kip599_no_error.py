"""KIP-599, early revision, rejected alternative: throttle the admission without an error code.

What ``kip599_early`` does with old versions, done with every version: the mutation is accepted and
spends, and while K <= 0 the connection is held. Nobody is refused; decided as there otherwise.
``retry.quota.violation.exception`` has nothing to say and is no key.
"""

from __future__ import annotations

from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.kip599.kip599_early import Kip599Early
from spark_jobs.whatif.policies.kip599.partition_mutation_quota import PartitionMutationQuota
from spark_jobs.whatif.policies.request import PolicyRequest


class Kip599NoError(Kip599Early):
    """Everyone is treated as an old client."""

    name = "kip599_no_error"
    title = "KIP-599, rejected: throttled without an error"
    keys = PartitionMutationQuota.keys

    def _read(self, config: KafkaConfig) -> None:
        self.is_retried = False

    def _is_refusable(self, request: PolicyRequest) -> bool:
        return False
