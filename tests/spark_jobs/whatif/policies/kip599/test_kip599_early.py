"""KIP-599, early revision: the partition mutation quota. Its examples, one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged, ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_early import Kip599Early, PartitionMutationBucket
from spark_jobs.whatif.policies.request import TopicPart
from tests.spark_jobs.whatif.policies.mutation_requests import (
    T,
    admitted,
    create,
    measured,
    quota_changed,
    request,
)

RATE, BURST = "quota.partition.mutations.rate", "quota.partition.mutations.burst"
LONG_MAX = 2**63 - 1
STRICT = [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)]


def policy(rate: int = 5, burst: int = 100, **config: object) -> Kip599Early:
    return Kip599Early.configured({RATE: rate, BURST: burst, **config})


def empty() -> Kip599Early:
    """Return a policy whose bucket has been at exactly zero since T."""
    found = policy()
    found.decide(create(100))
    return found


def test_a_bucket_at_zero_refuses() -> None:
    decision = empty().decide(create(1))
    assert (measured(decision), admitted(decision)) == ([0], [False])


def test_a_bucket_above_zero_admits_and_may_go_below() -> None:
    decision = policy().decide(create(99, 50, 1))
    assert (measured(decision), admitted(decision)) == ([100, 1, -49], [True, True, False])


def test_the_error_is_quota_violated_and_carries_the_throttle_time() -> None:
    decision = empty().decide(create(1))
    assert decision.refusal is not None
    assert (decision.refusal.error, decision.refusal.is_retriable) == ("QUOTA_VIOLATED", True)
    assert (decision.delay_ms, decision.is_told, decision.held) == (1, True, Held.NOTHING)
    assert "try again in 1 ms" in decision.refusal.reason


def test_the_throttle_time_is_the_first_millisecond_at_which_a_try_is_admitted() -> None:
    found = policy()
    found.decide(create(160))
    throttle_time_ms = found.decide(create(1)).delay_ms
    assert throttle_time_ms == 12_001
    assert admitted(found.decide(create(1, at_s=12.0))) == [False]
    assert admitted(found.decide(create(1, at_s=12.001))) == [True]


@pytest.mark.parametrize(("api_name", "version"), STRICT)
def test_the_new_versions_are_refused_with_a_message(api_name: str, version: int) -> None:
    decision = empty().decide(create(1, api_name=api_name, api_version=version))
    assert decision.topics[0].refusal is not None
    assert decision.topics[0].refusal.reason


@pytest.mark.parametrize(("api_name", "version"), STRICT)
def test_older_versions_never_see_the_error_and_are_held(api_name: str, version: int) -> None:
    found = empty()
    decision = found.decide(create(50, api_name=api_name, api_version=version - 1))
    assert decision.refusal is None
    assert admitted(decision) == [True]
    assert (decision.held, decision.delay_ms) == (Held.NEXT_REQUEST, 10_001)
    assert decision.measured == -50


def test_old_versions_with_tokens_left_are_not_held() -> None:
    decision = policy().decide(create(99, api_version=5))
    assert (decision.delay_ms, decision.held) == (0, Held.NOTHING)


def test_everyone_shares_one_bucket_whatever_the_client_quotas_say() -> None:
    found = empty()
    found.observe(quota_changed(1e6, user="bob"))
    assert admitted(found.decide(create(1, user="bob", broker_id=2))) == [False]
    assert found.state_key(create(1)) == found.state_key(create(1, user="bob", broker_id=2))


def test_the_bucket_is_full_again_after_a_failover() -> None:
    found = empty()
    found.observe(BrokerStarted(T, broker_id=1))
    assert admitted(found.decide(create(1))) == [False]
    found.observe(ControllerFailedOver(T))
    assert measured(found.decide(create(1))) == [100]


def test_tokens_do_not_accumulate_beyond_the_burst() -> None:
    assert measured(empty().decide(create(1, at_s=10_000))) == [100]


def test_without_a_rate_there_is_no_bucket_and_everything_is_admitted() -> None:
    for config in ({}, {BURST: 1}, {RATE: LONG_MAX, BURST: 1}):
        found = Kip599Early.configured(config)
        for _ in range(2):
            decision = found.decide(create(10**9))
            assert (admitted(decision), decision.findings) == ([True], ())


def test_a_rate_without_a_burst_never_throttles_in_practice_and_says_so() -> None:
    found = Kip599Early.configured({RATE: 5})
    for _ in range(3):
        decision = found.decide(create(10**9))
        assert (admitted(decision), decision.findings) == ([True], ("burst_never_throttles",))


def test_tokens_at_2_to_the_63_register_what_floats_do_not() -> None:
    bucket = PartitionMutationBucket(rate=5, burst=LONG_MAX)
    as_float = float(LONG_MAX)
    for _ in range(7):
        bucket.spend(80, T)
        as_float -= 80
    assert bucket.tokens(T) == LONG_MAX - 560
    assert as_float == float(LONG_MAX)


def test_a_topic_that_fails_for_another_reason_spends_nothing() -> None:
    exists = TopicPart("exists", 1_000.0, other_error_code=36)
    decision = policy().decide(request(exists, TopicPart("new", 1.0)))
    assert (measured(decision)[1], decision.measured) == (100, 99)


def test_an_old_version_of_which_everything_failed_is_not_held() -> None:
    exists = TopicPart("exists", 1_000.0, other_error_code=36)
    assert empty().decide(request(exists, api_version=5)).delay_ms == 0


def test_a_validate_only_request_spends() -> None:
    found = policy()
    found.decide(create(100, validate_only=True))
    assert admitted(found.decide(create(1))) == [False]


def test_a_refused_topic_spends_nothing() -> None:
    found = empty()
    found.decide(create(50))
    assert measured(found.decide(create(1, at_s=1))) == [5]


def test_unknown_partitions_are_reported_until_a_failover() -> None:
    found = policy()
    assert found.decide(create(math.nan)).findings == ("partitions_unknown",)
    assert found.decide(create(1)).findings == ("state_unknown",)
    found.observe(ControllerFailedOver(T))
    assert found.decide(create(1)).findings == ()


def test_a_refusal_is_certain_whatever_was_unknown_before() -> None:
    found = empty()
    found.decide(create(math.nan, api_version=5))
    assert found.decide(create(1)).findings == ()


def test_the_admin_client_does_not_retry_where_it_is_told_not_to() -> None:
    found = policy(**{"retry.quota.violation.exception": "false"})
    found.decide(create(100))
    refusal = found.decide(create(1)).refusal
    assert refusal is not None
    assert not refusal.is_retriable


def test_the_configs_can_be_changed_and_the_tokens_go_along() -> None:
    found = empty()
    found.observe(ConfigChanged(T + 2_000, {RATE: 50, BURST: 15}))
    assert measured(found.decide(create(0, at_s=2))) == [10]
    assert measured(found.decide(create(0, at_s=3))) == [15]
    found.observe(ConfigChanged(T + 3_000, {RATE: None}))
    assert admitted(found.decide(create(10**9, at_s=3))) == [True]


def test_a_refused_change_leaves_everything_as_it_was() -> None:
    found = empty()
    with pytest.raises(PolicyConfigError):
        found.observe(ConfigChanged(T, {RATE: 0, BURST: 10**6}))
    assert measured(found.decide(create(1, at_s=1))) == [5]


def test_topics_that_brokers_create_by_themselves_bypass_it_and_that_is_said() -> None:
    assert not Kip599Early.apis & {"METADATA", "FIND_COORDINATOR"}
    assert any("ZooKeeper" in limit for limit in Kip599Early.known_limits)
    assert any("METADATA" in limit for limit in Kip599Early.known_limits)


@pytest.mark.parametrize(
    ("config", "key", "rule"),
    [
        ({RATE: 0}, RATE, f"whole number from 1 to {LONG_MAX}"),
        ({RATE: -1}, RATE, "whole number"),
        ({RATE: LONG_MAX + 1}, RATE, "whole number"),
        ({RATE: 5.0}, RATE, "whole number"),
        ({RATE: "5/s"}, RATE, "whole number"),
        ({RATE: "+-5"}, RATE, "whole number"),
        ({BURST: ""}, BURST, "whole number"),
        (
            {"retry.quota.violation.exception": 1},
            "retry.quota.violation.exception",
            "true or false",
        ),
        ({"quota.partition.mutation.rate": 5}, "quota.partition.mutation.rate", "no such key"),
        ({"controller_mutation_rate": 5}, "controller_mutation_rate", "no such key"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_rule(
    config: dict[str, object], key: str, rule: str
) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        Kip599Early.configured(config)
    assert refused.value.key == key
    assert rule in refused.value.rule


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 300)), max_size=20))
def test_the_told_throttle_is_never_too_short_nor_a_millisecond_too_long(
    steps: list[tuple[int, int]],
) -> None:
    bucket, at_ms = PartitionMutationBucket(rate=7, burst=100), T
    for step_ms, partitions in steps:
        at_ms += step_ms
        wait_ms = bucket.until_positive_ms(at_ms)
        assert (wait_ms == 0) == (bucket.thousandths(at_ms) > 0)
        if wait_ms:
            assert bucket.thousandths(at_ms) + 7 * (wait_ms - 1) <= 0
            at_ms += wait_ms
            assert bucket.thousandths(at_ms) > 0
        bucket.spend(partitions, at_ms)
