"""Which values are configured when the audited day ends: what a proposal changes, and undoes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.apply.changes.quota_set import QuotaValue
from spark_jobs.recommend.quota_entity import QuotaEntity

DAY_MS = 86_400_000
STATIC = "static"
UNLIMITED = 1e15
"""From here on a bound limits nothing: a petabyte per second; tools write 2^63 − 1."""


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """One entity's value; ``is_dynamic`` = set in the cluster, so that deleting it removes it."""

    bound: float
    is_dynamic: bool


class ConfiguredValues:
    """The values of all entities at one moment."""

    def __init__(self, quota_changes: Iterable[Mapping[str, Any]], at_ms: int) -> None:
        """Take the rows of ``quota_changes`` that hold at ``at_ms``; the newest one wins."""
        self._known: set[tuple[str, QuotaEntity]] = set()
        self._values: dict[tuple[str, QuotaEntity], ConfiguredValue] = {}
        rows = sorted(quota_changes, key=lambda r: (r["valid_from_ms"], r["bound"], r["source"]))
        for row in rows:
            key = (row["quota_type"], QuotaEntity(row["quota_user"], row["quota_client_id"]))
            self._known.add(key)
            until_ms = row["valid_until_ms"]
            if row["valid_from_ms"] <= at_ms and (until_ms is None or at_ms < until_ms):
                self._values[key] = ConfiguredValue(row["bound"], row["source"] != STATIC)

    def of(
        self, quota_type: str, entity: QuotaEntity, last_seen_bound: float
    ) -> ConfiguredValue | None:
        """Return the entity's value, None where it was removed.

        An entity the timeline never heard of keeps the bound its last decision was made with.
        """
        key = (quota_type, entity)
        if key not in self._known:
            return ConfiguredValue(last_seen_bound, is_dynamic=True)
        return self._values.get(key)

    def explicit(self) -> dict[tuple[str, QuotaEntity], float]:
        """Return the values in force that are set in the cluster, by quota type and entity."""
        return {key: value.bound for key, value in self._values.items() if value.is_dynamic}

    def own(self, quota_type: str, entity: QuotaEntity) -> ConfiguredValue | None:
        """Return the entity's value if the timeline has one in force."""
        return self._values.get((quota_type, entity))

    def in_cluster(self) -> list[QuotaValue]:
        """Return the values in force that are set in the cluster."""
        return [
            QuotaValue(quota_type, entity.user, entity.client_id, value.bound)
            for (quota_type, entity), value in self._values.items()
            if value.is_dynamic
        ]


def values_in_cluster(quota_changes: Iterable[Mapping[str, Any]], at_ms: int) -> list[QuotaValue]:
    """Return the values set in the cluster at ``at_ms``, from rows of ``quota_changes``.

    What a broker's file says does not hide them, however late it was read.
    """
    dynamic = [row for row in quota_changes if row["source"] != STATIC]
    return ConfiguredValues(dynamic, at_ms).in_cluster()


def end_of_day_ms(at_ms: int) -> int:
    """Return the last millisecond of the UTC day of ``at_ms``.

    >>> end_of_day_ms(86_400_000)
    172799999
    """
    return (at_ms // DAY_MS + 1) * DAY_MS - 1
