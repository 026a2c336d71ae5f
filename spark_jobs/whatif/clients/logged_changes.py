"""What the audit's tables tell policies of: quotas, starts, failovers, brokers' configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_jobs.whatif.policies.change import (
    BrokerStarted,
    Change,
    ControllerFailedOver,
    QuotaChanged,
    TopicAdded,
)

Row = Mapping[str, Any]


def quota_changes(rows: Iterable[Row]) -> list[QuotaChanged]:
    """Return the changes that rows of ``tables.QUOTA_CHANGES`` stand for, in time order.

    A value that ends when the next of its entity begins is replaced, not removed.
    """
    listed = list(rows)
    begins = {(_entity(row), row["valid_from_ms"]) for row in listed}
    changes = []
    for row in listed:
        changes.append(QuotaChanged(row["valid_from_ms"], *_entity(row)[:3], row["bound"],
                                    row["broker_id"]))  # fmt: skip
        until_ms = row["valid_until_ms"]
        if until_ms is not None and (_entity(row), until_ms) not in begins:
            changes.append(QuotaChanged(until_ms, *_entity(row)[:3], None, row["broker_id"]))
    return sorted(changes, key=lambda change: (change.at_ms, change.bound is not None))


def broker_starts(rows: Iterable[Row]) -> list[BrokerStarted]:
    """Return the starts that rows of ``tables.BROKER_STARTS`` tell of, in time order."""
    starts = [BrokerStarted(row["started_ms"], row["broker_id"]) for row in rows]
    return sorted(starts, key=lambda start: (start.at_ms, start.broker_id))


def failovers(decided_mutations: Iterable[Row]) -> list[ControllerFailedOver]:
    """Return a failover where another broker began to decide on mutations; rows in time order."""
    found, controller = [], None
    for row in decided_mutations:
        if controller is not None and row["broker_id"] != controller:
            found.append(ControllerFailedOver(row["recorded_estimate_us"] // 1000))
        controller = row["broker_id"]
    return found


def changes_until(
    changes: Iterable[Change], end_ms: float = math.inf, broker_id: int | None = None
) -> list[Change]:
    """Return the changes before ``end_ms``, on one broker where one is named, in time order."""
    heard = [
        change
        for change in changes
        if change.at_ms < end_ms and (broker_id is None or _concerns(change, broker_id))
    ]
    return sorted(heard, key=lambda change: change.at_ms)


def _concerns(change: Change, broker_id: int) -> bool:
    if isinstance(change, QuotaChanged | TopicAdded | BrokerStarted):
        return change.broker_id in (None, broker_id)
    return True


def _entity(row: Row) -> tuple[str, str | None, str | None, int | None]:
    return row["quota_type"], row["quota_user"], row["quota_client_id"], row["broker_id"]


def with_values(
    changes: Sequence[Change], values: Mapping[tuple[str, str | None, str | None], float | None]
) -> list[Change]:
    """Return the changes had each of ``values`` been set before all of them; None is no value.

    ``changes`` are in time order, and whatever they say of these entities is left out. A value is
    one of a quota type, a user and a client-id as ``tables.QUOTA_CHANGES`` spells them.
    """
    first_ms = changes[0].at_ms if changes else 0
    others = [
        c
        for c in changes
        if not (isinstance(c, QuotaChanged) and (c.quota_type, c.user, c.client_id) in values)
    ]
    set_first = [
        QuotaChanged(first_ms, *entity, bound)
        for entity, bound in values.items()
        if bound is not None
    ]
    return [*set_first, *others]


def broker_config(row: Row) -> dict[str, object]:
    """Return the configuration in a row of ``tables.BROKERS``, by a policy's keys.

    >>> broker_config({"broker_id": 1, "version": "3.7.2", "uses_zookeeper": False,
    ...     "samples": 11, "window_ms": 2000, "controller_samples": 11,
    ...     "controller_window_ms": 1000})["quota.window.size.seconds"]
    2
    """
    found: dict[str, object] = {
        "uses.zookeeper": row["uses_zookeeper"],
        "quota.window.num": row["samples"],
        "quota.window.size.seconds": row["window_ms"] // 1000,
        "controller.quota.window.num": row["controller_samples"],
        "controller.quota.window.size.seconds": row["controller_window_ms"] // 1000,
    }
    if row["version"] is not None:
        found["broker.version"] = row["version"]
    return found


def config_of_all(rows: Sequence[Row]) -> dict[str, object]:
    """Return the keys and values on which all brokers' configurations agree."""
    configs = [broker_config(row) for row in rows]
    if not configs:
        return {}
    first = configs[0].items()
    return {key: found for key, found in first if all(c.get(key) == found for c in configs)}
