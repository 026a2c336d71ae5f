"""Today's byte rates as a policy: what happens around the arithmetic that the audit has."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.today.broker_client_quotas import BrokerBandwidth
from tests.spark_jobs.whatif.policies.broker_requests import T, fetch, produce, quota, request

ALICE = {"user": "alice", "producer_byte_rate": 1000, "consumer_byte_rate": 500}


def policy(**config: object) -> BrokerBandwidth:
    return BrokerBandwidth.configured({"quotas": [ALICE], **config})


def test_a_produce_over_its_bound_is_appended_answered_and_the_connection_muted() -> None:
    found = policy()
    decision = found.decide(produce(15_000))
    assert (decision.delay_ms, decision.held, decision.is_told) == (5_000, Held.NEXT_REQUEST, True)
    assert (decision.measured, decision.bound, decision.refusal) == (1_500, 1_000, None)
    assert not decision.is_taken_back
    assert found.decide(produce(0)).delay_ms == 5_000


def test_a_fetch_over_its_bound_is_taken_back() -> None:
    found = policy()
    decision = found.decide(fetch(7_500))
    assert (decision.delay_ms, decision.is_taken_back) == (5_000, True)
    assert found.decide(fetch(0)).measured == 0
    assert found.decide(fetch(5_000)).delay_ms == 0


def test_what_a_broker_reads_at_most_fits_into_its_window() -> None:
    found = policy()
    assert found.largest_fetch(fetch(1)) == 5_000
    assert found.decide(fetch(5_000)).delay_ms == 0
    assert BrokerBandwidth.configured({}).largest_fetch(fetch(1)) == math.inf


def test_producing_and_fetching_are_two_quotas() -> None:
    found = policy()
    found.decide(produce(15_000))
    assert found.decide(fetch(0)).measured == 0
    assert found.state_key(produce(1)) != found.state_key(fetch(1))
    assert found.state_key(request("SHARE_FETCH")) == found.state_key(fetch(1))


def test_a_share_fetch_is_a_fetch() -> None:
    assert policy().decide(request("SHARE_FETCH", 7_500)).is_taken_back


def test_followers_are_exempt() -> None:
    found = policy()
    assert found.decide(fetch(10**9, is_replica=True)) is ADMITTED
    assert found.decide(fetch(0)).measured == 0


def test_without_acks_it_is_recorded_and_nobody_is_told() -> None:
    decision = policy().decide(produce(15_000, acks=0))
    assert (decision.delay_ms, decision.held, decision.is_told) == (
        5_000,
        Held.NEXT_REQUEST,
        False,
    )


def test_versions_without_a_throttle_time_are_delayed_and_not_told() -> None:
    assert not policy().decide(produce(15_000, api_version=0)).is_told
    assert not policy().decide(fetch(15_000, api_version=0)).is_told
    assert policy().decide(fetch(15_000, api_version=1)).is_told


def test_nothing_is_recorded_on_a_broker_without_a_quota_of_the_type() -> None:
    found = BrokerBandwidth.configured({})
    found.observe(quota("consumer_byte_rate", 500.0))
    assert found.decide(produce(10**9)) is ADMITTED
    found.observe(quota("producer_byte_rate", 1e6, broker_id=2))
    assert found.decide(produce(10**9)) is ADMITTED
    found.observe(quota("producer_byte_rate", 1000.0))
    assert found.decide(produce(0)).measured == 0


def test_whom_no_quota_matches_is_recorded_and_never_throttled() -> None:
    found = policy()
    decision = found.decide(produce(10**6, user="bob"))
    assert (decision.delay_ms, decision.measured) == (0, 10**5)
    assert math.isnan(decision.bound)
    found.observe(quota("producer_byte_rate", 1000.0, user="bob"))
    assert found.decide(produce(0, user="bob")).delay_ms > 0


def test_each_type_follows_its_own_precedence() -> None:
    found = policy()
    found.observe(quota("consumer_byte_rate", 9e9, client_id="svc"))
    assert found.decide(fetch(10**6)).delay_ms == 0
    assert found.decide(produce(15_000)).delay_ms == 5_000


def test_clients_of_a_user_share_its_sensor_and_brokers_do_not() -> None:
    found = policy()
    found.decide(produce(15_000, client_id="other"))
    assert found.decide(produce(0)).delay_ms == 5_000
    assert found.decide(produce(0, broker_id=2)).delay_ms == 0
    assert found.state_key(produce(1, broker_id=2)) != found.state_key(produce(1))


def test_a_client_moves_to_another_sensor_when_a_level_is_set_first() -> None:
    found = BrokerBandwidth.configured({})
    found.observe(quota("producer_byte_rate", 1000.0, user=None, client_id="svc"))
    before = found.state_key(produce(1))
    found.decide(produce(15_000))
    found.observe(quota("producer_byte_rate", 1000.0))
    assert found.state_key(produce(1)) != before
    assert found.decide(produce(0)).measured == 0


def test_a_removed_quota_keeps_its_level_until_the_broker_starts_again() -> None:
    found = policy()
    found.observe(quota("producer_byte_rate", None))
    assert found.decide(produce(1_000)).measured == 100
    found.observe(BrokerStarted(T, broker_id=1))
    assert found.decide(produce(1_000)) is ADMITTED


def test_brokers_of_4_2_forget_the_level_at_once() -> None:
    found = policy(**{"broker.version": "4.2.0"})
    found.observe(quota("producer_byte_rate", None))
    assert found.decide(produce(1_000)) is ADMITTED


def test_with_zookeeper_a_quota_of_any_type_enables_its_level_for_all() -> None:
    old = {"broker.version": "2.8.1", "uses.zookeeper": True}
    found = BrokerBandwidth.configured(old)
    found.observe(quota("request_percentage", 50.0))
    assert found.decide(produce(1_000)).measured == 100


def test_a_started_broker_has_forgotten_what_it_counted_and_others_have_not() -> None:
    found = policy()
    for broker_id in (1, 2):
        found.decide(produce(15_000, broker_id=broker_id))
    found.observe(BrokerStarted(T, broker_id=1))
    assert found.decide(produce(0)).delay_ms == 0
    assert found.decide(produce(0, broker_id=2)).delay_ms == 5_000


@pytest.mark.parametrize(
    ("config", "profile"),
    [
        ({}, "rate_3_8"),
        ({"rate.profile": "rate_0_9"}, "rate_0_9"),
        ({"broker.version": "3.7.2"}, "rate_3_3"),
        ({"broker.version": "3.7.2", "rate.profile": "rate_3_8"}, "rate_3_8"),
    ],
)
def test_the_profile_is_the_configured_one_or_the_versions(
    config: dict[str, object], profile: str
) -> None:
    assert policy(**config).profile == profile


def test_the_profiles_differ_where_a_sample_began_a_window_ago_and_its_last_event_did_not() -> None:
    def measured(profile: str) -> float:
        found = policy(**{"rate.profile": profile})
        found.decide(produce(5_000))
        found.decide(produce(6_000, at_ms=T + 900))
        return found.decide(produce(0, at_ms=T + 11_500)).measured

    assert measured("rate_3_3") == 0
    assert measured("rate_3_8") == pytest.approx(11_000 / 11.5)


def test_a_window_of_no_time_at_all_is_not_throttled() -> None:
    found = policy(**{"rate.profile": "rate_0_9", "quota.window.num": 1})
    decision = found.decide(produce(15_000))
    assert (decision.measured, decision.delay_ms) == (math.inf, 0)


def test_samples_and_window_are_the_configured_ones() -> None:
    found = policy(**{"quota.window.num": "6", "quota.window.size.seconds": 2})
    assert found.decide(produce(15_000)).measured == 1_500
    assert found.decide(produce(0, at_ms=T + 11_999)).measured > 0
    assert found.decide(produce(0, at_ms=T + 12_000)).measured == 0


def test_a_size_that_is_not_known_opens_a_sample_of_nothing() -> None:
    assert policy().decide(produce(math.nan)).measured == 0
    assert policy().decide(fetch(math.nan)).measured == 0


def test_more_than_24_days_wrap_to_no_throttle_at_all_before_4_4() -> None:
    request = produce(1_000.0 * 2**31 / 1000 + 10_000)
    decision = policy(**{"broker.version": "4.3.1"}).decide(request)
    assert (decision.delay_ms, decision.held) == (0, Held.NOTHING)
    for newer in ({}, {"broker.version": "4.4.0"}):
        assert policy(**newer).decide(request).delay_ms == 2**31 - 1


@pytest.mark.parametrize(
    ("config", "key", "rule"),
    [
        ({"rate.profile": "rate_4_0"}, "rate.profile", "rate_0_9, rate_3_3, rate_3_8"),
        ({"quota.window.num": 0}, "quota.window.num", "whole number from 1"),
        ({"quota.window.size.seconds": "1s"}, "quota.window.size.seconds", "whole number"),
        ({"controller.quota.window.num": 1}, "controller.quota.window.num", "no such key"),
        ({"broker.version": "new"}, "broker.version", "not an Apache Kafka version"),
        ({"broker.version": ""}, "broker.version", "not empty"),
        ({"quotas": [{"user": "a"}]}, "quotas[0]", "producer_byte_rate or consumer_byte_rate"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_rule(
    config: dict[str, object], key: str, rule: str
) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        BrokerBandwidth.configured(config)
    assert refused.value.key == key
    assert rule in refused.value.rule


def test_windows_cannot_change_while_a_broker_runs() -> None:
    with pytest.raises(PolicyConfigError, match="when a broker starts"):
        policy().observe(ConfigChanged(T, {"quota.window.num": 5}))
