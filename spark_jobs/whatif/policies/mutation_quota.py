"""What quotas on partitions created and deleted share: sensors, topics in order, old versions.

Source: KIP-599, late revision; Kafka's ``ControllerMutationQuotaManager`` for what brokers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.controller_mutation import ControllerMutationQuota, mutation_throttle_time_ms
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.partition_inventory import MUTATION_APIS, is_strict
from spark_jobs.quota.throttle_time import bound_in_force
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.whatif.policies.change import Change, ControllerFailedOver
from spark_jobs.whatif.policies.client_quota_policy import ClientQuotaPolicy, S
from spark_jobs.whatif.policies.decision import Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.policy import StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart
from spark_jobs.whatif.policies.throttle_time_versions import tells_throttle_time

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


def all_admitted(request: PolicyRequest) -> Decision:
    """Return the decision on a request that no quota counts, topic by topic."""
    topics = tuple(
        failed(part) if part.other_error_code else TopicDecision(part.topic, part.amount)
        for part in request.topics
    )
    return Decision(topics=topics)


def _decided(part: TopicPart, verdict: TopicVerdict) -> TopicDecision:
    """Return the decision on a topic; a refusal's reason is the error's message."""
    refusal = None
    if not verdict.is_admitted:
        refusal = Refusal(
            THROTTLING_QUOTA_EXCEEDED,
            "The controller mutation quota has been exceeded; "
            f"try again in {verdict.throttle_time_ms} ms.",
        )
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


class MutationQuota(ClientQuotaPolicy[S]):
    """A state per (user, client-id) at the controller, asked topic by topic; S is its type."""

    apis = frozenset(MUTATION_APIS)
    scope = StateScope.CLUSTER
    quota_types: ClassVar[Sequence[str]] = (QuotaType.CONTROLLER_MUTATION_RATE,)
    window_keys = (WINDOW_NUM, WINDOW_SIZE_SECONDS)
    expires = False

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of a controller that counts from nothing."""
        super().observe(change)
        if isinstance(change, ControllerFailedOver):
            self._states.forget()

    def _unbounded(self, request: PolicyRequest) -> Decision:
        return all_admitted(request)

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
            topics.append(_decided(part, verdict))
        measured = self._measured(state, bound, request.at_ms)
        told = answered(request, tuple(topics), delay_ms, measured, bound, findings=tuple(findings))
        self._answered(state, told, request.at_ms)
        return told

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
