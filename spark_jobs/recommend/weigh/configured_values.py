"""Entities and the values configured for them at the end of a day: what a proposal changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.apply.changes.quota_alteration import QuotaValue
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.warehouse.days import DAY_MS

STATIC = "static"
UNLIMITED = 1e15
"""From here on a bound limits nothing: a petabyte per second; tools write 2^63 − 1."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A quota's owner as the tables spell it: None = no such part, ``<default>`` = the default."""

    user: str | None
    client_id: str | None

    @property
    def can_be_named(self) -> bool:
        """Return True if a command line can name it.

        Kafka's tools read an empty name as the default, and no argument can hold a zero byte.
        """
        names = [name for name in (self.user, self.client_id) if name is not None]
        return bool(names) and all(name and "\0" not in name for name in names)

    @property
    def is_default(self) -> bool:
        """Return True if clients without a value of their own follow it."""
        return DEFAULT in (self.user, self.client_id)


ValueKey = tuple[str, QuotaEntity]
"""Quota type and entity: whose value of what."""


def configured_entity(level: str, quota_user: str, quota_client_id: str) -> QuotaEntity:
    """Return the entity whose quota a sensor follows, from the level that matched.

    >>> configured_entity("default-client-id", "", "etl")
    QuotaEntity(user=None, client_id='<default>')
    """
    own = own_entity(level, quota_user, quota_client_id)
    user = DEFAULT if "default-user" in level.split("+") else own.user
    client_id = DEFAULT if "default-client-id" in level.split("+") else own.client_id
    return QuotaEntity(user, client_id)


def own_entity(level: str, quota_user: str, quota_client_id: str) -> QuotaEntity:
    """Return the entity that names exactly the clients of a sensor, at the sensor's level.

    A value there wins over the default the sensor follows now. Such a client has a bucket of its
    own already, so no traffic changes places, with one exception: see :func:`takes_over`.

    >>> own_entity("default-client-id", "", "etl"), own_entity("user", "alice", "")
    (QuotaEntity(user=None, client_id='etl'), QuotaEntity(user='alice', client_id=None))
    """
    parts = level.split("+")
    return QuotaEntity(
        quota_user if "user" in parts or "default-user" in parts else None,
        quota_client_id if "client-id" in parts or "default-client-id" in parts else None,
    )


def takes_over(level: str, other_level: str) -> bool:
    """Return True if a user's own value would take over the user's sensor at ``other_level``.

    ``level`` is the one the user follows now. Kafka looks for the user's value before it looks for
    (default user, client-id), so clients held by the latter would move into the user's bucket.

    >>> takes_over("default-user", "default-user+client-id"), takes_over("user", "user+client-id")
    (True, False)
    """
    return level == "default-user" and other_level in (
        "default-user+client-id",
        "default-user+default-client-id",
    )


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """One entity's value; ``is_dynamic`` = set in the cluster, so that deleting it removes it."""

    bound: float
    is_dynamic: bool


class ConfiguredValues:
    """The values of all entities at one moment."""

    def __init__(self, quota_changes: Iterable[Mapping[str, Any]], at_ms: int) -> None:
        """Take the rows of ``quota_changes`` that hold at ``at_ms``; the newest one wins."""
        self._known: set[ValueKey] = set()
        self._values: dict[ValueKey, ConfiguredValue] = {}
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

    def explicit(self) -> dict[ValueKey, float]:
        """Return the values in force that are set in the cluster, by quota type and entity."""
        return {key: value.bound for key, value in self._values.items() if value.is_dynamic}

    def own(self, quota_type: str, entity: QuotaEntity) -> ConfiguredValue | None:
        """Return the entity's value if the timeline has one in force."""
        return self._values.get((quota_type, entity))


def values_in_cluster(quota_changes: Iterable[Mapping[str, Any]], at_ms: int) -> list[QuotaValue]:
    """Return the values set in the cluster at ``at_ms``, from rows of ``quota_changes``.

    What a broker's file says does not hide them, however late it was read.
    """
    dynamic = [row for row in quota_changes if row["source"] != STATIC]
    values = ConfiguredValues(dynamic, at_ms).explicit()
    return [
        QuotaValue(quota_type, entity.user, entity.client_id, bound)
        for (quota_type, entity), bound in values.items()
    ]


def end_of_day_ms(at_ms: int) -> int:
    """Return the last millisecond of the UTC day of ``at_ms``.

    >>> end_of_day_ms(86_400_000)
    172799999
    """
    return (at_ms // DAY_MS + 1) * DAY_MS - 1
