"""Both of today's quotas on one request: the longer throttle, and what it does to a fetch."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.policies.change import BrokerStarted
from spark_jobs.whatif.policies.decision import ADMITTED
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError
from spark_jobs.whatif.policies.today.broker_client_quotas import (
    BrokerBandwidth,
    BrokerClientQuotas,
    BrokerRequestPercentage,
)
from tests.spark_jobs.whatif.policies.broker_requests import T, fetch, produce, quota, request

ALICE = {
    "user": "alice",
    "producer_byte_rate": 1000,
    "consumer_byte_rate": 500,
    "request_percentage": 10,
}
LONG_US = 1_030_000
"""Handler time of a request that is 300 ms over 10 % of a thread in a window of ten seconds."""


def policy(**config: object) -> BrokerClientQuotas:
    return BrokerClientQuotas.configured({"quotas": [ALICE], **config})


@pytest.mark.parametrize(
    "asked",
    [
        produce(15_000),
        produce(15_000, handler_time_us=LONG_US),
        produce(10, handler_time_us=LONG_US),
        produce(10),
        produce(15_000, acks=0, handler_time_us=LONG_US),
        fetch(7_500, handler_time_us=LONG_US),
        fetch(10**9, is_replica=True, handler_time_us=LONG_US),
        request("METADATA", math.nan, handler_time_us=LONG_US),
    ],
)
def test_the_longer_throttle_of_both_is_applied(asked: object) -> None:
    config = {"quotas": [ALICE]}
    alone = [BrokerRequestPercentage.configured(config).decide(asked)]
    if asked.api_name in BrokerBandwidth.apis:
        alone.append(BrokerBandwidth.configured(config).decide(asked))
    found = policy().decide(asked)
    longest = max(alone, key=lambda decision: decision.delay_ms)
    assert (found.delay_ms, found.held) == (longest.delay_ms, longest.held)


def test_each_quota_counts_a_request_that_the_other_throttles() -> None:
    found = policy()
    assert found.decide(produce(15_000, handler_time_us=LONG_US)).delay_ms == 5_000
    assert found.decide(request("METADATA", handler_time_us=10_000)).delay_ms > 300


def test_a_fetch_that_its_time_throttles_is_taken_back_from_its_bytes() -> None:
    found = policy()
    decision = found.decide(fetch(4_000, handler_time_us=LONG_US))
    assert decision.is_taken_back
    assert decision.delay_ms == 300
    # Were the 4,000 still there, these would be too many.
    assert found.decide(fetch(4_900, T + 1)).delay_ms == found.decide(fetch(0, T + 1)).delay_ms
    rate = BrokerBandwidth.configured({"quotas": [ALICE]})
    rate.decide(fetch(4_000))
    assert rate.decide(fetch(4_900, T + 1)).delay_ms > 0


def test_what_its_bytes_took_back_is_not_taken_back_twice() -> None:
    found = policy()
    found.decide(fetch(5_100, handler_time_us=LONG_US))
    assert found.decide(fetch(4_900, T + 11_000)).delay_ms == 0
    assert found.decide(fetch(200, T + 11_000)).measured == pytest.approx(510)


def test_where_its_time_throttles_no_bound_is_told() -> None:
    decision = policy().decide(produce(10, handler_time_us=LONG_US))
    assert math.isnan(decision.bound)
    assert policy().decide(produce(15_000)).bound == 1000


def test_the_state_is_the_byte_rates_sensor() -> None:
    alone = BrokerBandwidth.configured({"quotas": [ALICE]})
    assert policy().state_key(produce(1)) == alone.state_key(produce(1))
    assert policy().state_key(request("METADATA")) != alone.state_key(produce(1))


def test_quotas_and_starts_reach_both() -> None:
    found = BrokerClientQuotas.configured({})
    assert found.decide(produce(15_000, handler_time_us=LONG_US)) is ADMITTED
    for quota_type, bound in (("producer_byte_rate", 1000.0), ("request_percentage", 10.0)):
        found.observe(quota(quota_type, bound))
    assert found.decide(produce(15_000)).delay_ms == 5_000
    assert found.decide(produce(0, handler_time_us=LONG_US)).delay_ms == 5_000
    found.observe(BrokerStarted(T, 1))
    assert found.decide(produce(0, handler_time_us=10)).delay_ms == 0


def test_a_configuration_is_that_of_both() -> None:
    with pytest.raises(PolicyConfigError, match=r"quota\.window\.num = 0"):
        policy(**{"quota.window.num": 0})
