"""What all policies on Kafka's dynamic client quotas share: their sensors and their configuration.

Source: Kafka's ``ClientQuotaManager`` and ``QuotaUtils``; the arithmetic is the audit's own
(:mod:`spark_jobs.quota`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from spark_jobs.quota.constants import SAMPLES
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.rate_profile import (
    RateProfile,
    profile_of_version,
    throttle_max_of_version,
)
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.whatif.policies.change import BrokerStarted, Change, ConfigChanged, QuotaChanged
from spark_jobs.whatif.policies.client_quotas import (
    QUOTAS,
    ClientQuotas,
    SensorKey,
    Sensors,
    configured_quotas,
)
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.kafka_config import (
    KafkaConfig,
    PolicyConfigError,
    refuse_while_running,
)
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest

BROKER_VERSION = "broker.version"
USES_ZOOKEEPER = "uses.zookeeper"

S = TypeVar("S")
T = TypeVar("T")


class ClientQuotaPolicy(Policy, Generic[S]):
    """A state of type S for each sensor: on its broker or, within a cluster, at the controller.

    A request's sensor, and with it ``state_key``, follows from the quotas heard of until then.
    """

    quota_types: ClassVar[Sequence[str]]
    # How many samples a sensor has, and for how many seconds one is: keys of the configuration.
    window_keys: ClassVar[tuple[str, str]]
    keys: ClassVar[frozenset[str]] = frozenset()
    expires: ClassVar[bool] = True

    def __init__(self, config: Mapping[str, object]) -> None:
        shared = (*self.window_keys, BROKER_VERSION, USES_ZOOKEEPER, QUOTAS)
        read = KafkaConfig(self.name, config, {*shared, *self.keys})
        self._read(read)
        number, size = self.window_keys
        self.samples = read.whole_number(number, default=SAMPLES, at_most=INT_MAX)
        self.window_ms = 1000 * read.whole_number(size, default=1, at_most=INT_MAX // 1000)
        rule = _level_rule(read)
        self._quotas = {t: ClientQuotas(self.name, t, rule) for t in self.quota_types}
        self._states: Sensors[S] = Sensors(self._new_state, self.expires)
        for change in configured_quotas(self.name, config, self.quota_types):
            self.observe(change)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the key of the request's sensor: its quota type and its tags."""
        sensor = self._sensor(request)
        if sensor is None:
            return str((self._kept_on(request), "", request.user, request.client_id or ""))
        return str(tuple(sensor[0]))

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on a request; without a quota on its broker nothing is recorded."""
        sensor = self._sensor(request)
        if sensor is None:
            return self._unbounded(request)
        key, bound = sensor
        return self._decide(request, self._states.at(key, request.at_ms), bound)

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of brokers that begin anew; the other keys are fixed."""
        if isinstance(change, ConfigChanged):
            refuse_while_running(self.name, change)
        if isinstance(change, BrokerStarted):
            self._states.forget(change.broker_id)
        if isinstance(change, BrokerStarted | QuotaChanged):
            for quotas in self._quotas.values():
                quotas.observe(change)

    def quota_type_of(self, request: PolicyRequest) -> str | None:
        """Return the quota that a request counts for, None where it is exempt."""
        return self.quota_types[0]

    def _read(self, config: KafkaConfig) -> None:
        """Read the policy's own keys."""

    def _new_state(self) -> S:
        raise NotImplementedError

    def _unbounded(self, request: PolicyRequest) -> Decision:
        """Return the decision on a request that no quota counts."""
        raise NotImplementedError

    def _decide(self, request: PolicyRequest, state: S, bound: float) -> Decision:
        raise NotImplementedError

    def _kept_on(self, request: PolicyRequest) -> int | None:
        return None if self.scope is StateScope.CLUSTER else request.broker_id

    def _sensor(self, request: PolicyRequest) -> tuple[SensorKey, float] | None:
        """Return the key of the request's sensor and its bound, None where no quota counts it."""
        quota_type = self.quota_type_of(request)
        if quota_type is None:
            return None
        quotas = self._quotas[quota_type]
        found = quotas.sensor_of(request.broker_id, request.user, request.client_id)
        if found is None:
            return None
        kept_on = self._kept_on(request)
        return SensorKey(kept_on, str(quota_type), found.user, found.client_id), found.bound


def _level_rule(config: KafkaConfig) -> LevelRule:
    """Return the brokers' rule of quota levels: KRaft's before 4.2 where nothing is said."""
    profile_of(config)
    uses_zookeeper = config.boolean(USES_ZOOKEEPER, default=False)
    return LevelRule.of_broker(config.text(BROKER_VERSION), uses_zookeeper=uses_zookeeper)


def profile_of(config: KafkaConfig) -> RateProfile:
    """Return the rate profile of ``broker.version``, the newest where nothing is said."""
    return _of_version(config, profile_of_version, RateProfile.RATE_3_8)


def throttle_max_of(config: KafkaConfig) -> int | None:
    """Return the longest throttle (ms) of ``broker.version``, the newest where nothing is said."""
    newest: int | None = INT_MAX
    return _of_version(config, throttle_max_of_version, newest)


def _of_version(config: KafkaConfig, rule: Callable[[str], T], newest: T) -> T:
    version = config.text(BROKER_VERSION)
    try:
        return newest if version is None else rule(version)
    except ValueError as error:
        raise PolicyConfigError(config.policy, BROKER_VERSION, version, f"{error}.") from error
