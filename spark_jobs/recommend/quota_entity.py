"""The entity a quota is configured for, and whose traffic it would take over."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.warehouse.tables import DEFAULT


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A quota's owner as the tables spell it: None = no such part, ``<default>`` = the default."""

    user: str | None
    client_id: str | None

    @property
    def can_be_named(self) -> bool:
        """Return whether a command line can name it.

        Kafka's tools read an empty name as the default, and no argument can hold a zero byte.
        """
        names = [name for name in (self.user, self.client_id) if name is not None]
        return bool(names) and all(name and "\0" not in name for name in names)

    @property
    def is_default(self) -> bool:
        """Return whether clients without a value of their own follow it."""
        return DEFAULT in (self.user, self.client_id)


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
    """Return whether a user's own value would take over the user's sensor at ``other_level``.

    ``level`` is the one the user follows now. Kafka looks for the user's value before it looks for
    (default user, client-id), so clients held by the latter would move into the user's bucket.

    >>> takes_over("default-user", "default-user+client-id"), takes_over("user", "user+client-id")
    (True, False)
    """
    return level == "default-user" and other_level in (
        "default-user+client-id",
        "default-user+default-client-id",
    )
