"""A change of one client quota, and what changes make of all quota values of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

PROPOSED = "proposed"
Entity = tuple[str | None, str | None]
"""User and client-id; None = no such part, ``<default>`` = the default."""

QuotaKey = tuple[str, str | None, str | None]
"""Quota type, user, client-id."""

QuotaSet = Mapping[Entity, Mapping[str, float]]
"""By entity, by quota type; an entity without a value is not in it."""


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """One entity's value of one quota type, before and after.

    Entity parts are as in the tables: None = no such part, ``<default>`` = the default one. A value
    None is none of the entity's own: there was none, or it is to be deleted. ``before`` is what the
    evidence saw in the cluster.
    """

    quota_type: str
    user: str | None
    client_id: str | None
    before: float | None
    after: float | None
    reason: str = ""

    @property
    def entity(self) -> Entity:
        """Return user and client-id."""
        return self.user, self.client_id

    @property
    def key(self) -> QuotaKey:
        """Return quota type, user and client-id of the value it changes."""
        return self.quota_type, self.user, self.client_id

    def taken_back(self) -> QuotaAlteration:
        """Return the alteration that undoes this one."""
        return replace(self, before=self.after, after=self.before)


def value_text(value: float | None) -> str:
    """Return a quota value as ``kafka-configs.sh`` takes it, ``none`` for no value.

    >>> value_text(1_250_000.0), value_text(2.5), value_text(None)
    ('1250000', '2.5', 'none')
    """
    if value is None:
        return "none"
    return str(int(value)) if value.is_integer() else repr(value)


def proposed_alterations(recommendations: Iterable[Mapping[str, Any]]) -> list[QuotaAlteration]:
    """Return the alterations of the proposed rows of ``tables.RECOMMENDATIONS``, in their order.

    ``previous`` of a row is the entity's own value in the cluster; ``proposed`` None removes it.
    """
    return [
        QuotaAlteration(
            row["quota_type"],
            row["quota_user"],
            row["quota_client_id"],
            row["previous"],
            row["proposed"],
            row["reason"],
        )
        for row in recommendations
        if row["status"] == PROPOSED
    ]


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
    """Return ``held`` after the alterations, whose ``before`` is not looked at."""
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
