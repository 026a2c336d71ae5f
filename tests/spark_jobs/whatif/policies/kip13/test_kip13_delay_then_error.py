from __future__ import annotations

import pytest
from hypothesis import given

from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Held
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.kip13.kip13 import QUOTA_VIOLATED
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13DelayThenError, RefusalCost
from spark_jobs.whatif.policies.request import PolicyRequest
from tests.spark_jobs.whatif.policies.kip13_requests import T, decisions, fetch, produce, traffic


def parking_of(bound: int, delay_ms: int = 1_000, **more: object) -> Kip13DelayThenError:
    keys = {"quota.producer.default": bound, "quota.consumer.default": bound}
    return Kip13DelayThenError.configured({**keys, "quota.delay.ms": delay_ms, **more})


def test_the_catalogue_knows_it() -> None:
    assert policy_class("kip13_delay_then_error") is Kip13DelayThenError


@pytest.mark.parametrize("make", [produce, fetch])
def test_a_request_above_the_quota_is_parked_for_n_ms_and_gets_an_error_then(
    make: object,
) -> None:
    policy = parking_of(5, delay_ms=700)
    assert callable(make)
    assert policy.decide(make(T, 60)).refusal is None
    decision = policy.decide(make(T, 1))
    assert decision.refusal is not None
    assert (decision.refusal.error, decision.refusal.is_retriable) == (QUOTA_VIOLATED, True)
    assert (decision.delay_ms, decision.held, decision.is_told) == (700, Held.RESPONSE, False)


def test_without_acks_the_connection_is_held_up_and_nobody_hears_of_the_error() -> None:
    policy = parking_of(5, retries=9)
    decisions(policy, [produce(T, 60)])
    assert policy.decide(produce(T, 7, acks=0)).held is Held.NEXT_REQUEST
    policy.settle(T + 60_000)
    assert policy.costs()["1/PRODUCE/app"] == RefusalCost(
        refused_requests=1, lost_requests=1, lost_bytes=7
    )


def test_a_request_is_parked_for_its_request_timeout_at_most() -> None:
    assert parking_of(5, delay_ms=30_000).parked_ms == 30_000
    with pytest.raises(PolicyConfigError, match=r"at most its request\.timeout\.ms, 30000"):
        parking_of(5, delay_ms=30_001)
    with pytest.raises(PolicyConfigError, match=r"at most its request\.timeout\.ms, 500"):
        parking_of(5, delay_ms=501, **{"request.timeout.ms": 500})
    assert Kip13DelayThenError.configured({"request.timeout.ms": 500}).parked_ms == 500
    assert Kip13DelayThenError.configured({}).parked_ms == 1_000


@pytest.mark.parametrize("key", ["quota.delay.ms", "request.timeout.ms"])
def test_times_are_above_zero(key: str) -> None:
    with pytest.raises(PolicyConfigError, match="at least 1"):
        Kip13DelayThenError.configured({key: 0})


def test_refused_amounts_are_never_recorded() -> None:
    policy = parking_of(5)
    policy.decide(produce(T, 60))
    assert policy.decide(produce(T + 9_999, 1e9)).refusal is not None
    assert policy.decide(produce(T + 10_000, 1)).measured == 0.0


def test_it_slows_the_retries_of_a_client_that_does_not_back_off() -> None:
    policy = parking_of(5, delay_ms=1_000, retries=1_000)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    policy.settle(T + 60_000)
    found = policy.costs()["1/PRODUCE/app"]
    assert (found.retried_requests, found.retried_bytes) == (10, 70)
    assert (found.admitted_late_requests, found.lost_bytes) == (1, 0)


def test_data_is_lost_when_the_request_does_not_succeed_after_r_retries() -> None:
    policy = parking_of(5, delay_ms=1_000, retries=4)
    decisions(policy, [produce(T, 60), produce(T, 7)])
    policy.settle(T + 3_999)
    assert policy.costs()["1/PRODUCE/app"].lost_bytes == 0
    policy.settle(T + 4_000)
    assert policy.costs()["1/PRODUCE/app"] == RefusalCost(
        refused_requests=5,
        retried_requests=4,
        retried_bytes=28,
        lost_requests=1,
        lost_bytes=7,
    )


def test_parked_bytes_over_time_are_those_of_produces_until_their_error() -> None:
    policy = parking_of(5, delay_ms=1_000)
    decisions(policy, [produce(T, 60), fetch(T, 60), fetch(T, 500)])
    decisions(policy, [produce(T + at_ms, 100) for at_ms in (0, 400, 1_000)])
    assert policy.parked_bytes(1) == [
        (T, 100),
        (T + 400, 200),
        (T + 1_000, 200),
        (T + 1_400, 100),
        (T + 2_000, 0),
    ]
    assert policy.parked_bytes(2) == []


def test_the_bytes_of_retries_are_parked_again() -> None:
    policy = parking_of(5, delay_ms=1_000, **{"retries": 1, "retry.backoff.ms": 500})
    decisions(policy, [produce(T, 60), produce(T, 100)])
    policy.settle(T + 60_000)
    assert policy.parked_bytes(1) == [(T, 100), (T + 1_000, 0), (T + 1_500, 100), (T + 2_500, 0)]


@given(traffic())
def test_what_was_parked_is_let_go_in_the_end_and_never_less_than_nothing(
    requests: list[PolicyRequest],
) -> None:
    policy = parking_of(5, retries=3)
    decisions(policy, requests)
    policy.settle(T + 1_000_000)
    for broker_id in (1, 2):
        held = [amount for _, amount in policy.parked_bytes(broker_id)]
        assert all(amount >= 0 for amount in held)
        assert held[-1:] in ([], [0.0])
