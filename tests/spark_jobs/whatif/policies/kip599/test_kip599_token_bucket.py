"""KIP-599, late revision: the token bucket. Its examples, one by one."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged, ControllerFailedOver
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip599.kip599_token_bucket import Kip599TokenBucket
from spark_jobs.whatif.policies.request import TopicPart
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

STRICT = [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)]


def example() -> Kip599TokenBucket:
    return Kip599TokenBucket.configured(EXAMPLE)


def in_debt() -> Kip599TokenBucket:
    """Return the example after its burst: K = -60 at T."""
    policy = example()
    policy.decide(create(*BURST_OF_560))
    return policy


def test_560_mutations_on_a_full_bucket_are_all_admitted_and_leave_a_debt_of_60() -> None:
    decision = example().decide(create(*BURST_OF_560))
    assert measured(decision) == [500, 420, 340, 260, 180, 100, 20]
    assert admitted(decision) == [True] * 7
    assert (decision.measured, decision.bound, decision.delay_ms) == (-60, 5, 0)


def test_a_debt_of_60_at_5_per_second_is_a_throttle_of_12_seconds() -> None:
    decision = in_debt().decide(create(1))
    assert decision.refusal is not None
    assert (decision.refusal.error, decision.refusal.is_retriable) == (
        "THROTTLING_QUOTA_EXCEEDED",
        True,
    )
    assert (decision.delay_ms, decision.held, decision.is_told) == (
        12_000,
        Held.NEXT_REQUEST,
        True,
    )


def test_one_update_12_seconds_later_the_bucket_is_at_zero_and_admits() -> None:
    decision = in_debt().decide(create(1, at_s=12))
    assert (measured(decision), admitted(decision)) == ([0], [True])


def test_a_millisecond_before_it_still_refuses() -> None:
    decision = in_debt().decide(create(1, at_s=11.999))
    assert (admitted(decision), decision.delay_ms) == ([False], 1)


def test_a_refused_topic_spends_nothing() -> None:
    policy = in_debt()
    policy.decide(create(300, at_s=6))
    assert measured(policy.decide(create(1, at_s=12))) == [0]


def test_topics_are_decided_in_the_order_of_the_request() -> None:
    assert admitted(example().decide(create(501, 1))) == [True, False]
    assert admitted(example().decide(create(1, 501))) == [True, True]


def test_a_request_of_which_only_a_part_is_refused_is_not_refused_itself() -> None:
    decision = example().decide(create(501, 1))
    assert decision.refusal is None
    assert decision.delay_ms == 200


def test_a_topic_that_fails_for_another_reason_spends_nothing() -> None:
    policy = example()
    exists = TopicPart("exists", 400.0, other_error_code=36)
    decision = policy.decide(request(exists, TopicPart("new", 10.0)))
    assert (measured(decision)[1], decision.measured) == (500, 490)
    assert decision.topics[0].amount == 0


def test_a_request_is_refused_where_all_that_did_not_fail_otherwise_is() -> None:
    exists = TopicPart("exists", 400.0, other_error_code=36)
    assert in_debt().decide(request(exists, TopicPart("new", 10.0))).refusal is not None
    assert in_debt().decide(request(exists)).refusal is None


def test_a_validate_only_request_spends() -> None:
    policy = example()
    policy.decide(create(*BURST_OF_560, validate_only=True))
    assert admitted(policy.decide(create(1))) == [False]


def test_unknown_partitions_are_reported_and_what_follows_is_not_certain() -> None:
    policy = example()
    first = policy.decide(create(math.nan))
    assert (admitted(first), first.findings) == ([True], ("partitions_unknown",))
    assert policy.decide(create(1)).findings == ("state_unknown",)
    assert math.isnan(policy.metrics(T)[0].tokens)


@pytest.mark.parametrize(("api_name", "version"), STRICT)
def test_versions_that_know_the_error_get_it(api_name: str, version: int) -> None:
    decision = in_debt().decide(create(1, api_name=api_name, api_version=version))
    assert decision.refusal is not None


@pytest.mark.parametrize(("api_name", "version"), STRICT)
def test_older_versions_are_held_not_refused_and_spend(api_name: str, version: int) -> None:
    policy = in_debt()
    decision = policy.decide(create(40, api_name=api_name, api_version=version - 1))
    assert decision.refusal is None
    assert admitted(decision) == [True]
    assert (decision.measured, decision.delay_ms) == (-100, 20_000)
    assert decision.held is Held.NEXT_REQUEST


def test_a_version_without_throttle_time_is_not_told() -> None:
    assert not in_debt().decide(create(1, api_version=1)).is_told
    assert in_debt().decide(create(1, api_version=2)).is_told


def test_the_bucket_is_full_after_a_failover_and_not_after_another_brokers_start() -> None:
    policy = in_debt()
    policy.observe(BrokerStarted(T, broker_id=2))
    assert admitted(policy.decide(create(1))) == [False]
    policy.observe(ControllerFailedOver(T))
    assert measured(policy.decide(create(1))) == [500]


def test_the_burst_is_the_rate_times_the_samples_times_the_window() -> None:
    config = EXAMPLE | {"controller.quota.window.size.seconds": 2}
    assert measured(Kip599TokenBucket.configured(config).decide(create(1))) == [1000]
    by_default = {"quotas": EXAMPLE["quotas"]}
    assert measured(Kip599TokenBucket.configured(by_default).decide(create(1))) == [55]


def test_the_bucket_is_full_when_it_is_first_touched_whenever_that_is() -> None:
    assert measured(example().decide(create(1, at_ms=0))) == [500]


def test_tokens_do_not_accumulate_beyond_the_burst() -> None:
    policy = example()
    policy.decide(create(100))
    assert measured(policy.decide(create(1, at_s=10_000))) == [500]


def test_a_debt_is_not_forgotten_however_long_it_takes() -> None:
    policy = example()
    policy.decide(create(500 + 5 * 7_200))
    assert measured(policy.decide(create(1, at_s=7_000))) == [-1000]


def test_each_user_and_client_id_has_the_bucket_of_todays_precedence() -> None:
    policy = example()
    policy.observe(quota_changed(1.0, client_id="admin"))
    policy.decide(create(*BURST_OF_560, client_id="other"))
    assert measured(policy.decide(create(1))) == [100]
    assert admitted(policy.decide(create(1, client_id="other"))) == [False]
    assert admitted(policy.decide(create(1, user="bob"))) == [True]
    policy.observe(quota_changed(2.0, user="<default>"))
    assert measured(policy.decide(create(1, user="bob"))) == [200]


def test_quotas_of_other_types_change_nothing() -> None:
    policy = example()
    policy.observe(quota_changed(1.0, quota_type="producer_byte_rate"))
    assert measured(policy.decide(create(1))) == [500]


def test_a_removed_quota_admits_everything() -> None:
    policy = in_debt()
    policy.observe(quota_changed(None))
    decision = policy.decide(create(1_000_000, at_s=0.001))
    assert (admitted(decision), decision.delay_ms) == ([True], 0)


def test_without_any_quota_nothing_is_counted() -> None:
    policy = Kip599TokenBucket.configured({})
    policy.decide(create(1_000_000))
    policy.observe(quota_changed(5.0))
    assert measured(policy.decide(create(1))) == [55]


def test_the_throttle_time_is_capped_where_int32_ends() -> None:
    policy = example()
    policy.decide(create(1e9))
    assert policy.decide(create(1)).delay_ms == 2**31 - 1


def test_a_quota_of_zero_refuses_once_there_is_debt() -> None:
    policy = Kip599TokenBucket.configured(
        {"quotas": [{"user": "alice", "controller_mutation_rate": 0}]}
    )
    assert admitted(policy.decide(create(1))) == [True]
    assert policy.decide(create(1, at_s=86_400)).delay_ms == 2**31 - 1


def test_the_metrics_are_the_rate_the_tokens_and_the_average_throttle_time() -> None:
    policy = in_debt()
    policy.decide(create(1))
    found = policy.metrics(T + 1_000)
    assert [(m.user, m.client_id, m.rate, m.tokens) for m in found] == [("alice", "", 5.6, -55)]
    assert found[0].throttle_time_ms == 6_000


def test_looking_at_the_metrics_decides_nothing() -> None:
    looked, alone = in_debt(), in_debt()
    for at_s in range(1, 30):
        looked.metrics(T + at_s * 1000)
        assert looked.decide(create(3, at_s=at_s)) == alone.decide(create(3, at_s=at_s))


@pytest.mark.parametrize(
    ("config", "key", "rule"),
    [
        ({"quota.window.num": 1}, "quota.window.num", "no such key"),
        ({"controller.quota.window.num": 0}, "controller.quota.window.num", "whole number from 1"),
        ({"controller.quota.window.num": 1.5}, "controller.quota.window.num", "whole number"),
        ({"controller.quota.window.num": True}, "controller.quota.window.num", "whole number"),
        ({"controller.quota.window.num": "1_1"}, "controller.quota.window.num", "whole number"),
        ({"uses.zookeeper": "maybe"}, "uses.zookeeper", "true or false"),
        ({"broker.version": "7.4.0-ccs"}, "broker.version", "not an Apache Kafka version"),
        ({"quotas": {}}, "quotas", "a list of quotas"),
        ({"quotas": ["alice"]}, "quotas[0]", "a table"),
        ({"quotas": [{"user": "a"}]}, "quotas[0]", "has a value: controller_mutation_rate"),
        ({"quotas": [{"controller_mutation_rate": 1}]}, "quotas[0]", "to a user, to a client-id"),
        ({"quotas": [{"usr": "a"}]}, "quotas[0].usr", "no such key"),
        (
            {"quotas": [{"user": "", "controller_mutation_rate": 1}]},
            "quotas[0].user",
            "not empty",
        ),
        (
            {"quotas": [{"user": "a", "controller_mutation_rate": "5"}]},
            "quotas[0].controller_mutation_rate",
            "finite number of at least 0",
        ),
        (
            {"quotas": [{"user": "a", "controller_mutation_rate": -1}]},
            "quotas[0]",
            "finite number of at least 0",
        ),
        (
            {"quotas": [{"user": "a", "broker-id": "1", "controller_mutation_rate": 1}]},
            "quotas[0].broker-id",
            "whole number",
        ),
        ({"quotas": [{"user": "a", "controller_mutation_rate": 1}] * 2}, "quotas", "one quota"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_rule(
    config: dict[str, object], key: str, rule: str
) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        Kip599TokenBucket.configured(config)
    assert refused.value.key == key
    assert rule in refused.value.rule


def test_values_may_be_written_as_in_a_properties_file() -> None:
    config = EXAMPLE | {"controller.quota.window.num": " 100 ", "uses.zookeeper": "False"}
    assert measured(Kip599TokenBucket.configured(config).decide(create(1))) == [500]


def test_windows_cannot_change_while_a_broker_runs() -> None:
    with pytest.raises(PolicyConfigError, match="when a broker starts"):
        example().observe(ConfigChanged(T, {"controller.quota.window.num": 5}))


def test_a_quota_of_nobody_and_one_that_is_no_number_are_refused() -> None:
    with pytest.raises(PolicyConfigError, match="belongs to a user"):
        example().observe(quota_changed(1.0, user=None))
    with pytest.raises(PolicyConfigError, match="finite"):
        example().observe(quota_changed(math.nan))


def test_one_clients_requests_share_a_state_and_anothers_do_not() -> None:
    policy = example()
    assert policy.state_key(create(1, broker_id=2)) == policy.state_key(create(1))
    assert policy.state_key(create(1, user="bob")) != policy.state_key(create(1))
