"""Today's mutation quota as a policy."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.policies.change import BrokerStarted, ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.request import TopicPart
from spark_jobs.whatif.policies.today.broker_controller_mutation import BrokerControllerMutation
from tests.spark_jobs.whatif.policies.mutation_requests import (
    BURST_OF_560,
    EXAMPLE,
    T,
    admitted,
    create,
    measured,
    quota_changed,
    request,
)


def in_debt() -> BrokerControllerMutation:
    """Return the document's example after its burst: 60 partitions of debt at T."""
    policy = BrokerControllerMutation.configured(EXAMPLE)
    decision = policy.decide(create(*BURST_OF_560))
    assert (measured(decision)[0], decision.measured) == (500, -60)
    return policy


def test_it_gives_the_documents_example_its_12_seconds() -> None:
    decision = in_debt().decide(create(1))
    assert (decision.delay_ms, decision.held, decision.is_told) == (
        12_000,
        Held.NEXT_REQUEST,
        True,
    )
    assert decision.refusal is not None
    assert decision.refusal.error == "THROTTLING_QUOTA_EXCEEDED"
    assert admitted(in_debt().decide(create(1, at_s=12))) == [True]


def test_old_versions_spend_and_are_muted() -> None:
    policy = in_debt()
    decision = policy.decide(create(40, api_version=5))
    assert (admitted(decision), decision.delay_ms, decision.measured) == ([True], 20_000, -100)
    assert admitted(policy.decide(create(1, at_s=12))) == [False]


def test_each_controller_has_its_own_buckets_and_begins_with_full_ones() -> None:
    policy = in_debt()
    assert measured(policy.decide(create(1, broker_id=2))) == [500]
    policy.observe(BrokerStarted(T, broker_id=2))
    assert measured(policy.decide(create(1))) == [-60]
    policy.observe(BrokerStarted(T, broker_id=1))
    assert measured(policy.decide(create(1))) == [500]
    policy.observe(ControllerFailedOver(T))
    assert measured(policy.decide(create(1))) == [500]
    assert policy.state_key(create(1)) != policy.state_key(create(1, broker_id=2))


def test_a_bucket_that_was_idle_for_an_hour_is_forgotten() -> None:
    policy = BrokerControllerMutation.configured(EXAMPLE)
    policy.decide(create(500 + 5 * 7_200))
    assert measured(policy.decide(create(1, at_s=3_630))) == [-36_000 + 5 * 3_630]
    assert measured(policy.decide(create(1, at_s=3_630 + 3_631))) == [500]


def test_failed_topics_spend_nothing_and_validated_ones_do() -> None:
    policy = BrokerControllerMutation.configured(EXAMPLE)
    failed = request(TopicPart("exists", 900.0, other_error_code=36))
    assert policy.decide(failed).measured == 500
    policy.decide(create(600, validate_only=True))
    assert admitted(policy.decide(create(1))) == [False]


def test_unknown_partitions_are_reported() -> None:
    policy = BrokerControllerMutation.configured(EXAMPLE)
    decision = policy.decide(create(math.nan, 1))
    assert decision.findings == ("partitions_unknown", "state_unknown")
    assert math.isnan(decision.measured)


def test_a_throttle_that_wraps_is_none_and_the_refusal_stands() -> None:
    policy = BrokerControllerMutation.configured(EXAMPLE)
    policy.observe(quota_changed(0.0))
    policy.decide(create(1))
    decision = policy.decide(create(1, at_s=100))
    assert (admitted(decision), decision.delay_ms, decision.held) == ([False], 0, Held.NOTHING)


def test_a_quota_of_bytes_is_none_of_its_keys() -> None:
    with pytest.raises(PolicyConfigError, match="no such key"):
        BrokerControllerMutation.configured({"producer_byte_rate": 5})
