"""What the audit's tables tell of brokers' own configuration, under a policy's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


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
