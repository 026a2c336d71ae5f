"""Which quota a client falls under: Kafka's ``ClientQuotaManager.DefaultQuotaCallback``.

Two steps, as there: the quotas in force choose the metric tags, which name the client's sensor;
the tags alone then choose the bound. An empty client-id shows the difference: a client without
one may be sent to the sensor of its (user, client-id) level and is then bound by its user's quota.

Users are compared by name here; Kafka URL-encodes them first (``Sanitizer``), one to one.
"""

from __future__ import annotations

import enum
from collections.abc import Container

from spark_jobs.ingest.quota_sources.events import QuotaEntity
from spark_jobs.quota.codes import DEFAULT, QUOTA_LEVELS


class EnabledLevels(enum.IntFlag):
    """Levels that any quota of a type was set at. Kafka: ``QuotaTypes``."""

    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


# A client may call itself "<default>"; Kafka encodes that name, so it never is the default entity.
_NOBODY = "\x00"


def enabled_level(entity: QuotaEntity) -> EnabledLevels:
    """Return the level a quota of ``entity`` enables. Kafka: ``ClientQuotaManager.updateQuota``."""
    user, client_id = entity
    if user is None:
        return EnabledLevels.CLIENT_ID
    return EnabledLevels.USER if client_id is None else EnabledLevels.USER_CLIENT_ID


def candidate_entities(user: str, client_id: str) -> tuple[QuotaEntity, ...]:
    """Return the eight entities a client's quota may be set at, in the order of QUOTA_LEVELS.

    >>> candidate_entities("alice", "svc")[:2]
    (('alice', 'svc'), ('alice', '<default>'))
    """
    user, client_id = _named(user), _named(client_id)
    return (
        (user, client_id),
        (user, DEFAULT),
        (user, None),
        (DEFAULT, client_id),
        (DEFAULT, DEFAULT),
        (DEFAULT, None),
        (None, client_id),
        (None, DEFAULT),
    )


def quota_level(entity: QuotaEntity) -> str:
    """Return the name of the level of ``entity``, one of ``codes.QUOTA_LEVELS``."""
    user, client_id = entity
    parts = (
        None if user is None else "default-user" if user == DEFAULT else "user",
        None if client_id is None else "default-client-id" if client_id == DEFAULT else "client-id",
    )
    level = "+".join(part for part in parts if part is not None)
    assert level in QUOTA_LEVELS, entity
    return level


def entity_of_level(level: str, user: str, client_id: str) -> QuotaEntity:
    """Return the entity of ``level`` that a client falls under.

    >>> entity_of_level("default-user+client-id", "alice", "etl")
    ('<default>', 'etl')
    """
    return next(e for e in candidate_entities(user, client_id) if quota_level(e) == level)


def quota_metric_tags(
    enabled: EnabledLevels, user: str, client_id: str, quotas: Container[QuotaEntity]
) -> tuple[str, str]:
    """Return the (user, client-id) tags of the sensor a client's amounts are recorded on.

    ``quotas`` are the entities that hold a quota of the type now. With quotas at one level only,
    the tags follow from the level, whether or not a quota matches the client.

    Kafka: ``DefaultQuotaCallback.quotaMetricTags``.
    """
    if enabled in (EnabledLevels.NONE, EnabledLevels.CLIENT_ID):
        return "", client_id
    if enabled == EnabledLevels.USER:
        return user, ""
    if enabled == EnabledLevels.USER_CLIENT_ID:
        return user, client_id
    for entity in candidate_entities(user, client_id)[:6]:
        if entity in quotas:
            return (user, "") if entity[1] is None else (user, client_id)
    return "", client_id


def quota_limit(tags: tuple[str, str], quotas: Container[QuotaEntity]) -> QuotaEntity | None:
    """Return the entity whose quota bounds the sensor with these tags, None if there is none.

    Kafka: ``DefaultQuotaCallback.quotaLimit``.
    """
    user, client_id = tags
    candidates = candidate_entities(user, client_id)
    shortlist: tuple[QuotaEntity, ...]
    if user and client_id:
        shortlist = (candidates[0], candidates[1], candidates[3], candidates[4])
    elif user:
        shortlist = (candidates[2], candidates[5])
    elif client_id:
        shortlist = (candidates[6], candidates[7])
    else:
        return None
    return next((entity for entity in shortlist if entity in quotas), None)


def _named(name: str) -> str:
    return _NOBODY if name == DEFAULT else name
