"""Today's quotas on bytes and on request time together, as a broker applies them to a request.

Source: Kafka's ``KafkaApis.handleProduceRequest``, ``handleFetchRequest`` and
``RequestHandlerHelper``. Each quota counts the request; the longer throttle is applied, and a fetch
that is throttled for either is taken back from the byte rate.

Decided here: where the request quota throttles, its bound is not told. It is a share of a thread's
time, and what clients share by it is not the bytes that they asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RateDecision, decide
from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.client_quota_policy import (
    BROKER_VERSION,
    USES_ZOOKEEPER,
    ClientQuotaPolicy,
    profile_of,
    throttle_max_of,
)
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Held
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest
from spark_jobs.whatif.policies.throttle_time_versions import (
    THROTTLE_TIME_SINCE,
    tells_throttle_time,
)

MS_PER_S = 1000
_QUOTA_TYPES = MappingProxyType(
    {
        "PRODUCE": QuotaType.PRODUCER_BYTE_RATE,
        "FETCH": QuotaType.CONSUMER_BYTE_RATE,
        "SHARE_FETCH": QuotaType.CONSUMER_BYTE_RATE,
    }
)


RATE_PROFILE = "rate.profile"
WINDOW_NUM = "quota.window.num"
WINDOW_SIZE_SECONDS = "quota.window.size.seconds"


class WindowedRateQuota(ClientQuotaPolicy[Rate]):
    """A rate per sensor and broker, and the throttle that brings it back to its bound."""

    scope = StateScope.SENSOR
    broker_keys = frozenset(
        {BROKER_VERSION, USES_ZOOKEEPER, RATE_PROFILE, WINDOW_NUM, WINDOW_SIZE_SECONDS}
    )
    window_keys = (WINDOW_NUM, WINDOW_SIZE_SECONDS)
    keys = frozenset({RATE_PROFILE})

    def _read(self, config: KafkaConfig) -> None:
        self.profile = config.choice(RATE_PROFILE, default=profile_of(config))
        self.throttle_max_ms = throttle_max_of(config)

    def _new_state(self) -> Rate:
        return Rate(self.profile, self.samples, self.window_ms)

    def _unbounded(self, request: PolicyRequest) -> Decision:
        return ADMITTED


class BrokerBandwidth(WindowedRateQuota):
    """Byte rates per sensor on each broker: appended or taken back, then muted.

    Source: Kafka's ``ClientQuotaManager`` and ``KafkaApis``. A replay without the log's own
    throttles: the state moves on as this rule's answers say.

    Decided here:

    - A throttled fetch is taken back and answered with nothing at once (Kafka 2.0 and later;
      brokers before held the answer with its bytes).
    - Every request is throttled by its bandwidth quota alone. A broker takes the larger of this and
      of the request quota, and un-records a fetch for either.
    - An amount that the log does not have is recorded as 0, which still opens samples.
    - A fetch is not cut to what fits into a window, as it is in 2.5 and later: its size is the one
      given. Who plays the clients cuts it: :meth:`BrokerBandwidth.largest_fetch`.
    - A throttle of more than 24.8 days wraps to a negative one before 4.4, which is none, as in
      Kafka.
    """

    name = "broker_bandwidth"
    title = "Apache Kafka: producer_byte_rate and consumer_byte_rate"
    apis = frozenset(_QUOTA_TYPES)
    quota_types = (QuotaType.PRODUCER_BYTE_RATE, QuotaType.CONSUMER_BYTE_RATE)

    def quota_type_of(self, request: PolicyRequest) -> QuotaType | None:
        """Return the quota on the request's bytes; followers are exempt."""
        return None if request.is_replica else _QUOTA_TYPES[request.api_name]

    def largest_fetch(self, request: PolicyRequest) -> float:
        """Return the bytes that fit into the windows before the open one; infinity: no bound.

        Kafka: ``ClientQuotaManager.getMaxValueInQuotaWindow``, since 2.5.
        """
        sensor = self._sensor(request)
        if sensor is None or math.isnan(sensor[1]):
            return math.inf
        return sensor[1] * (self.samples - 1) * (self.window_ms // MS_PER_S)

    def take_back(self, request: PolicyRequest) -> None:
        """Take back a fetch that was just decided on: another quota throttles it.

        Kafka: ``ClientQuotaManager.unrecordQuotaSensor``.
        """
        sensor = self._sensor(request)
        if sensor is not None and not math.isnan(request.amount):
            rate = self._states.at(sensor[0], request.at_ms)
            rate.record(-request.amount, request.at_ms)

    def _decide(self, request: PolicyRequest, rate: Rate, bound: float) -> Decision:
        most_ms = self.throttle_max_ms
        found = decide(rate, request.amount, bound, request.at_ms, throttle_max_ms=most_ms)
        is_taken_back = found.throttle_time_ms > 0 and request.api_name != "PRODUCE"
        if is_taken_back and not math.isnan(request.amount):
            rate.record(-request.amount, request.at_ms)
        return replace(_throttled(request, found, bound), is_taken_back=is_taken_back)


NS_PER_US = 1000
PERCENT_PER_NS = 1e-7
"""Kafka: ``ClientQuotaManagerConfig.NanosToPercentagePerSecond``."""


class BrokerRequestPercentage(WindowedRateQuota):
    """Percent of one thread per sensor on each broker, throttled for one window at most.

    Source: Kafka's ``ClientRequestQuotaManager``.

    Decided here:

    - The amount is the handler time that the line has. Network-thread time is in no line, so the
      replay is a lower bound of what a broker counts (``quota/request_time.py`` bounds it).
    - Throttled by this quota alone; see ``broker_bandwidth``.
    """

    name = "broker_request_percentage"
    title = "Apache Kafka: request_percentage"
    # What brokers send each other is exempt, and not in the table.
    apis = frozenset(THROTTLE_TIME_SINCE)
    quota_types = (QuotaType.REQUEST_PERCENTAGE,)

    def quota_type_of(self, request: PolicyRequest) -> QuotaType | None:
        """Return the request quota; a produce with acks=0 has no response that it could hold."""
        is_exempt = request.is_replica or not request.is_answered
        return None if is_exempt else QuotaType.REQUEST_PERCENTAGE

    def _decide(self, request: PolicyRequest, rate: Rate, bound: float) -> Decision:
        percent = request.handler_time_us * NS_PER_US * PERCENT_PER_NS
        found = decide(rate, percent, bound, request.at_ms, throttle_max_ms=self.window_ms)
        return _throttled(request, found, bound)


def _throttled(request: PolicyRequest, found: RateDecision, bound: float) -> Decision:
    """Return the decision on a request that is carried out, and perhaps its connection muted."""
    delay_ms = max(found.throttle_time_ms, 0)
    tells = tells_throttle_time(request.api_name, request.api_version)
    return Decision(
        delay_ms=delay_ms,
        held=Held.NEXT_REQUEST if delay_ms else Held.NOTHING,
        is_told=delay_ms > 0 and request.is_answered and tells,
        measured=found.rate,
        bound=bound,
    )


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
        return replace(by_time, measured=math.nan, bound=math.nan, is_taken_back=is_fetch)

    def largest_fetch(self, request: PolicyRequest) -> float:
        """Return the most bytes that the byte rate lets a fetch bring."""
        return self._bandwidth.largest_fetch(request)

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of brokers that begin anew."""
        self._bandwidth.observe(change)
        self._request_time.observe(change)
