"""Today's quotas on bytes and on request time together, as a broker applies them to a request.

Source: Kafka's ``KafkaApis.handleProduceRequest``, ``handleFetchRequest`` and
``RequestHandlerHelper``. Each quota counts the request; the longer throttle is applied, and a fetch
that is throttled for either is taken back from the byte rate.

Decided here: where the request quota throttles, its bound is not told. It is a share of a thread's
time, and what clients share by it is not the bytes that they asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import ADMITTED, Decision
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest
from spark_jobs.whatif.policies.today.broker_bandwidth import BrokerBandwidth
from spark_jobs.whatif.policies.today.broker_request_percentage import BrokerRequestPercentage

_NAN = float("nan")


class BrokerClientQuotas(Policy):
    """``broker_bandwidth`` and ``broker_request_percentage``: the longer throttle of the two."""

    name = "broker_client_quotas"
    title = "Apache Kafka: producer_byte_rate, consumer_byte_rate and request_percentage"
    apis = BrokerBandwidth.apis | BrokerRequestPercentage.apis
    scope = StateScope.BROKER
    broker_keys = BrokerBandwidth.broker_keys

    def __init__(self, config: Mapping[str, object]) -> None:
        self._bandwidth = BrokerBandwidth.configured(config)
        self._request_time = BrokerRequestPercentage.configured(config)

    @classmethod
    def configured(cls, config: Mapping[str, object]) -> Self:
        """Return the policy in its first state. Raises PolicyConfigError."""
        return cls(config)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the sensor of the request's bytes, of its time where it has none."""
        if request.api_name in BrokerBandwidth.apis:
            return self._bandwidth.state_key(request)
        return self._request_time.state_key(request)

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the longer of both delays."""
        by_time = by_bytes = ADMITTED
        if request.api_name in BrokerRequestPercentage.apis:
            by_time = self._request_time.decide(request)
        if request.api_name in BrokerBandwidth.apis:
            by_bytes = self._bandwidth.decide(request)
        if by_time.delay_ms <= by_bytes.delay_ms:
            return by_bytes
        is_fetch = request.api_name in BrokerBandwidth.apis and request.api_name != "PRODUCE"
        if is_fetch and not by_bytes.is_taken_back:
            self._bandwidth.take_back(request)
        return replace(by_time, measured=_NAN, bound=_NAN, is_taken_back=is_fetch)

    def largest_fetch(self, request: PolicyRequest) -> float:
        """Return the most bytes that the byte rate lets a fetch bring."""
        return self._bandwidth.largest_fetch(request)

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of brokers that begin anew."""
        self._bandwidth.observe(change)
        self._request_time.observe(change)
