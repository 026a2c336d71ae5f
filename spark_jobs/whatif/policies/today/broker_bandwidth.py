"""Today's quotas on bytes produced and fetched.

Source: Kafka's ``ClientQuotaManager`` and ``KafkaApis``. A replay
without the log's own throttles: the state moves on as this rule's answers say.

Decided here:

- A throttled fetch is taken back and answered with nothing at once (Kafka 2.0 and later; brokers
  before held the answer with its bytes).
- Every request is throttled by its bandwidth quota alone. A broker takes the larger of this and of
  the request quota, and un-records a fetch for either.
- An amount that the log does not have is recorded as 0, which still opens samples.
- A fetch is not cut to what fits into a window, as it is in 2.5 and later: its size is the one
  given. Who plays the clients cuts it: :meth:`BrokerBandwidth.largest_fetch`.
- A throttle of more than 24.8 days wraps to a negative one, which is none, as in Kafka.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.request import PolicyRequest
from spark_jobs.whatif.policies.throttle_time_versions import tells_throttle_time
from spark_jobs.whatif.policies.windowed_rate_quota import WindowedRateQuota

MS_PER_S = 1000
_QUOTA_TYPES = MappingProxyType(
    {
        "PRODUCE": QuotaType.PRODUCER_BYTE_RATE,
        "FETCH": QuotaType.CONSUMER_BYTE_RATE,
        "SHARE_FETCH": QuotaType.CONSUMER_BYTE_RATE,
    }
)


class BrokerBandwidth(WindowedRateQuota):
    """Byte rates per sensor on each broker: appended or taken back, then muted."""

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
        quota_type = self.quota_type_of(request)
        sensor = None if quota_type is None else self._sensor(quota_type, request)
        if sensor is None or math.isnan(sensor.bound):
            return math.inf
        return sensor.bound * (self.samples - 1) * (self.window_ms // MS_PER_S)

    def take_back(self, request: PolicyRequest) -> None:
        """Take back a fetch that was just decided on: another quota throttles it.

        Kafka: ``ClientQuotaManager.unrecordQuotaSensor``.
        """
        quota_type = self.quota_type_of(request)
        sensor = None if quota_type is None else self._sensor(quota_type, request)
        if quota_type is not None and sensor is not None and not math.isnan(request.amount):
            rate = self._rates.at(self._key(quota_type, request, sensor), request.at_ms)
            rate.record(-request.amount, request.at_ms)

    def _decide(self, request: PolicyRequest, rate: Rate, bound: float) -> Decision:
        found = decide(rate, request.amount, bound, request.at_ms)
        delay_ms = max(found.throttle_time_ms, 0)
        is_taken_back = delay_ms > 0 and request.api_name != "PRODUCE"
        if is_taken_back and not math.isnan(request.amount):
            rate.record(-request.amount, request.at_ms)
        has_answer = not (request.api_name == "PRODUCE" and request.acks == 0)
        tells = has_answer and tells_throttle_time(request.api_name, request.api_version)
        return Decision(
            delay_ms=delay_ms,
            held=Held.NEXT_REQUEST if delay_ms else Held.NOTHING,
            is_told=delay_ms > 0 and tells,
            measured=found.rate,
            bound=bound,
            is_taken_back=is_taken_back,
        )
