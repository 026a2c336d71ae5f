"""Everything a check found, and whether the archive can be audited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spark_jobs.check.auditable import QuotaShare, controller_listeners
from spark_jobs.check.clock import PLAUSIBLE_MS, ClockAnswer
from spark_jobs.check.hours import hours_of_brokers
from spark_jobs.check.looked_at import Beside, FileLook, Looked
from spark_jobs.check.missing import BLOCKS, Missing
from spark_jobs.warehouse.days import HOUR_MS
from spark_jobs.wording.numbers import iso

# All are from docs/capacity.md: one machine with two virtual cores, logs in JSON of four sound
# brokers with 400 clients, 858,000 requests a GB. Single runs differ by a fifth; names that repeat
# less make a larger warehouse.
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


@dataclass(frozen=True, slots=True)
class Check:
    """A look at an archive; ``losses`` is None where lost requests were not looked for."""

    archive: str
    cluster: str
    looked: Looked
    beside: Beside
    shares: tuple[QuotaShare, ...]
    clock: ClockAnswer
    losses: Mapping[str, int] | None
    size: AuditSize
    missing: tuple[Missing, ...]

    @property
    def can_be_audited(self) -> bool:
        """Return True if something of the archive can be audited as it is."""
        return not any(each.weight == BLOCKS for each in self.missing)


def as_json(check: Check) -> dict[str, Any]:
    """Return the check as one object of JSON's types; times are UTC."""
    looked, beside = check.looked, check.beside
    span = looked.span_ms
    return {
        "archive": check.archive,
        "cluster": check.cluster,
        "can_be_audited": check.can_be_audited,
        "missing": [asdict(each) for each in check.missing],
        "looked_at": {
            "every_line": looked.is_whole,
            "lines": looked.lines,
            "requests": looked.requests,
            "other": sum(f.other for f in looked.files),
            "quarantined": dict(sorted(looked.quarantined.items())),
            "unpacked_bytes": sum(f.unpacked_bytes for f in looked.files),
            "first": iso(span[0]) if span and span[0] in PLAUSIBLE_MS else None,
            "last": iso(span[1]) if span and span[1] in PLAUSIBLE_MS else None,
            "files_passed_by": len(looked.passed_by),
        },
        "request_logs": [_file(f) for f in looked.files],
        "copies": list(looked.copies),
        "hours": [
            {
                "broker_id": broker,
                "seen": [iso(h * HOUR_MS) for h in sorted(hours.seen)],
                "not_looked_at": [iso(h * HOUR_MS) for h in sorted(hours.unread)],
                "missing": [[iso(a * HOUR_MS), iso(b * HOUR_MS)] for a, b in hours.missing],
            }
            for broker, hours in hours_of_brokers(looked).items()
        ],
        "beside": {
            "server_logs": beside.server_logs,
            "server_logs_read": beside.server_logs_read,
            "server_log_brokers": sorted(beside.server_log_brokers),
            "server_properties_brokers": sorted(beside.property_brokers),
            "snapshots": beside.snapshots,
            "quota_changes_files": beside.journals,
            "versions": list(beside.versions),
            "quota_events": dict(beside.events),
            "throttle_records": beside.throttle_records,
            "broker_starts": beside.starts,
            "ignored_files": list(beside.ignored),
            "warnings": list(beside.warnings),
        },
        "clock": asdict(check.clock)
        | {
            "ahead_minutes": [
                {"broker_id": broker, "minutes": minutes}
                for broker, minutes in check.clock.ahead_minutes.items()
            ]
        },
        "lost_requests": None if check.losses is None else dict(sorted(check.losses.items())),
        "listeners": sorted(listeners_of(looked), key=lambda one: one["listener"]),
        "quotas": [asdict(each) for each in check.shares],
        "audit": asdict(check.size),
    }


def _file(look: FileLook) -> dict[str, Any]:
    return {
        "source_file": look.source_file,
        "broker_id": look.broker_id,
        "size_bytes": look.size_bytes,
        "every_line": look.is_whole,
        "lines": look.lines,
        "requests": look.requests,
        "other": look.other,
        "quarantined": dict(sorted(look.quarantined.items())),
        "formats": dict(look.formats),
        "levels": dict(look.levels),
        "envelopes": sorted(look.envelopes),
        "cut": look.cut,
        "refused": look.refused,
    }


def listeners_of(looked: Looked) -> list[dict[str, Any]]:
    """Return each listener's brokers, protocols and requests by kind, the most frequent first."""
    groups = looked.groups
    controllers = controller_listeners(groups)
    protocols = {pair for look in looked.files for pair in look.protocols}
    found = []
    for listener in dict.fromkeys(g.listener for g in groups):
        own = {g: n for g, n in groups.items() if g.listener == listener}
        apis: Counter[str] = Counter()
        for group, n in own.items():
            apis[group.api_name] += n
        found.append(
            {
                "listener": listener,
                "security_protocols": sorted(p for name, p in protocols if name == listener),
                "brokers": sorted({g.broker_id for g in own}),
                "is_controllers": listener in controllers,
                "requests": dict(apis.most_common()),
            }
        )
    return found
