"""KIP-599, early revision: one token bucket for all partition mutations of a cluster.

Configs ``quota.partition.mutations.rate`` and ``.burst`` (long, default 2^63 - 1, cluster-wide);
QUOTA_VIOLATED to CreateTopics 6, CreatePartitions 3, DeleteTopics 5 and later; metric
``remaining-tokens``, <= 0 means throttled.

Decided where the document is silent or contradicts itself:

- One bucket for everyone, at the controller, full at first and after a failover. Topic by topic in
  the order of the request, each admitted iff K > 0, after which K may be below zero; a topic that
  fails for another reason spends nothing, a validate-only one spends, as in the late revision.
- A rate at its default is no quota: no bucket. A burst at its default with a rate set is replayed
  as written, with the finding ``burst_never_throttles``.
- Configs are whole numbers of at least 1. A changed one takes the tokens there are along, cut to
  the new burst.
- Tokens are integers: a float of 2^63 does not register seven topics of 80 partitions.
- The throttle time is the first ms at which K > 0, for at K = 0 a try is still refused. The error
  tells it (its message too, in DeleteTopics 5 as well) and the connection is not held.
- Older versions are accepted, spend, and their connection is held while K <= 0.
- ``retry.quota.violation.exception`` (admin client, default true) is whether a refusal is retried
  by the client itself; ``kafka-topics.sh`` behaves as with false.
- A mutation of unknown size is charged nothing and reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from spark_jobs.quota.java_math import INT_MAX, LONG_MAX
from spark_jobs.quota.partition_inventory import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    MUTATION_APIS,
    is_strict,
)
from spark_jobs.whatif.policies.change import Change, ConfigChanged, ControllerFailedOver
from spark_jobs.whatif.policies.decision import Decision, Held, Refusal, TopicDecision
from spark_jobs.whatif.policies.kafka_config import KafkaConfig
from spark_jobs.whatif.policies.mutation_quota import (
    PARTITIONS_UNKNOWN,
    STATE_UNKNOWN,
    all_admitted,
    answered,
    failed,
)
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest, TopicPart

MS_PER_S = 1000


class PartitionMutationBucket:
    """Tokens for everyone, that refill at ``rate`` per second up to ``burst``.

    They are counted in thousandths, so that times in ms leave no remainder, and as integers: the
    default burst is 2^63 - 1, and a float of that size does not notice seven times 80 less.

    Document: KIP-599, early revision, ``remaining-tokens``.

    >>> bucket = PartitionMutationBucket(rate=5, burst=2**63 - 1)
    >>> bucket.spend(560, now_ms=0)
    >>> 2**63 - 1 - bucket.tokens(now_ms=0), bucket.tokens(now_ms=112_000) == 2**63 - 1
    (560, True)
    """

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._thousandths = burst * MS_PER_S
        self._updated_ms: int | None = None

    def tokens(self, now_ms: int) -> int:
        """Return the whole tokens at ``now_ms``, rounded down; <= 0: throttled."""
        return self.thousandths(now_ms) // MS_PER_S

    def thousandths(self, now_ms: int) -> int:
        """Return the thousandths of a token at ``now_ms``; refills. A time before adds nothing."""
        if self._updated_ms is None:
            self._updated_ms = now_ms
        elapsed_ms = max(now_ms - self._updated_ms, 0)
        refilled = self._thousandths + self.rate * elapsed_ms
        self._thousandths = min(refilled, self.burst * MS_PER_S)
        self._updated_ms += elapsed_ms
        return self._thousandths

    def spend(self, tokens: int, now_ms: int) -> None:
        """Take tokens, perhaps more than there are."""
        self._thousandths = self.thousandths(now_ms) - tokens * MS_PER_S

    def reconfigure(self, rate: int, burst: int, now_ms: int) -> None:
        """Go on with another rate and burst from ``now_ms``; tokens above the burst are lost."""
        self.thousandths(now_ms)
        self.rate, self.burst = rate, burst
        self._thousandths = min(self._thousandths, burst * MS_PER_S)

    def until_positive_ms(self, now_ms: int) -> int:
        """Return the fewest ms after which there are tokens again, 0 where there are."""
        thousandths = self.thousandths(now_ms)
        return 0 if thousandths > 0 else -thousandths // self.rate + 1

    def until_paid_ms(self, now_ms: int) -> int:
        """Return the fewest ms after which there is no debt: -K / R, 0 where there is none."""
        return max(-(self.thousandths(now_ms) // self.rate), 0)


RATE = "quota.partition.mutations.rate"
BURST = "quota.partition.mutations.burst"
BURST_NEVER_THROTTLES = "burst_never_throttles"
"""The burst is at its default, so the bucket cannot become empty in practice."""
KNOWN_LIMITS = (
    "Topics changed through ZooKeeper bypass the quota: nothing controls or rejects them.",
    "Topics that a broker creates by itself, on METADATA or FIND_COORDINATOR, bypass the quota.",
)
"""What the document says that it does not cover."""


class PartitionMutationQuota(Policy):
    """One bucket for everyone at the controller; no bucket while the rate is at its default."""

    apis = frozenset(MUTATION_APIS)
    scope = StateScope.CLUSTER
    keys: ClassVar[frozenset[str]] = frozenset({RATE, BURST})
    known_limits: ClassVar[tuple[str, ...]] = KNOWN_LIMITS

    def __init__(self, config: Mapping[str, object]) -> None:
        self._bucket: PartitionMutationBucket | None = None
        self._is_known = True
        self._configure(config, at_ms=None)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the name of the one bucket."""
        return "controller"

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on each topic; without a rate everything is admitted."""
        if self._bucket is None:
            return all_admitted(request)
        return self._decide(request, self._bucket)

    def observe(self, change: Change) -> None:
        """Take over other values of the cluster-wide configs; a new controller's bucket is full."""
        if isinstance(change, ConfigChanged):
            values = {**self._values, **change.values}
            config = {key: value for key, value in values.items() if value is not None}
            self._configure(config, change.at_ms)
        elif isinstance(change, ControllerFailedOver) and self._bucket is not None:
            self._bucket = PartitionMutationBucket(self._bucket.rate, self._bucket.burst)
            self._is_known = True

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        raise NotImplementedError

    def _read(self, config: KafkaConfig) -> None:
        """Read the policy's own keys."""

    def _configure(self, config: Mapping[str, object], at_ms: int | None) -> None:
        read = KafkaConfig(self.name, config, self.keys)
        rate = read.whole_number(RATE, default=LONG_MAX)
        burst = read.whole_number(BURST, default=LONG_MAX)
        self._read(read)
        self._values = dict(config)
        if rate == LONG_MAX:
            self._bucket = None
        elif self._bucket is None or at_ms is None:
            self._bucket, self._is_known = PartitionMutationBucket(rate, burst), True
        else:
            self._bucket.reconfigure(rate, burst, at_ms)

    def _spend(self, part: TopicPart, bucket: PartitionMutationBucket, now_ms: int) -> None:
        if math.isnan(part.amount):
            self._is_known = False
        else:
            bucket.spend(int(part.amount), now_ms)

    def _findings(self, bucket: PartitionMutationBucket) -> tuple[str, ...]:
        return (BURST_NEVER_THROTTLES,) if bucket.burst == LONG_MAX else ()


def remaining_tokens(bucket: PartitionMutationBucket, now_ms: int) -> float:
    """Return the tokens as the number that decisions carry: rounded near 2^63."""
    return bucket.thousandths(now_ms) / MS_PER_S


def throttle_int32(throttle_time_ms: int) -> int:
    """Return a throttle time as ``QuotaViolationException`` has room for it."""
    return min(throttle_time_ms, INT_MAX)


QUOTA_VIOLATED = "QUOTA_VIOLATED"
RETRY = "retry.quota.violation.exception"


class Kip599Early(PartitionMutationQuota):
    """Refused with an error, or held where the version does not know the error."""

    name = "kip599_early"
    title = "KIP-599, early revision: partition mutation quota"
    keys = PartitionMutationQuota.keys | {RETRY}
    is_retried: bool

    def _read(self, config: KafkaConfig) -> None:
        self.is_retried = config.boolean(RETRY, default=True)

    def _is_refusable(self, request: PolicyRequest) -> bool:
        return is_strict(request.api_name, request.api_version)

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        now_ms, refusable = request.at_ms, self._is_refusable(request)
        findings = dict.fromkeys(self._findings(bucket))
        topics, is_refused = [], False
        for part in request.topics:
            if part.other_error_code:
                topics.append(failed(part))
                continue
            if math.isnan(part.amount):
                findings[PARTITIONS_UNKNOWN] = None
            measured, wait_ms = remaining_tokens(bucket, now_ms), bucket.until_positive_ms(now_ms)
            if wait_ms == 0 and not self._is_known:
                findings[STATE_UNKNOWN] = None
            refusal = self._refusal(wait_ms) if refusable and wait_ms else None
            is_refused |= refusal is not None
            if refusal is None:
                self._spend(part, bucket, now_ms)
            topics.append(TopicDecision(part.topic, part.amount, refusal, measured))
        is_held = not refusable and any(not part.other_error_code for part in request.topics)
        return answered(
            request,
            tuple(topics),
            throttle_int32(bucket.until_positive_ms(now_ms)) if is_refused or is_held else 0,
            measured=remaining_tokens(bucket, now_ms),
            bound=float(bucket.rate),
            held=Held.NOTHING if is_refused else Held.NEXT_REQUEST,
            findings=tuple(findings),
        )

    def _refusal(self, wait_ms: int) -> Refusal:
        reason = (
            "The partition mutation quota has been violated; "
            f"try again in {throttle_int32(wait_ms)} ms."
        )
        return Refusal(QUOTA_VIOLATED, reason, is_retriable=self.is_retried)


class Kip599NoError(Kip599Early):
    """Everyone is treated as an old client.

    KIP-599, early revision, rejected alternative: throttle the admission without an error code.

    What ``kip599_early`` does with old versions, done with every version: the mutation is accepted
    and spends, and while K <= 0 the connection is held. Nobody is refused; decided as there
    otherwise. ``retry.quota.violation.exception`` has nothing to say and is no key.
    """

    name = "kip599_no_error"
    title = "KIP-599, rejected: throttled without an error"
    keys = PartitionMutationQuota.keys

    def _read(self, config: KafkaConfig) -> None:
        self.is_retried = False

    def _is_refusable(self, request: PolicyRequest) -> bool:
        return False


REQUEST_TIMEOUT = "request.timeout.ms"
REQUEST_TIMED_OUT = "request_timed_out"
"""The client gave up before the answer came, and may have sent the request again."""


class Kip599ExecutionThrottle(PartitionMutationQuota):
    """Accepted and registered at once, executed when earlier mutations are paid for.

    KIP-599, early revision, rejected alternative: accept at once, execute when there are tokens.

    Decided where the document is silent:

    - The configs and the bucket of ``kip599_early``. Mutations are executed in the order in which
      they were accepted, each as soon as those before it are paid for: -K / R after it came, K
      being what the earlier ones left.
    - The answer waits for the execution of the request's last topic; nobody is told of a throttle.
    - Longer than the client's ``request.timeout.ms`` (default 30 s), the client gives up: the
      finding ``request_timed_out``. The execution goes on.
    - A topic is registered when it is accepted, not when it is executed, so the retry of its
      creation gets TOPIC_ALREADY_EXISTS and spends nothing. So does every other creation of a topic
      that was accepted here and not deleted since; registered topics survive a failover.
    """

    name = "kip599_execution_throttle"
    title = "KIP-599, rejected: throttle the execution"
    keys = PartitionMutationQuota.keys | {REQUEST_TIMEOUT}
    request_timeout_ms: int

    def __init__(self, config: Mapping[str, object]) -> None:
        self._registered: set[str] = set()
        super().__init__(config)

    def _read(self, config: KafkaConfig) -> None:
        self.request_timeout_ms = config.whole_number(
            REQUEST_TIMEOUT, default=30_000, at_most=INT_MAX
        )

    def _decide(self, request: PolicyRequest, bucket: PartitionMutationBucket) -> Decision:
        now_ms, delay_ms = request.at_ms, 0
        findings = dict.fromkeys(self._findings(bucket))
        topics = []
        for part in request.topics:
            if part.other_error_code:
                topics.append(failed(part))
                continue
            if request.api_name == CREATE_TOPICS and part.topic in self._registered:
                topics.append(TopicDecision(part.topic, part.amount, _already_exists(part)))
                continue
            if math.isnan(part.amount):
                findings[PARTITIONS_UNKNOWN] = None
            if not self._is_known:
                findings[STATE_UNKNOWN] = None
            measured = remaining_tokens(bucket, now_ms)
            delay_ms = max(delay_ms, bucket.until_paid_ms(now_ms))
            self._spend(part, bucket, now_ms)
            self._register(request, part)
            topics.append(TopicDecision(part.topic, part.amount, measured=measured))
        if delay_ms > self.request_timeout_ms:
            findings[REQUEST_TIMED_OUT] = None
        return answered(
            request,
            tuple(topics),
            throttle_int32(delay_ms),
            measured=remaining_tokens(bucket, now_ms),
            bound=float(bucket.rate),
            held=Held.EXECUTION,
            findings=tuple(findings),
        )

    def _register(self, request: PolicyRequest, part: TopicPart) -> None:
        if request.validate_only:
            return
        if request.api_name == CREATE_TOPICS:
            self._registered.add(part.topic)
        elif request.api_name == DELETE_TOPICS:
            self._registered.discard(part.topic)


def _already_exists(part: TopicPart) -> Refusal:
    reason = f"Topic '{part.topic}' already exists."
    return Refusal("TOPIC_ALREADY_EXISTS", reason, is_retriable=False)
