"""Which sensor a client is recorded on, and its bound, as the changes of quotas come in.

The precedence is the audit's own (:mod:`default_quota_callback`); here it
follows the changes one by one instead of looking back over a day. States of sensors are kept by
their key: made when first touched, forgotten when idle.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from spark_jobs.ingest.quota_sources.events import QuotaEntity
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.resolve.timeline.default_quota_callback import (
    EnabledLevels,
    enabled_level,
    quota_limit,
    quota_metric_tags,
)
from spark_jobs.resolve.timeline.enabled_levels import LevelRule
from spark_jobs.whatif.policies.change import BrokerStarted, Change, QuotaChanged
from spark_jobs.whatif.policies.kafka_config import PolicyConfigError

S = TypeVar("S")


class SensorKey(NamedTuple):
    """Where a state is kept: on a broker (None: with the one controller), for which tags."""

    broker_id: int | None
    quota_type: str
    user: str
    client_id: str


class Sensors(Generic[S]):
    """States by key; what the documents describe does not expire.

    >>> sensors = Sensors(list)
    >>> key = SensorKey(1, "producer_byte_rate", "alice", "")
    >>> sensors.at(key, now_ms=0).append("a record")
    >>> sensors.at(key, now_ms=1_000), sensors.at(key, now_ms=10_000_000)
    (['a record'], [])
    """

    def __init__(self, make: Callable[[], S], expires: bool = True) -> None:
        self._make = make
        self._expires_after_ms = EXPIRED_AFTER_MS if expires else math.inf
        self._states: dict[SensorKey, S] = {}
        self._touched_ms: dict[SensorKey, int] = {}

    def at(self, key: SensorKey, now_ms: int) -> S:
        """Return the state of a sensor that is about to record."""
        touched_ms = self._touched_ms.get(key)
        if touched_ms is None or now_ms - touched_ms > self._expires_after_ms:
            self._states[key] = self._make()
        self._touched_ms[key] = now_ms
        return self._states[key]

    def forget(self, broker_id: int | None = None) -> None:
        """Forget every state, or those of one broker."""
        for key in [k for k in self._states if broker_id is None or k.broker_id == broker_id]:
            del self._states[key], self._touched_ms[key]

    def __iter__(self) -> Iterator[tuple[SensorKey, S]]:
        return iter(sorted(self._states.items(), key=lambda item: str(item[0])))


QUOTAS = "quotas"
"""Configuration key: a list of quotas that hold from the beginning.

Each has ``user`` or ``client-id`` or both (``<default>`` is the default one), perhaps
``broker-id``, and a bound by the name of its quota type.
"""
_ENTITY_KEYS = ("user", "client-id", "broker-id")


@dataclass(frozen=True, slots=True)
class BoundSensor:
    """The tags of a client's sensor, and the quota in force on it (NaN: none)."""

    user: str
    client_id: str
    bound: float


@dataclass(slots=True)
class _BrokerQuotas:
    """What one broker has heard of."""

    values: dict[str, dict[QuotaEntity, float]] = field(default_factory=lambda: defaultdict(dict))
    levels: EnabledLevels = EnabledLevels.NONE

    def copy(self) -> _BrokerQuotas:
        copied = _BrokerQuotas(levels=self.levels)
        for quota_type, of_type in self.values.items():
            copied.values[quota_type] = dict(of_type)
        return copied

    def set(self, change: QuotaChanged, rule: LevelRule) -> None:
        of_type = self.values[change.quota_type]
        entity = (change.user, change.client_id)
        if change.bound is not None:
            of_type[entity] = change.bound
            self.levels |= enabled_level(entity)
        else:
            of_type.pop(entity, None)
        if not rule.until_restart:
            self.begin_levels_anew()

    def begin_levels_anew(self) -> None:
        self.levels = EnabledLevels.NONE
        for of_type in self.values.values():
            for entity in of_type:
                self.levels |= enabled_level(entity)


class ClientQuotas:
    """The quotas of one type on every broker, after all changes heard so far.

    Kafka: ``ClientQuotaManager.updateQuota`` and its ``DefaultQuotaCallback``.

    >>> quotas = ClientQuotas("broker_bandwidth", QuotaType.PRODUCER_BYTE_RATE)
    >>> quotas.sensor_of(1, "alice", "svc") is None
    True
    >>> quotas.observe(QuotaChanged(0, "producer_byte_rate", "alice", None, 1024.0))
    >>> quotas.sensor_of(1, "alice", "svc")
    BoundSensor(user='alice', client_id='', bound=1024.0)
    """

    def __init__(self, policy: str, quota_type: str, rule: LevelRule | None = None) -> None:
        self.policy = policy
        self.quota_type = str(quota_type)
        self._rule = rule or LevelRule()
        self._heard_types = self._rule.types_with(self.quota_type)
        self._everywhere = _BrokerQuotas()
        self._on_broker: dict[int, _BrokerQuotas] = {}
        self._resolved: dict[tuple[int, str, str], BoundSensor | None] = {}

    def observe(self, change: Change) -> None:
        """Take notice of a quota or a start; raises PolicyConfigError on what no quota can be."""
        if isinstance(change, BrokerStarted):
            self._of_broker(change.broker_id).begin_levels_anew()
            self._resolved.clear()
        if not isinstance(change, QuotaChanged):
            return
        check_quota(self.policy, change)
        if change.quota_type not in self._heard_types:
            return
        if change.broker_id is None:
            for each in (self._everywhere, *self._on_broker.values()):
                each.set(change, self._rule)
        else:
            self._of_broker(change.broker_id).set(change, self._rule)
        self._resolved.clear()

    def sensor_of(self, broker_id: int, user: str, client_id: str | None) -> BoundSensor | None:
        """Return the sensor of a client, None where the broker has no quota of the type.

        A client without client-id has the empty one.
        """
        key = (broker_id, user, client_id or "")
        if key not in self._resolved:
            self._resolved[key] = self._resolve(*key)
        return self._resolved[key]

    def _resolve(self, broker_id: int, user: str, client_id: str) -> BoundSensor | None:
        quotas = self._on_broker.get(broker_id, self._everywhere)
        if quotas.levels == EnabledLevels.NONE:
            return None
        values = quotas.values[self.quota_type]
        tags = quota_metric_tags(quotas.levels, user, client_id, values)
        entity = quota_limit(tags, values)
        return BoundSensor(*tags, math.nan if entity is None else values[entity])

    def _of_broker(self, broker_id: int) -> _BrokerQuotas:
        if broker_id not in self._on_broker:
            self._on_broker[broker_id] = self._everywhere.copy()
        return self._on_broker[broker_id]


def configured_quotas(
    policy: str, config: Mapping[str, object], quota_types: Collection[str]
) -> list[QuotaChanged]:
    """Return the quotas under the key ``quotas`` as changes at the beginning of time.

    ``quota_types`` are the policy's own, which it is told of; other quotas of Kafka may stand
    beside them. Raises PolicyConfigError naming the quota and the rule it breaks.
    """
    found = config.get(QUOTAS)
    if found is None:
        return []
    if not isinstance(found, list | tuple):
        raise PolicyConfigError(policy, QUOTAS, found, "it must be a list of quotas.")
    changes = []
    for i, quota in enumerate(found):
        changes += _configured_quota(policy, f"{QUOTAS}[{i}]", quota, quota_types)
    entities = [(c.quota_type, c.user, c.client_id, c.broker_id) for c in changes]
    for i, entity in enumerate(entities):
        if entity in entities[:i]:
            raise PolicyConfigError(policy, QUOTAS, entity, "an entity has one quota of a type.")
    return changes


def check_quota(policy: str, change: QuotaChanged, key: str | None = None) -> None:
    """Raise PolicyConfigError unless the change is one that a broker would take."""
    key = key or f"quota {change.quota_type} of ({change.user}, {change.client_id})"
    if change.user is None and change.client_id is None:
        rule = "a quota belongs to a user, to a client-id, or to both."
        raise PolicyConfigError(policy, key, (None, None), rule)
    bound = change.bound
    if bound is not None and not (math.isfinite(bound) and bound >= 0):
        raise PolicyConfigError(policy, key, bound, "a bound is a finite number of at least 0.")


def _configured_quota(
    policy: str, key: str, quota: object, quota_types: Collection[str]
) -> list[QuotaChanged]:
    if not isinstance(quota, Mapping):
        raise PolicyConfigError(policy, key, quota, "a quota is a table of an entity and a bound.")
    known = [*_ENTITY_KEYS, *dict.fromkeys([*map(str, QuotaType), *map(str, quota_types)])]
    for name in quota:
        if name not in known:
            rule = f"there is no such key; the keys are {', '.join(known)}."
            raise PolicyConfigError(policy, f"{key}.{name}", quota[name], rule)
    bounds = {name: quota[name] for name in quota if name not in _ENTITY_KEYS}
    if not bounds:
        rule = f"a quota has a value: {' or '.join(map(str, quota_types))}."
        raise PolicyConfigError(policy, key, dict(quota), rule)
    changes = []
    for quota_type, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            rule = "a bound is a finite number of at least 0."
            raise PolicyConfigError(policy, f"{key}.{quota_type}", bound, rule)
        entity = (_name(policy, key, quota, "user"), _name(policy, key, quota, "client-id"))
        change = QuotaChanged(0, quota_type, *entity, float(bound), _broker(policy, key, quota))
        check_quota(policy, change, key)
        changes.append(change)
    return changes


def _name(policy: str, key: str, quota: Mapping[str, object], part: str) -> str | None:
    found = quota.get(part)
    if found is None or (isinstance(found, str) and found):
        return found
    raise PolicyConfigError(policy, f"{key}.{part}", found, "a name is a text, and not empty.")


def _broker(policy: str, key: str, quota: Mapping[str, object]) -> int | None:
    found = quota.get("broker-id")
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    raise PolicyConfigError(policy, f"{key}.broker-id", found, "a broker id is a whole number.")
