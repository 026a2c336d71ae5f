"""What today's quotas on bytes and on request time share: one rate per sensor, and one config.

Source: Kafka's ``ClientQuotaManager`` and ``QuotaUtils``; the arithmetic is the audit's own
(:mod:`spark_jobs.quota`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import SAMPLES
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile, profile_of_version
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.whatif.policies.change import BrokerStarted, Change, ConfigChanged, QuotaChanged
from spark_jobs.whatif.policies.client_quotas import (
    QUOTAS,
    BoundSensor,
    ClientQuotas,
    SensorKey,
    Sensors,
    configured_quotas,
)
from spark_jobs.whatif.policies.config_error import PolicyConfigError
from spark_jobs.whatif.policies.decision import ADMITTED, Decision
from spark_jobs.whatif.policies.kafka_config import (
    KafkaConfig,
    refuse_while_running,
)
from spark_jobs.whatif.policies.policy import Policy, StateScope
from spark_jobs.whatif.policies.request import PolicyRequest

BROKER_VERSION = "broker.version"
USES_ZOOKEEPER = "uses.zookeeper"
RATE_PROFILE = "rate.profile"
BROKER_KEYS = frozenset({BROKER_VERSION, USES_ZOOKEEPER, QUOTAS})
WINDOW_NUM = "quota.window.num"
WINDOW_SIZE_SECONDS = "quota.window.size.seconds"


def level_rule(config: KafkaConfig) -> LevelRule:
    """Return the brokers' rule of quota levels: KRaft's before 4.2 where nothing is said."""
    _profile_of_version(config)
    uses_zookeeper = config.boolean(USES_ZOOKEEPER, default=False)
    return LevelRule.of_broker(config.text(BROKER_VERSION), uses_zookeeper=uses_zookeeper)


def rate_profile(config: KafkaConfig) -> RateProfile:
    """Return ``rate.profile``, by default that of ``broker.version``, or else the newest."""
    return config.choice(RATE_PROFILE, default=_profile_of_version(config))


class WindowedRateQuota(Policy):
    """A rate per sensor and broker, and the throttle that brings it back to its bound.

    A request's sensor, and with it ``state_key``, follows from the quotas heard of until then.
    """

    scope = StateScope.SENSOR
    broker_keys = frozenset(
        {BROKER_VERSION, USES_ZOOKEEPER, RATE_PROFILE, WINDOW_NUM, WINDOW_SIZE_SECONDS}
    )
    quota_types: Sequence[QuotaType]

    def __init__(self, config: Mapping[str, object]) -> None:
        read = KafkaConfig(self.name, config, {*self.broker_keys, *BROKER_KEYS})
        self.profile = rate_profile(read)
        self.samples = read.whole_number(WINDOW_NUM, default=SAMPLES, at_most=INT_MAX)
        window_s = read.whole_number(WINDOW_SIZE_SECONDS, default=1, at_most=INT_MAX // 1000)
        self.window_ms = 1000 * window_s
        rule = level_rule(read)
        self._quotas = {t: ClientQuotas(self.name, t, rule) for t in self.quota_types}
        self._rates = Sensors(lambda: Rate(self.profile, self.samples, self.window_ms))
        for change in configured_quotas(self.name, config, self.quota_types):
            self.observe(change)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the broker, the quota type and the tags of the request's sensor."""
        quota_type = self.quota_type_of(request)
        sensor = None if quota_type is None else self._sensor(quota_type, request)
        if quota_type is None or sensor is None:
            client = (request.broker_id, "", request.user, request.client_id or "")
            return str(client)
        return str(tuple(self._key(quota_type, request, sensor)))

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on a request; without a quota on its broker nothing is recorded."""
        quota_type = self.quota_type_of(request)
        sensor = None if quota_type is None else self._sensor(quota_type, request)
        if quota_type is None or sensor is None:
            return ADMITTED
        rate = self._rates.at(self._key(quota_type, request, sensor), request.at_ms)
        return self._decide(request, rate, sensor.bound)

    def observe(self, change: Change) -> None:
        """Take notice of quotas and of brokers that begin anew; the other keys are fixed."""
        if isinstance(change, ConfigChanged):
            refuse_while_running(self.name, change)
        if isinstance(change, BrokerStarted):
            self._rates.forget(change.broker_id)
        if isinstance(change, BrokerStarted | QuotaChanged):
            for quotas in self._quotas.values():
                quotas.observe(change)

    def quota_type_of(self, request: PolicyRequest) -> QuotaType | None:
        """Return the quota that a request counts for, None where it is exempt."""
        raise NotImplementedError

    def _decide(self, request: PolicyRequest, rate: Rate, bound: float) -> Decision:
        raise NotImplementedError

    def _sensor(self, quota_type: QuotaType, request: PolicyRequest) -> BoundSensor | None:
        quotas = self._quotas[quota_type]
        return quotas.sensor_of(request.broker_id, request.user, request.client_id)

    def _key(self, quota_type: QuotaType, request: PolicyRequest, sensor: BoundSensor) -> SensorKey:
        return SensorKey(request.broker_id, str(quota_type), sensor.user, sensor.client_id)


def _profile_of_version(config: KafkaConfig) -> RateProfile:
    version = config.text(BROKER_VERSION)
    try:
        return RateProfile.RATE_3_8 if version is None else profile_of_version(version)
    except ValueError as error:
        raise PolicyConfigError(config.policy, BROKER_VERSION, version, f"{error}.") from error
