"""Today's quota on the time that requests take of a broker's threads.

Source: Kafka's ``ClientRequestQuotaManager``.

Decided here:

- The amount is the handler time that the line has. Network-thread time is in no line, so the
  replay is a lower bound of what a broker counts (``quota/request_time.py`` bounds it).
- Throttled by this quota alone; see ``broker_bandwidth``.
"""

from __future__ import annotations

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.whatif.policies.decision import Decision, Held
from spark_jobs.whatif.policies.request import PolicyRequest
from spark_jobs.whatif.policies.throttle_time_versions import (
    THROTTLE_TIME_SINCE,
    tells_throttle_time,
)
from spark_jobs.whatif.policies.windowed_rate_quota import WindowedRateQuota

NS_PER_US = 1000
PERCENT_PER_NS = 1e-7
"""Kafka: ``ClientQuotaManagerConfig.NanosToPercentagePerSecond``."""


class BrokerRequestPercentage(WindowedRateQuota):
    """Percent of one thread per sensor on each broker, throttled for one window at most."""

    name = "broker_request_percentage"
    title = "Apache Kafka: request_percentage"
    # What brokers send each other is exempt, and not in the table.
    apis = frozenset(THROTTLE_TIME_SINCE)
    quota_types = (QuotaType.REQUEST_PERCENTAGE,)

    def quota_type_of(self, request: PolicyRequest) -> QuotaType | None:
        """Return the request quota; a produce with acks=0 has no response that it could hold."""
        is_unanswered = request.api_name == "PRODUCE" and request.acks == 0
        return None if request.is_replica or is_unanswered else QuotaType.REQUEST_PERCENTAGE

    def _decide(self, request: PolicyRequest, rate: Rate, bound: float) -> Decision:
        percent = request.handler_time_us * NS_PER_US * PERCENT_PER_NS
        found = decide(rate, percent, bound, request.at_ms, throttle_max_ms=self.window_ms)
        delay_ms = max(found.throttle_time_ms, 0)
        tells = tells_throttle_time(request.api_name, request.api_version)
        return Decision(
            delay_ms=delay_ms,
            held=Held.NEXT_REQUEST if delay_ms else Held.NOTHING,
            is_told=delay_ms > 0 and tells,
            measured=found.rate,
            bound=bound,
        )
