"""Today's request quota as a policy."""

from __future__ import annotations

import pytest

from spark_jobs.quota.apis import APIS
from spark_jobs.replay.rates.recorded_amounts import EXEMPT_APIS
from spark_jobs.whatif.policies.decision import ADMITTED, Held
from spark_jobs.whatif.policies.today.broker_client_quotas import BrokerRequestPercentage
from tests.spark_jobs.whatif.policies.broker_requests import T, fetch, produce, request

CONFIG = {"quotas": [{"user": "alice", "request_percentage": 5}]}


def policy(**config: object) -> BrokerRequestPercentage:
    return BrokerRequestPercentage.configured(CONFIG | config)


def test_the_amount_is_the_percent_of_a_second_that_the_handler_took() -> None:
    decision = policy().decide(request("METADATA", handler_time_us=550_000))
    assert decision.measured == pytest.approx(5.5)
    assert (decision.delay_ms, decision.held, decision.is_told) == (1_000, Held.NEXT_REQUEST, True)


def test_the_throttle_is_one_window_at_most() -> None:
    assert policy().decide(fetch(0, handler_time_us=10**9)).delay_ms == 1_000
    wide = policy(**{"quota.window.size.seconds": 3})
    assert wide.decide(fetch(0, handler_time_us=10**9)).delay_ms == 3_000


def test_below_the_cap_it_is_what_brings_the_rate_back() -> None:
    assert policy().decide(fetch(0, handler_time_us=501_000)).delay_ms == 20


def test_a_throttled_fetch_stays_recorded() -> None:
    found = policy()
    assert not found.decide(fetch(0, handler_time_us=550_000)).is_taken_back
    assert found.decide(fetch(0)).measured == pytest.approx(5.5)


def test_all_requests_of_a_client_count_together() -> None:
    found = policy()
    for api_name in ("PRODUCE", "FETCH", "METADATA", "HEARTBEAT"):
        found.decide(request(api_name, handler_time_us=100_000))
    assert found.decide(fetch(0)).measured == pytest.approx(4.0)
    assert found.state_key(fetch(0)) == found.state_key(request("METADATA"))


def test_what_has_no_answer_and_what_brokers_send_is_exempt() -> None:
    found = policy()
    assert found.decide(produce(1, acks=0, handler_time_us=10**9)) is ADMITTED
    assert found.decide(fetch(1, is_replica=True, handler_time_us=10**9)) is ADMITTED
    assert found.decide(fetch(0)).measured == 0


def test_bytes_count_for_nothing() -> None:
    assert policy().decide(produce(10**12)).measured == 0


def test_it_hears_the_requests_that_the_audit_counts() -> None:
    assert not BrokerRequestPercentage.apis & set(EXEMPT_APIS)
    served = {name for api in APIS.values() if api.broker for name in api.names}
    assert served - set(EXEMPT_APIS) == BrokerRequestPercentage.apis


def test_a_response_without_the_field_tells_nothing() -> None:
    assert not policy().decide(request("SASL_HANDSHAKE", handler_time_us=10**9)).is_told
    assert not policy().decide(request("METADATA", api_version=2, handler_time_us=10**9)).is_told


def test_a_time_just_before_the_last_one_is_no_error() -> None:
    found = policy()
    found.decide(fetch(0, at_ms=T))
    assert found.decide(fetch(0, at_ms=T - 3)).delay_ms == 0
