"""The policies by name. A new one is its class, in the folder of its proposal, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from spark_jobs.errors import BadInputError
from spark_jobs.whatif.policies.policy import Policy

POLICIES: Mapping[str, str] = {
    "broker_side_v1": "broker_side.broker_side_v1:BrokerSideV1",
    "kip13": "kip13.kip13:Kip13",
    "kip13_client_topic": "kip13.kip13_topic:Kip13ClientTopic",
    "kip13_topic": "kip13.kip13_topic:Kip13Topic",
    "kip13_topic_partition": "kip13.kip13_topic:Kip13TopicPartition",
    "kip13_cluster_wide": "kip13.kip13_cluster_wide:Kip13ClusterWide",
    "kip13_immediate_error": "kip13.kip13_refusing:Kip13ImmediateError",
    "kip13_delay_then_error": "kip13.kip13_refusing:Kip13DelayThenError",
    "kip599_early": "kip599.kip599_early:Kip599Early",
    "kip599_rate": "kip599.kip599_rate:Kip599Rate",
    "kip599_rate_burst_spread": "kip599.kip599_rate:Kip599RateBurstSpread",
    "kip599_token_bucket": "kip599.kip599_token_bucket:Kip599TokenBucket",
    "kip599_execution_throttle": "kip599.kip599_early:Kip599ExecutionThrottle",
    "kip599_no_error": "kip599.kip599_early:Kip599NoError",
    "kip599_usage_based": "kip599.kip599_usage_based:Kip599UsageBased",
    "broker_bandwidth": "today.broker_client_quotas:BrokerBandwidth",
    "broker_request_percentage": "today.broker_client_quotas:BrokerRequestPercentage",
    "broker_client_quotas": "today.broker_client_quotas:BrokerClientQuotas",
    "broker_controller_mutation": "today.broker_controller_mutation:BrokerControllerMutation",
}


def policy_class(name: str) -> type[Policy]:
    """Return the policy of that name; BadInputError lists the names there are."""
    if name not in POLICIES:
        raise BadInputError(f"no policy is called {name!r}; there are: {', '.join(POLICIES)}.")
    module, _, class_name = POLICIES[name].partition(":")
    found: type[Policy] = getattr(import_module(f"spark_jobs.whatif.policies.{module}"), class_name)
    return found
