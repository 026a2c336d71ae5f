"""How long an audit of an archive will take and how much room it needs, from measured audits.

Every coefficient is from ``docs/capacity.md``: one machine with two virtual cores, logs in JSON of
four sound brokers with 400 clients, 858,000 requests a GB. Single runs differ by a fifth; names
that repeat less make a larger warehouse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GB = 1e9

STARTING_CPU_S = 64.0
"""An audit of 0.1 GB, nearly all of it starting: of each day."""
INGEST_CPU_S_PER_GB = 12.6
REPLAY_CPU_S_PER_GB = 2.0
RECOMMEND_CPU_S_PER_GB = 13.0
OTHERS_CPU_S_PER_GB = 2.3
VALIDATE_CPU_S_PER_GB = 89.0
VALIDATE_IN_MEMORY_CPU_S_PER_GB = 23.0
"""While no table of the day has more than ``QUOTA_AUDIT_VALIDATE_IN_MEMORY_ROWS_MAX`` rows."""
WAREHOUSE_BYTES_PER_GB = 37e6


@dataclass(frozen=True, slots=True)
class AuditSize:
    """What an audit of an archive takes."""

    unpacked_bytes: float
    lines: float
    requests: float
    days: int
    cpu_s: float
    wall_s: tuple[float, float]  # every processor busy; one at a time
    processors: int
    warehouse_bytes: float


def audit_size(
    unpacked_bytes: float,
    lines: float,
    requests_of_days: Iterable[float],
    processors: int,
    validate_in_memory_rows_max: int,
) -> AuditSize:
    """Return what an audit takes of logs of so many bytes, whose days have so many requests."""
    days = list(requests_of_days)
    requests = sum(days)
    cpu_s = STARTING_CPU_S * len(days)
    for of_day in days:
        gb = unpacked_bytes / GB * (of_day / requests) if requests else 0.0
        is_small = of_day <= validate_in_memory_rows_max
        cpu_s += gb * (
            INGEST_CPU_S_PER_GB
            + REPLAY_CPU_S_PER_GB
            + RECOMMEND_CPU_S_PER_GB
            + OTHERS_CPU_S_PER_GB
            + (VALIDATE_IN_MEMORY_CPU_S_PER_GB if is_small else VALIDATE_CPU_S_PER_GB)
        )
    return AuditSize(
        unpacked_bytes=unpacked_bytes,
        lines=lines,
        requests=requests,
        days=len(days),
        cpu_s=cpu_s,
        wall_s=(cpu_s / processors, cpu_s),
        processors=processors,
        warehouse_bytes=unpacked_bytes / GB * WAREHOUSE_BYTES_PER_GB,
    )
