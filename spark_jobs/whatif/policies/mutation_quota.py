"""What quotas on partitions created and deleted share: sensors, topics in order, old versions.

Source: KIP-599, late revision; Kafka's ``ControllerMutationQuotaManager`` for what brokers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import SAMPLES
from spark_jobs.quota.controller_mutation import ControllerMutationQuota, mutation_throttle_time_ms
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.partition_inventory import MUTATION_APIS, is_strict
from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.whatif.policies.change import (
    BrokerStarted,
    Change,
    ConfigChanged,
    ControllerFailedOver,
    QuotaChanged,
)
from spark_jobs.whatif.policies.client_quotas import (
    BoundSensor,
    ClientQuotas,
    SensorKey,
    Sensors,
    configured_quotas,
)
from spark_jobs.whatif.policies.decision import Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.kafka_config import (
    KafkaConfig,
    refuse_while_running,
)
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from spark_jobs.whatif.policies.throttle_time_versions import tells_throttle_time
from spark_jobs.whatif.policies.windowed_rate_quota import BROKER_KEYS, level_rule

PARTITIONS_UNKNOWN = "partitions_unknown"
"""How many partitions a topic of the request has is not in the log."""
STATE_UNKNOWN = "state_unknown"
"""An earlier mutation of unknown size leaves open what was decided here."""


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """What the rule says of one topic's mutation."""

    is_admitted: bool
    # Of the refusal or, where it was admitted, of the connection; 0: none.
    throttle_time_ms: int
    # Tokens or rate before the mutation: what was compared.
    measured: float
    is_state_known: bool = True


def failed(part: TopicPart) -> TopicDecision:
    """Return the decision on a topic that fails for a reason of its own: it spends nothing."""
    return TopicDecision(part.topic, 0.0)


def decided(part: TopicPart, verdict: TopicVerdict, error: str, rule: str) -> TopicDecision:
    """Return the decision on a topic; a refusal's reason is the error's message."""
    refusal = None
    if not verdict.is_admitted:
        reason = f"The {rule} has been exceeded; try again in {verdict.throttle_time_ms} ms."
        refusal = Refusal(error, reason)
    return TopicDecision(part.topic, part.amount, refusal, verdict.measured)


def refusal_of_all(request: PolicyRequest, topics: Iterable[TopicDecision]) -> Refusal | None:
    """Return the first topic's refusal where the quota refused every topic that it was asked of."""
    asked = [
        decision
        for part, decision in zip(request.topics, topics, strict=True)
        if not part.other_error_code
    ]
    is_all = bool(asked) and all(decision.refusal is not None for decision in asked)
    return asked[0].refusal if is_all else None


def answered(
    request: PolicyRequest,
    topics: tuple[TopicDecision, ...],
    delay_ms: int,
    measured: float,
    bound: float,
    held: Held = Held.NEXT_REQUEST,
    findings: tuple[str, ...] = (),
) -> Decision:
    """Return the decision on the whole request. Answered at once unless ``held`` says otherwise."""
    tells = tells_throttle_time(request.api_name, request.api_version)
    return Decision(
        delay_ms=delay_ms,
        held=held if delay_ms else Held.NOTHING,
        is_told=delay_ms > 0 and tells and held is not Held.EXECUTION,
        refusal=refusal_of_all(request, topics),
        topics=topics,
        measured=measured,
        bound=bound,
        findings=findings,
    )


def copied(bucket: TokenBucket) -> TokenBucket:
    """Return a bucket of its own in the same state."""
    return TokenBucket(bucket.samples, bucket.window_ms, bucket.tokens, bucket.last_update_ms)


def tokens_at(quota: ControllerMutationQuota, bound: float, now_ms: int) -> float:
    """Return the tokens at ``now_ms``, NaN where unknown; nothing changes.

    >>> tokens_at(ControllerMutationQuota(TokenBucket(samples=10)), 5.0, 1_700_000_000_000)
    50.0
    """
    if math.isnan(quota.tokens):
        return math.nan
    return copied(quota.most).measure(bound_in_force(bound), now_ms)


def debt_throttle_time_ms(tokens: float, bound: float) -> int:
    """Return -K / R in ms, 0 without a debt; capped where it does not fit an int32.

    Document: KIP-599, late revision, whose example divides where its formula multiplies.

    >>> debt_throttle_time_ms(-60.0, 5.0), debt_throttle_time_ms(20.0, 5.0)
    (12000, 0)
    """
    if tokens >= 0:
        return 0
    return min(mutation_throttle_time_ms(tokens, bound_in_force(bound)), INT_MAX)


WINDOW_NUM = "controller.quota.window.num"
WINDOW_SIZE_SECONDS = "controller.quota.window.size.seconds"
THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED"

S = TypeVar("S")


class MutationQuota(Policy, Generic[S]):
    """A state per (user, client-id) at the controller, asked topic by topic; S is its type."""

    apis = frozenset(MUTATION_APIS)
    scope = StateScope.CLUSTER
    quota_type: ClassVar[str] = str(QuotaType.CONTROLLER_MUTATION_RATE)
    expires: ClassVar[bool] = False
    keys: ClassVar[frozenset[str]] = frozenset({WINDOW_NUM, WINDOW_SIZE_SECONDS, *BROKER_KEYS})

    def __init__(self, config: Mapping[str, object]) -> None:
        read = KafkaConfig(self.name, config, self.keys)
        self.samples = read.whole_number(WINDOW_NUM, default=SAMPLES, at_most=INT_MAX)
        window_s = read.whole_number(WINDOW_SIZE_SECONDS, default=1, at_most=INT_MAX // 1000)
        self.window_ms = 1000 * window_s
        self._read(read)
        self._quotas = ClientQuotas(self.name, self.quota_type, level_rule(read))
        self._states: Sensors[S] = Sensors(self._new_state, self.expires)
        for change in configured_quotas(self.name, config, (self.quota_type,)):
            self.observe(change)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the tags of the request's sensor, and where it is kept."""
        sensor = self._sensor(request)
        if sensor is None:
            return str(("", request.user, request.client_id or ""))
        return str(tuple(self._key(request, sensor)))

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on each topic, and the time that the client has to wait."""
        sensor = self._sensor(request)
        if sensor is None:
            topics = tuple(
                failed(part) if part.other_error_code else TopicDecision(part.topic, part.amount)
                for part in request.topics
            )
            return Decision(topics=topics)
        state = self._states.at(self._key(request, sensor), request.at_ms)
        return self._decide(request, state, sensor.bound)

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of a controller that counts from nothing."""
        if isinstance(change, ConfigChanged):
            refuse_while_running(self.name, change)
        if isinstance(change, ControllerFailedOver):
            self._states.forget()
        if isinstance(change, BrokerStarted | QuotaChanged):
            self._quotas.observe(change)

    def _decide(self, request: PolicyRequest, state: S, bound: float) -> Decision:
        refusable = is_strict(request.api_name, request.api_version)
        topics, findings, delay_ms = [], dict[str, None](), 0
        for part in request.topics:
            if part.other_error_code:
                topics.append(failed(part))
                continue
            if math.isnan(part.amount):
                findings[PARTITIONS_UNKNOWN] = None
            verdict = self._topic(state, part.amount, bound, request.at_ms, refusable)
            if not verdict.is_state_known:
                findings[STATE_UNKNOWN] = None
            # Within a request the measure only gets worse: the last topic has the longest throttle.
            delay_ms = verdict.throttle_time_ms
            topics.append(
                decided(part, verdict, THROTTLING_QUOTA_EXCEEDED, "controller mutation quota")
            )
        measured = self._measured(state, bound, request.at_ms)
        told = answered(request, tuple(topics), delay_ms, measured, bound, findings=tuple(findings))
        self._answered(state, told, request.at_ms)
        return told

    def _read(self, config: KafkaConfig) -> None:
        """Read the policy's own keys."""

    def _new_state(self) -> S:
        raise NotImplementedError

    def _topic(
        self, state: S, amount: float, bound: float, now_ms: int, refusable: bool
    ) -> TopicVerdict:
        """Return the verdict on one topic's partitions, NaN: not known; ``state`` moves on."""
        raise NotImplementedError

    def _measured(self, state: S, bound: float, now_ms: int) -> float:
        """Return the rule's measure once the request is over."""
        raise NotImplementedError

    def _answered(self, state: S, decision: Decision, now_ms: int) -> None:
        """Take notice of an answer, for metrics."""

    def _sensor(self, request: PolicyRequest) -> BoundSensor | None:
        return self._quotas.sensor_of(request.broker_id, request.user, request.client_id)

    def _key(self, request: PolicyRequest, sensor: BoundSensor) -> SensorKey:
        return SensorKey(None, self.quota_type, sensor.user, sensor.client_id)
