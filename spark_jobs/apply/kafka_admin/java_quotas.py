"""Quota entities and alterations as the Java objects of Kafka's Admin client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spark_jobs.apply.changes.quota_admin import Entity, QuotaKey
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.quota.codes import DEFAULT

# ``ClientQuotaEntity.USER`` and ``CLIENT_ID``.
_TYPES = ("user", "client-id")


class JavaQuotas:
    """Makes and reads the objects of ``org.apache.kafka.common.quota`` in a JVM."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._quota = jvm.org.apache.kafka.common.quota

    def entity(self, entity: Entity) -> Any:
        """Return a ``ClientQuotaEntity``; a default is a null name."""
        entries = self._jvm.java.util.HashMap()
        for entity_type, name in _parts(entity):
            entries.put(entity_type, None if name == DEFAULT else name)
        return self._quota.ClientQuotaEntity(entries)

    def filter_of(self, entity: Entity) -> Any:
        """Return the ``ClientQuotaFilter`` of this very entity."""
        component = self._quota.ClientQuotaFilterComponent
        components = self._jvm.java.util.ArrayList()
        for entity_type, name in _parts(entity):
            is_default = name == DEFAULT
            components.add(
                component.ofDefaultEntity(entity_type)
                if is_default
                else component.ofEntity(entity_type, name)
            )
        return self._quota.ClientQuotaFilter.containsOnly(components)

    def alteration(self, entity: Entity, alterations: Iterable[QuotaAlteration]) -> Any:
        """Return the ``ClientQuotaAlteration`` of all changes of one entity; null removes."""
        operations = self._jvm.java.util.ArrayList()
        for one in alterations:
            value = None if one.after is None else float(one.after)
            operations.add(self._quota.ClientQuotaAlteration.Op(one.quota_type, value))
        return self._quota.ClientQuotaAlteration(self.entity(entity), operations)

    def values(self, entity: Entity, described: Any) -> Iterator[tuple[QuotaKey, float]]:
        """Yield the values that a description (entity → type → value) has of ``entity``."""
        of_entity = described.get(self.entity(entity))
        for quota_type, value in (of_entity or {}).items():
            yield (str(quota_type), *entity), float(value)


def _parts(entity: Entity) -> Iterator[tuple[str, str]]:
    for entity_type, name in zip(_TYPES, entity, strict=True):
        if name is not None:
            yield entity_type, name
