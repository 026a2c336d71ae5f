from __future__ import annotations

import doctest
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import BrokerStarted, ControllerFailedOver, QuotaChanged
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Held
from spark_jobs.whatif.policies.kip13 import kip13
from spark_jobs.whatif.policies.kip13.kip13 import Kip13
from spark_jobs.whatif.policies.kip599 import kip599_token_bucket
from spark_jobs.whatif.policies.kip599.kip599_token_bucket import ThrottleTimes
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from tests.spark_jobs.whatif.policies.kip13_requests import (
    MB,
    T,
    decisions,
    fetch,
    produce,
    traffic,
)


def kip13_of(bound: int, **more: object) -> Kip13:
    return Kip13.configured(
        {"quota.producer.default": bound, "quota.consumer.default": bound, **more}
    )


def test_the_doctests_hold() -> None:
    for module in (kip13, kip599_token_bucket):
        found = doctest.testmod(module)
        assert found.attempted > 0
        assert found.failed == 0


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13") is Kip13


# The worked example of the document.


def test_must_five_mb_per_second_ten_samples_and_a_batch_of_15_mb_wait_two_seconds() -> None:
    policy = kip13_of(5 * MB)
    found = decisions(policy, [produce(T + 1_000 * second, 5 * MB) for second in range(9)])
    assert [decision.delay_ms for decision in found] == [0] * 9
    decision = policy.decide(produce(T + 9_000, 15 * MB))
    assert decision.delay_ms == 2_000
    assert decision.measured == 6 * MB
    assert decision.bound == 5 * MB


def test_a_violation_is_more_than_bound_times_n_and_not_exactly_that() -> None:
    policy = kip13_of(5)
    assert policy.decide(produce(T, 50)).delay_ms == 0
    assert policy.decide(produce(T, 1)).delay_ms == 200


def test_n_is_a_setting_as_in_the_early_revision() -> None:
    policy = kip13_of(5, **{"quota.window.num": 5})
    assert policy.decide(produce(T, 60)).delay_ms == 7_000


# Whose quota it is.


def test_clients_without_a_client_id_share_one_quota_and_it_is_the_default() -> None:
    policy = kip13_of(5)
    assert policy.decide(produce(T, 40, None)).delay_ms == 0
    assert policy.decide(produce(T, 20, "")).delay_ms == 2_000
    assert policy.decide(produce(T, 20, None, user="other")).delay_ms == 6_000
    assert policy.decide(produce(T, 20, "named")).delay_ms == 0


def test_an_override_holds_for_its_client_and_side_only() -> None:
    policy = kip13_of(5, **{"quota.producer.override": "big:50"})
    assert policy.decide(produce(T, 500, "big")).delay_ms == 0
    assert policy.decide(produce(T, 500, "small")).delay_ms == 90_000
    policy.decide(fetch(T, 500, "big"))
    assert policy.decide(fetch(T, 0, "big")).delay_ms == 90_000


def test_a_client_is_the_same_whoever_its_user_is() -> None:
    policy = kip13_of(5)
    policy.decide(produce(T, 40, user="alice"))
    assert policy.decide(produce(T, 20, user="bob")).delay_ms == 2_000


def test_each_broker_has_the_same_bound_and_counts_alone() -> None:
    policy = kip13_of(5)
    assert policy.decide(produce(T, 60, broker_id=1)).delay_ms == 2_000
    assert policy.decide(produce(T, 40, broker_id=2)).delay_ms == 0
    assert policy.decide(produce(T, 20, broker_id=2)).delay_ms == 2_000


def test_producing_and_consuming_are_counted_apart() -> None:
    policy = kip13_of(5)
    policy.decide(produce(T, 60))
    assert policy.decide(fetch(T, 60)).delay_ms == 0


# Who is exempt.


@pytest.mark.parametrize("make", [produce, fetch])
def test_replication_is_exempt_and_not_counted(make: object) -> None:
    policy = kip13_of(5)
    assert callable(make)
    assert policy.decide(make(T, 1_000, is_replica=True)) == ADMITTED
    assert policy.byte_rate(1, "FETCH", "app", T) == 0.0
    assert policy.byte_rate(1, "PRODUCE", "app", T) == 0.0


@pytest.mark.parametrize("principal", ["kafka", "User:kafka"])
def test_the_inter_broker_principal_is_exempt_and_not_counted(principal: str) -> None:
    policy = kip13_of(5, **{"inter.broker.principal": principal})
    assert policy.decide(produce(T, 1_000, user="kafka")) == ADMITTED
    assert policy.decide(produce(T, 60, user="alice")).delay_ms == 2_000


def test_without_the_setting_no_user_is_exempt() -> None:
    assert kip13_of(5).decide(produce(T, 60, user="")).delay_ms == 2_000


# What is held, and who is told.


def test_a_produce_is_recorded_and_its_response_is_held_and_it_is_never_refused() -> None:
    policy = kip13_of(5)
    decision = policy.decide(produce(T, 1_000))
    assert decision.held is Held.RESPONSE
    assert decision.refusal is None
    assert policy.byte_rate(1, "PRODUCE", "app", T) == 100.0


def test_a_fetch_is_delayed_before_its_read_by_what_was_read_before_it() -> None:
    policy = kip13_of(5)
    assert policy.decide(fetch(T, 60)).delay_ms == 0
    decision = policy.decide(fetch(T, 1_000))
    assert (decision.delay_ms, decision.held) == (2_000, Held.READ)
    assert decision.measured == 6.0


def test_a_produce_without_acks_holds_up_the_next_request_and_is_not_told() -> None:
    decision = kip13_of(5).decide(produce(T, 60, acks=0))
    assert (decision.delay_ms, decision.held) == (2_000, Held.NEXT_REQUEST)
    assert not decision.is_told


@pytest.mark.parametrize("make", [produce, fetch])
def test_version_0_is_delayed_and_not_told_and_version_1_is_told(make: object) -> None:
    policy = kip13_of(5)
    assert callable(make)
    policy.decide(make(T, 60))
    old, new = policy.decide(make(T, 0, api_version=0)), policy.decide(make(T, 0, api_version=1))
    assert old.delay_ms == new.delay_ms == 2_000
    assert (old.is_told, new.is_told) == (False, True)


def test_what_is_not_throttled_is_not_told() -> None:
    decision = kip13_of(5).decide(produce(T, 1))
    assert (decision.is_told, decision.is_flagged, decision.held) == (False, False, Held.NOTHING)


def test_the_early_revisions_flag_tells_that_and_not_for_how_long() -> None:
    policy = kip13_of(5, **{"quota.response.form": "flag"})
    found = decisions(policy, [produce(T, 60), produce(T, 0, api_version=0)])
    assert [decision.delay_ms for decision in found] == [2_000, 2_000]
    assert [decision.is_flagged for decision in found] == [True, False]
    assert not any(decision.is_told for decision in found)
    assert all(decision.refusal is None for decision in found)


# Numbers.


def test_a_throttle_time_is_rounded_not_truncated() -> None:
    policy = kip13_of(3)
    decision = policy.decide(produce(T, 32))
    assert 2 / 3 * 1_000 < 667
    assert decision.delay_ms == 667


def test_a_throttle_time_is_at_most_the_largest_int32() -> None:
    assert kip13_of(1).decide(produce(T, 10**12)).delay_ms == INT_MAX


def test_an_amount_that_the_log_lacks_is_what_its_topics_add_up_to_or_nothing() -> None:
    policy = kip13_of(5)
    topics = {"a": 40.0, "b": 20.0, "c": math.nan}
    assert policy.decide(produce(T, math.nan, topics=topics)).delay_ms == 2_000
    assert policy.decide(produce(T, math.nan)).delay_ms == 2_000


def test_what_was_refused_for_another_reason_was_not_written() -> None:
    policy = kip13_of(5)
    topics = [TopicPart("a", 50.0), TopicPart("big", 100.0, 10), TopicPart("c", math.nan, 10)]
    assert policy.decide(produce(T, 160, topics=topics)).delay_ms == 2_000
    assert policy.decide(produce(T, math.nan, topics=topics)).delay_ms == 12_000


# What it hears of.


def test_a_started_broker_has_counted_nothing_and_the_others_keep_their_counts() -> None:
    policy = kip13_of(5)
    decisions(policy, [produce(T, 60, broker_id=broker) for broker in (1, 2)])
    policy.observe(BrokerStarted(T + 1, 1))
    assert policy.decide(produce(T + 1, 50, broker_id=1)).delay_ms == 0
    assert policy.decide(produce(T + 1, 0, broker_id=2)).delay_ms == 2_000


def test_another_controller_and_todays_dynamic_quotas_are_nothing_to_it() -> None:
    policy = kip13_of(5)
    policy.decide(produce(T, 60))
    policy.observe(ControllerFailedOver(T))
    policy.observe(QuotaChanged(T, "producer_byte_rate", None, "app", 1e9))
    assert policy.decide(produce(T, 0)).delay_ms == 2_000


# The promise that no client pays for another.


@given(traffic(), st.lists(st.integers(0, 30_000), min_size=30, max_size=60))
def test_a_consumer_that_bootstraps_is_slowed_and_changes_no_other_clients_decisions(
    requests: list[PolicyRequest], reads_ms: list[int]
) -> None:
    bootstrap = [fetch(T + at_ms, 10 * MB, "bootstrap") for at_ms in reads_ms]
    together = sorted([*requests, *bootstrap], key=lambda request: request.at_ms)
    by_client: dict[bool, list[Decision]] = {True: [], False: []}
    for request, decision in zip(together, decisions(kip13_of(20), together), strict=True):
        by_client[request.client_id == "bootstrap"].append(decision)
    assert by_client[False] == decisions(kip13_of(20), requests)
    # 30 reads in 30 s: some two of them are within one window.
    assert any(decision.delay_ms > 0 for decision in by_client[True])


@given(traffic())
def test_requests_of_different_state_keys_can_be_replayed_side_by_side(
    requests: list[PolicyRequest],
) -> None:
    together = decisions(kip13_of(20), requests)
    apart: dict[str, Kip13] = defaultdict(lambda: kip13_of(20))
    key_of = kip13_of(20).state_key
    assert [apart[key_of(request)].decide(request) for request in requests] == together


# The metrics that the document announces.


def test_the_byte_rate_of_a_client_is_over_the_whole_window() -> None:
    policy = kip13_of(5)
    policy.decide(produce(T, 60))
    assert policy.byte_rate(1, "PRODUCE", "app", T) == 6.0
    assert policy.byte_rate(1, "PRODUCE", "app", T + 9_999) == 6.0
    assert policy.byte_rate(1, "PRODUCE", "app", T + 10_000) == 0.0
    assert policy.byte_rate(1, "PRODUCE", "stranger", T) == 0.0


def test_a_client_shows_the_largest_and_the_average_throttle_time_it_was_told() -> None:
    policy, times = kip13_of(5), ThrottleTimes(window_ms=5_000)
    for request in (produce(T, 50), produce(T, 5), produce(T, 5), produce(T, 5, api_version=0)):
        decision = policy.decide(request)
        times.record(decision.delay_ms if decision.is_told else 0, request.at_ms)
    assert times.max_ms(T) == 2_000
    assert times.average_ms(T) == (0 + 1_000 + 2_000 + 0) / 4
    assert times.max_ms(T + 5_000) == 0
    assert times.average_ms(T + 5_000) == 0.0


def test_a_client_that_is_not_throttled_shows_zero() -> None:
    times = ThrottleTimes()
    assert (times.max_ms(T), times.average_ms(T)) == (0, 0.0)
    times.record(0, T)
    assert (times.max_ms(T), times.average_ms(T)) == (0, 0.0)
