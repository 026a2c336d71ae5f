"""KIP-599, late revision, rejected: a quota on the time that mutations take."""

from __future__ import annotations

import pytest

from spark_jobs.whatif.policies.change import ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_usage_based import Kip599UsageBased
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.mutation_requests import T, create, quota_changed, request

# 20 ms per second over 11 samples of 1 s: at most 220 ms.
CONFIG = {"quotas": [{"user": "alice", "controller_usage_rate": 20}]}


def policy() -> Kip599UsageBased:
    return Kip599UsageBased.configured(CONFIG)


def test_a_request_is_charged_its_handler_time_after_it_was_executed() -> None:
    found = policy()
    assert found.decide(create(1, handler_time_us=300_000)).measured == 220
    assert found.decide(create(1, at_s=0.299)).measured == 220
    assert found.decide(create(1, at_s=0.3)).measured == -80


def test_what_is_decided_while_it_is_executed_sees_the_tokens_without_it() -> None:
    found = policy()
    for at_s in (0.0, 0.001, 0.002):
        assert found.decide(create(1, at_s=at_s, handler_time_us=300_000)).refusal is None
    assert found.decide(create(1, at_s=0.302)).refusal is not None


def test_the_throttle_is_the_debt_over_the_quota() -> None:
    found = policy()
    found.decide(create(1, handler_time_us=300_000))
    decision = found.decide(create(1, at_s=0.3))
    assert (decision.delay_ms, decision.held, decision.topics) == (4_000, Held.NEXT_REQUEST, ())
    assert decision.refusal is not None
    assert decision.refusal.error == "THROTTLING_QUOTA_EXCEEDED"
    assert found.decide(create(1, at_s=4.3)).refusal is None


def test_partitions_cost_nothing_and_failures_do() -> None:
    found = policy()
    found.decide(create(10**6))
    failed = request(TopicPart("exists", 1.0, other_error_code=36), handler_time_us=250_000)
    found.decide(failed)
    assert found.decide(create(1, at_s=0.25)).measured == -30


def test_a_refused_request_costs_nothing() -> None:
    found = policy()
    found.decide(create(1, handler_time_us=300_000))
    assert found.decide(create(1, at_s=0.3, handler_time_us=900_000)).refusal is not None
    assert found.decide(create(1, at_s=4.3)).measured == 0


def test_an_old_version_is_muted_by_what_its_own_charge_leaves() -> None:
    found = policy()
    decision = found.decide(create(1, api_version=5, handler_time_us=300_000))
    assert (decision.refusal, decision.delay_ms) == (None, 4_000)
    assert found.decide(create(1, at_s=0.3)).measured == -80


def test_the_bucket_is_full_again_after_a_failover() -> None:
    found = policy()
    found.decide(create(1, handler_time_us=900_000))
    found.observe(ControllerFailedOver(T + 1_000))
    assert found.decide(create(1, at_s=1)).measured == 220


def test_quotas_of_partitions_per_second_are_none_of_it() -> None:
    found = Kip599UsageBased.configured({})
    found.observe(quota_changed(5.0))
    assert found.decide(create(1, handler_time_us=10**9)).refusal is None
    assert found.decide(create(1, at_s=2_000)).refusal is None
    found.observe(quota_changed(5.0, quota_type="controller_usage_rate"))
    assert found.decide(create(1, at_s=2_000)).measured == 55


def test_a_quota_without_a_value_is_refused() -> None:
    with pytest.raises(PolicyConfigError, match="has a value: controller_usage_rate"):
        Kip599UsageBased.configured({"quotas": [{"user": "alice"}]})
