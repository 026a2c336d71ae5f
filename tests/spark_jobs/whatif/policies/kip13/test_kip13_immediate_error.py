from __future__ import annotations

import pytest
from hypothesis import given

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import BrokerStarted, ConfigChanged
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import QUOTA_VIOLATED
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13ImmediateError, RefusalCost
from spark_jobs.whatif.policies.request import PolicyRequest
from tests.spark_jobs.whatif.policies.kip13_requests import T, decisions, fetch, produce, traffic


def errors_of(bound: int, **more: object) -> Kip13ImmediateError:
    return Kip13ImmediateError.configured(
        {"quota.producer.default": bound, "quota.consumer.default": bound, **more}
    )


def cost(policy: Kip13ImmediateError, now_ms: int, key: str = "1/PRODUCE/app") -> RefusalCost:
    policy.settle(now_ms)
    return policy.costs()[key]


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_immediate_error") is Kip13ImmediateError


def test_a_violation_is_checked_before_recording_and_answered_at_once_with_an_error() -> None:
    policy = errors_of(5)
    first = policy.decide(produce(T, 60))
    assert (first.refusal, first.delay_ms) == (None, 0)
    decision = policy.decide(produce(T, 1))
    assert decision.refusal is not None
    assert decision.refusal.error == QUOTA_VIOLATED
    assert decision.refusal.reason == (
        "client 'app': 6.0 bytes per second are above the 5.0 allowed"
    )
    assert (decision.delay_ms, decision.held, decision.is_told) == (0, Held.NOTHING, False)
    assert (decision.measured, decision.bound) == (6.0, 5)


def test_the_error_is_retriable() -> None:
    policy = errors_of(5)
    policy.decide(fetch(T, 60))
    refusal = policy.decide(fetch(T, 1)).refusal
    assert refusal is not None
    assert refusal.is_retriable


def test_refused_amounts_are_never_recorded() -> None:
    policy = errors_of(5)
    policy.decide(produce(T, 60))
    for at_ms in range(T, T + 10_000, 100):
        assert policy.decide(produce(at_ms, 1e9)).refusal is not None
    decision = policy.decide(produce(T + 10_000, 1))
    assert (decision.refusal, decision.measured) == (None, 0.0)


def test_replication_is_exempt() -> None:
    policy = errors_of(5)
    policy.decide(fetch(T, 60))
    assert policy.decide(fetch(T, 60, is_replica=True)) == ADMITTED


def test_a_client_that_retries_in_a_loop_sends_its_bytes_again_and_again() -> None:
    policy = errors_of(5, **{"retries": 2**31 - 1, "retry.backoff.ms": 1})
    decisions(policy, [produce(T, 60), produce(T, 7)])
    found = cost(policy, T + 60_000)
    assert found.retried_requests == 10_000
    assert found.retried_bytes == 70_000
    assert found.refused_requests == 1 + 9_999
    assert (found.admitted_late_requests, found.lost_requests) == (1, 0)


def test_a_client_that_backs_off_costs_less() -> None:
    policy = errors_of(5, **{"retries": 1_000, "retry.backoff.ms": 1_000})
    decisions(policy, [produce(T, 60), produce(T, 7)])
    assert cost(policy, T + 60_000).retried_requests == 10


def test_a_produce_is_lost_after_its_last_retry() -> None:
    policy = errors_of(5, retries=3)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    assert cost(policy, T + 299).lost_bytes == 0
    found = cost(policy, T + 300)
    assert found == RefusalCost(
        refused_requests=4,
        retried_requests=3,
        retried_bytes=21,
        lost_requests=1,
        lost_bytes=7,
    )


def test_without_retries_a_refused_produce_is_lost_at_once() -> None:
    policy = errors_of(5)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    assert cost(policy, T) == RefusalCost(refused_requests=1, lost_requests=1, lost_bytes=7)


def test_a_produce_without_acks_hears_of_no_error_and_is_lost_at_once() -> None:
    policy = errors_of(5, retries=3)
    decisions(policy, [produce(T, 60), produce(T, 7, acks=0)])
    found = cost(policy, T + 60_000)
    assert found == RefusalCost(refused_requests=1, lost_requests=1, lost_bytes=7)


def test_a_fetch_loses_nothing_and_carries_no_bytes_again() -> None:
    policy = errors_of(5, retries=3)
    decisions(policy, [fetch(T, 60), fetch(T, 7)])
    found = cost(policy, T + 60_000, "1/FETCH/app")
    assert found == RefusalCost(refused_requests=4, retried_requests=3)


def test_a_retry_that_is_admitted_is_recorded_and_counts_against_later_requests() -> None:
    policy = errors_of(5, **{"retries": 1, "retry.backoff.ms": 10_000})
    decisions(policy, [produce(T, 60), produce(T, 70)])
    assert policy.decide(produce(T + 10_000, 1)).refusal is not None
    assert cost(policy, T + 10_000).admitted_late_requests == 1


def test_changes_come_after_the_retries_that_were_due_before_them() -> None:
    policy = errors_of(5, retries=3)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    policy.observe(ConfigChanged(T + 150, {"quota.producer.default": 100}))
    found = cost(policy, T + 200)
    assert (found.refused_requests, found.admitted_late_requests) == (2, 1)


def test_a_client_goes_on_retrying_when_its_broker_starts_anew() -> None:
    policy = errors_of(5, retries=3)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    policy.observe(BrokerStarted(T + 50, 1))
    found = cost(policy, T + 100)
    assert (found.retried_requests, found.admitted_late_requests) == (1, 1)
    assert policy.decide(produce(T + 100, 1)).measured == 0.7


@pytest.mark.parametrize(
    ("key", "found"), [("retry.backoff.ms", 0), ("retries", -1), ("retries", "many")]
)
def test_retries_need_a_pause_and_a_number(key: str, found: object) -> None:
    with pytest.raises(PolicyConfigError, match=key.replace(".", r"\.")):
        errors_of(5, **{key: found})


@given(traffic(("a", "b", None)))
def test_a_client_in_a_retry_loop_changes_no_other_clients_decisions(
    requests: list[PolicyRequest],
) -> None:
    policy, alone = errors_of(20, retries=5), errors_of(20, retries=5)
    found = decisions(policy, requests)
    of_b = [request.client_id == "b" for request in requests]
    expected = decisions(alone, [r for r, is_b in zip(requests, of_b, strict=True) if is_b])
    assert [d for d, is_b in zip(found, of_b, strict=True) if is_b] == expected


@given(traffic())
def test_every_refused_produce_is_admitted_late_or_lost_once_all_retries_are_made(
    requests: list[PolicyRequest],
) -> None:
    policy = errors_of(5, retries=5)
    refused = sum(
        decision.refusal is not None and request.api_name == "PRODUCE"
        for request, decision in zip(requests, decisions(policy, requests), strict=True)
    )
    policy.settle(T + 1_000_000)
    costs = [found for key, found in policy.costs().items() if "PRODUCE" in key]
    assert sum(one.admitted_late_requests + one.lost_requests for one in costs) == refused
