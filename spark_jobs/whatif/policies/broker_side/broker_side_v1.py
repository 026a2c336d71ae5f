"""A quota on bytes in per broker, shared out over its topics, that drops what is too much.

Source: "Broker side quota (V1)".

Decided where the document is silent:

- A share is (total - sum of the explicit thresholds) / (topics without one) over the topics of the
  broker, in whole numbers rounded down; the sum that must not exceed the total is over all
  configured topics. Without topics that share nothing is divided.
- Shares follow a topic that leaves the broker too. One that appends without having been announced
  is new to the broker at that moment.
- A change that lowers the total below the sum is refused, as one that raises the sum above it; a
  refused change changes nothing. Thresholds may be 0. The total has no default.
- Topics' thresholds are one table, ``bytes.in.per.sec.threshold``, by topic; the document has them
  as config of each topic. ``meter.ticks`` says how meters tick (:class:`Ticks`): as
  Dropwizard's (``when_touched``), or as the older Yammer library's (``fixed_schedule``).
- Meters are created when first touched: a broker's and a topic's by the first append that is
  decided on. A topic that leaves takes its meter along; a broker that restarts forgets all of them,
  and still has its topics.
- Topics of a request are decided on in its order. The amount is the record bytes of the topic;
  where the log lacks it nothing is counted (``bytes_unknown``), and the decision is not changed by
  it, for it looks only at what came before.
- Client produces only; replication is exempt.
- An append that failed for another reason is not asked for: its bytes are error bytes in whatever
  the quota would have said, and it makes no topic known. Errors after the append are none here,
  for the data did get into the log (REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND).
- The refusal is final: the page drops the data, so that clients do not retry.
- Dropped requests are handed out with each decision and kept nowhere (``dropped_requests``).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.whatif.policies.broker_side.bytes_in_thresholds import (
    TOPIC_THRESHOLD,
    TOTAL_THRESHOLD,
    BytesInThresholds,
)
from spark_jobs.whatif.policies.change import (
    BrokerStarted,
    Change,
    ConfigChanged,
    TopicAdded,
    TopicRemoved,
)
from spark_jobs.whatif.policies.decision import ADMITTED, Decision, Refusal, TopicDecision
from spark_jobs.whatif.policies.kafka_config import KafkaConfig, refuse_while_running
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

TICK_INTERVAL_MS = 5_000
# The library's own order of operations, and its nanoseconds, so that no bit differs.
M1_ALPHA = 1.0 - math.exp(-5 / 60.0 / 1)
_NS_PER_TICK = 5e9
_NS_PER_S = 1e9


class Ticks(StrEnum):
    """When a meter takes what it has counted into its rate."""

    WHEN_TOUCHED = "when_touched"
    """Dropwizard: caught up when the meter is touched and more than 5 s have passed."""
    FIXED_SCHEDULE = "fixed_schedule"
    """Yammer: by a thread every 5 s, touched or not."""


class OneMinuteRate:
    """An exponentially weighted rate per second, 0 until its first tick, constant between ticks.

    The first tick sets it to the rate of its 5 s, even to 0. Java: ``Meter.getOneMinuteRate``.

    Source: "Broker side quota (V1)", Low level design 2: "Meter exposes a OneMinuteRate, which is
    an EWMA and is refreshed every 5 seconds by default". The arithmetic is that of Dropwizard's
    metrics-core 4.2, ``EWMA`` and ``Meter``; the brokers of that time had its ancestor, Yammer's
    metrics-core 2.2, whose arithmetic is the same and whose ticks come otherwise (:class:`Ticks`).

    Decided here:

    - A meter is created when it is first touched, and its ticks are anchored there.
    - Ticks missed while idle are all caught up. Dropwizard 4.2 resets a meter that was idle for
      some 12.8 h (its ``maxTicks``) and drops what it had counted last; that cap is left out.
    - On the fixed schedule a tick comes before whatever happens in the same millisecond.
    - A time before the last tick counts for the interval in progress.

    >>> meter = OneMinuteRate(created_ms=0)
    >>> meter.mark(60, now_ms=0)
    >>> meter.rate(now_ms=5_000), meter.rate(now_ms=5_001), meter.rate(now_ms=10_001)
    (0.0, 12.0, 11.040532975551878)
    """

    __slots__ = ("_is_initialized", "_last_tick_ms", "_rate_per_ns", "_uncounted", "count", "ticks")

    def __init__(self, created_ms: int, ticks: Ticks = Ticks.WHEN_TOUCHED) -> None:
        self.ticks = ticks
        self.count = 0  # everything marked
        self._last_tick_ms = created_ms
        self._uncounted = 0
        self._rate_per_ns = 0.0
        self._is_initialized = False

    def mark(self, amount: int, now_ms: int) -> None:
        """Count ``amount``; no rate shows it before the next tick."""
        assert amount >= 0, amount
        self._tick_if_necessary(now_ms)
        self.count += amount
        self._uncounted += amount

    def rate(self, now_ms: int) -> float:
        """Return the amount marked per second, as of the last tick."""
        self._tick_if_necessary(now_ms)
        return self._rate_per_ns * _NS_PER_S

    def _tick_if_necessary(self, now_ms: int) -> None:
        age_ms = now_ms - self._last_tick_ms
        # Dropwizard waits for more than 5 s to have passed, a schedule fires after 5 s.
        if age_ms < TICK_INTERVAL_MS + (self.ticks is Ticks.WHEN_TOUCHED):
            return
        due = age_ms // TICK_INTERVAL_MS
        self._last_tick_ms += due * TICK_INTERVAL_MS
        self._tick()
        for _ in range(due - 1):
            before = self._rate_per_ns
            self._tick()
            # Where a rate stays as it is, so it does after every further tick: days cost nothing.
            if self._rate_per_ns == before:
                break

    def _tick(self) -> None:
        """Take the 5 s that end into the rate. Java: ``EWMA.tick``."""
        instant_rate = self._uncounted / _NS_PER_TICK
        self._uncounted = 0
        if self._is_initialized:
            self._rate_per_ns += M1_ALPHA * (instant_rate - self._rate_per_ns)
        else:
            self._rate_per_ns = instant_rate
            self._is_initialized = True


METER_TICKS = "meter.ticks"
QUOTA_EXCEEDED = "QuotaExceededException"
"""The document's own name; Kafka never had such an error code."""
BYTES_UNKNOWN = "bytes_unknown"
"""How many record bytes a topic of the request has is not in the log."""
TOPICS_UNKNOWN = "topics_unknown"
"""Which topics the request appends to is not in the log."""

# Kafka: Errors.java. The first two are those that the document's discussion means.
_ERROR_NAMES = {10: "MESSAGE_TOO_LARGE", 18: "RECORD_LIST_TOO_LARGE"}
_APPENDED = frozenset({0, 7, 20})


class MeterName(StrEnum):
    """What is measured: the first of brokers and of topics, the others of brokers."""

    BYTES_IN = "bytes_in"
    ERROR_BYTES_IN = "error_bytes_in"
    THROTTLED_BYTES_IN = "throttled_bytes_in"


@dataclass(frozen=True, slots=True)
class DroppedRequest:
    """What a broker writes into its log of a request that it dropped, whole or for one topic."""

    at_ms: int
    broker_id: int
    connection: str
    client_id: str | None
    topic: str
    amount: float  # record bytes, NaN: not in the log
    error: str
    reason: str


def dropped_requests(request: PolicyRequest, decision: Decision) -> tuple[DroppedRequest, ...]:
    """Return the entries of the dropped-request log that a decision leads to, in topics' order.

    Document: Discussions 1, "we just log in log4j the dropped requests and the associated reason".
    """
    if not decision.topics:
        return ()
    dropped = []
    for part, decided in zip(request.topics, decision.topics, strict=True):
        refusal = decided.refusal or _other_refusal(part)
        if refusal is not None:
            where = (request.at_ms, request.broker_id, request.connection, request.client_id)
            what = (part.topic, part.amount, refusal.error, refusal.reason)
            dropped.append(DroppedRequest(*where, *what))
    return tuple(dropped)


class BrokerSideV1(Policy):
    """Drops appends to topics above their threshold while the broker is above its total.

    >>> policy = BrokerSideV1.configured({"total.bytes.in.per.sec.threshold": 10})
    >>> def append(at_ms: int, topic: str, amount: float) -> Decision:
    ...     part = TopicPart(topic, amount)
    ...     return policy.decide(
    ...         PolicyRequest(at_ms, 1, "c", "PRODUCE", 9, "u", "app", amount, topics=(part,))
    ...     )
    >>> append(0, "busy", 60.0).refusal is None, append(0, "calm", 20.0).refusal is None
    (True, True)
    >>> append(6_000, "busy", 1.0).refusal.reason
    "topic 'busy': 12.0 bytes per second are above its 5, while the broker's 16.0 are above its 10"
    >>> append(6_000, "calm", 1.0).refusal is None
    True
    """

    name = "broker_side_v1"
    title = "Broker side quota (V1)"
    apis = frozenset({"PRODUCE"})
    scope = StateScope.BROKER

    def __init__(self, config: Mapping[str, object]) -> None:
        self.ticks = _read(config).choice(METER_TICKS, Ticks.WHEN_TOUCHED)
        self.thresholds = BytesInThresholds(self.name, config)
        self._meters: defaultdict[int, dict[tuple[MeterName, str | None], OneMinuteRate]]
        self._meters = defaultdict(dict)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the broker: its total binds all of its topics together."""
        return str(request.broker_id)

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on the append to each topic; only some of them may be refused."""
        if request.is_replica:
            return ADMITTED
        if not request.topics:
            return Decision(findings=(TOPICS_UNKNOWN,))
        asked, topics = [], []
        for part in request.topics:
            if part.other_error_code in _APPENDED:
                topics.append(self._append(request, part))
                asked.append(topics[-1])
            else:
                _mark(self._touched(request, MeterName.ERROR_BYTES_IN), part, request.at_ms)
                topics.append(TopicDecision(part.topic, 0.0))
        total = self.meter(request.broker_id, MeterName.BYTES_IN)
        is_unknown = any(math.isnan(part.amount) for part in request.topics)
        is_refused = bool(asked) and all(one.refusal is not None for one in asked)
        return Decision(
            refusal=asked[0].refusal if is_refused else None,
            topics=tuple(topics),
            measured=0.0 if total is None else total.rate(request.at_ms),
            bound=float(self.thresholds.total),
            findings=(BYTES_UNKNOWN,) if is_unknown else (),
        )

    def observe(self, change: Change) -> None:
        """Take over thresholds, follow the topics of brokers, forget what a started one measured.

        Raises PolicyConfigError on a change that is refused, and is then as it was before.
        """
        if isinstance(change, ConfigChanged):
            _read(change.values)
            if METER_TICKS in change.values:
                values = {METER_TICKS: change.values[METER_TICKS]}
                refuse_while_running(self.name, ConfigChanged(change.at_ms, values))
            self.thresholds.change(change.values)
        elif isinstance(change, TopicAdded):
            self.thresholds.add_topic(change.broker_id, change.topic)
        elif isinstance(change, TopicRemoved):
            self.thresholds.remove_topic(change.broker_id, change.topic)
            self._meters[change.broker_id].pop((MeterName.BYTES_IN, change.topic), None)
        elif isinstance(change, BrokerStarted):
            self._meters.pop(change.broker_id, None)

    def meter(
        self, broker_id: int, name: MeterName, topic: str | None = None
    ) -> OneMinuteRate | None:
        """Return a broker's meter, or that of a topic there; None of one never touched."""
        return self._meters.get(broker_id, {}).get((name, topic))

    def _append(self, request: PolicyRequest, part: TopicPart) -> TopicDecision:
        """Decide on one topic and count it. Document: ``TopicQuota.recordQuota``."""
        self.thresholds.add_topic(request.broker_id, part.topic)
        threshold = self.thresholds.of(request.broker_id, part.topic)
        meters = (
            self._touched(request, MeterName.BYTES_IN),
            self._touched(request, MeterName.BYTES_IN, part.topic),
        )
        total_rate, rate = (meter.rate(request.at_ms) for meter in meters)
        if total_rate > self.thresholds.total and rate > threshold:
            _mark(self._touched(request, MeterName.THROTTLED_BYTES_IN), part, request.at_ms)
            refusal = Refusal(
                QUOTA_EXCEEDED,
                f"topic {part.topic!r}: {rate:.1f} bytes per second are above its {threshold}, "
                f"while the broker's {total_rate:.1f} are above its {self.thresholds.total}",
                is_retriable=False,
            )
            return TopicDecision(part.topic, part.amount, refusal, measured=rate)
        for meter in meters:
            _mark(meter, part, request.at_ms)
        return TopicDecision(part.topic, part.amount, measured=rate)

    def _touched(
        self, request: PolicyRequest, name: MeterName, topic: str | None = None
    ) -> OneMinuteRate:
        meters = self._meters[request.broker_id]
        meter = meters.get((name, topic))
        if meter is None:
            meter = meters[name, topic] = OneMinuteRate(request.at_ms, self.ticks)
        return meter


def _read(config: Mapping[str, object]) -> KafkaConfig:
    keys = {TOTAL_THRESHOLD, TOPIC_THRESHOLD, METER_TICKS}
    return KafkaConfig(BrokerSideV1.name, config, keys)


def _mark(meter: OneMinuteRate, part: TopicPart, now_ms: int) -> None:
    if not math.isnan(part.amount):
        meter.mark(int(part.amount), now_ms)


def _other_refusal(part: TopicPart) -> Refusal | None:
    if part.other_error_code in _APPENDED:
        return None
    code = part.other_error_code
    name = _ERROR_NAMES.get(code, f"error code {code}")
    return Refusal(name, "failed before the append, for no reason of the quota", False)
