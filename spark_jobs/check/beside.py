"""What lies in an archive beside its request logs, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Beside:
    """Counts and names; ``events`` are known quota values and changes by their source."""

    server_logs: int = 0
    server_logs_read: int = 0
    server_log_brokers: frozenset[int] = frozenset()
    property_brokers: frozenset[int] = frozenset()
    snapshots: int = 0
    journals: int = 0
    versions: tuple[str, ...] = ()  # "1: 4.1.0"
    listeners: Mapping[int, frozenset[str]] = field(default_factory=dict)  # as configured
    events: Mapping[str, int] = field(default_factory=dict)
    throttle_records: int = 0
    starts: int = 0
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # for what an ingest would end
