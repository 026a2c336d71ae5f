"""All quota values of a cluster at one moment, by entity, and what alterations make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration

Entity = tuple[str | None, str | None]
"""User and client-id; None = no such part, ``<default>`` = the default."""
QuotaSet = Mapping[Entity, Mapping[str, float]]
"""By entity, by quota type; an entity without a value is not in it."""


@dataclass(frozen=True, slots=True)
class QuotaValue:
    """One entity's value of one quota type, set in the cluster (not in a broker's file)."""

    quota_type: str
    user: str | None
    client_id: str | None
    value: float


def quota_set(values: Iterable[QuotaValue]) -> QuotaSet:
    """Return ``values`` by entity, entities in order: no part first, then by name."""
    held: dict[Entity, dict[str, float]] = {}
    for value in values:
        held.setdefault((value.user, value.client_id), {})[value.quota_type] = value.value
    return _in_order(held)


def altered(held: QuotaSet, alterations: Iterable[QuotaAlteration]) -> QuotaSet:
    """Return what ``held`` becomes; what an alteration says of ``before`` is not looked at."""
    becomes = {entity: dict(values) for entity, values in held.items()}
    for change in alterations:
        values = becomes.setdefault(change.entity, {})
        if change.after is None:
            values.pop(change.quota_type, None)
        else:
            values[change.quota_type] = change.after
    return _in_order(becomes)


def _in_order(held: Mapping[Entity, Mapping[str, float]]) -> QuotaSet:
    entities = sorted(held, key=lambda entity: [(part is not None, part or "") for part in entity])
    return {entity: dict(sorted(held[entity].items())) for entity in entities if held[entity]}
