"""How long an audit of an archive will take and how much room it needs, from measured audits.

Every coefficient is from ``docs/capacity.md``: one machine with two virtual cores, logs in JSON of
four sound brokers with 400 clients, 858,000 requests a GB. Single runs differ by a fifth; names
that repeat less make a larger warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9

STARTING_CPU_S = 48.0
"""An audit of 0.1 GB, nearly all of it starting: of each day."""
INGEST_CPU_S_PER_GB = 10.8
REPLAY_CPU_S_PER_GB = 1.4
RECOMMEND_CPU_S_PER_GB = 9.3
OTHERS_CPU_S_PER_GB = 1.6
VALIDATE_CPU_S_PER_GB = 23.0
"""Where no rule is broken."""
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
    unpacked_bytes: float, lines: float, requests: float, days: int, processors: int
) -> AuditSize:
    """Return the time and room that an audit of so many days of logs takes; sizes are unpacked."""
    gb = unpacked_bytes / GB if requests else 0.0
    cpu_s = STARTING_CPU_S * days + gb * (
        INGEST_CPU_S_PER_GB
        + REPLAY_CPU_S_PER_GB
        + RECOMMEND_CPU_S_PER_GB
        + OTHERS_CPU_S_PER_GB
        + VALIDATE_CPU_S_PER_GB
    )
    return AuditSize(
        unpacked_bytes=unpacked_bytes,
        lines=lines,
        requests=requests,
        days=days,
        cpu_s=cpu_s,
        wall_s=(cpu_s / processors, cpu_s),
        processors=processors,
        warehouse_bytes=unpacked_bytes / GB * WAREHOUSE_BYTES_PER_GB,
    )
