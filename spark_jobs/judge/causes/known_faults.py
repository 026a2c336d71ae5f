"""Enforcement faults of released brokers that a finding can be matched with."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.quota.codes import BANDWIDTH_TYPES


@dataclass(frozen=True, slots=True)
class KnownFault:
    """One fault of released brokers."""

    key: str
    kind: str
    quota_type: str
    fixed_in: tuple[int, int]
    description: str


KNOWN_FAULTS = (
    KnownFault(
        key="KAFKA-14351",
        kind="not_enforced",
        quota_type="controller_mutation_rate",
        fixed_in=(3, 5),
        description="KRaft controllers before 3.5 never enforce controller_mutation_rate",
    ),
    *(
        KnownFault(
            key="KAFKA-9658",
            kind="removed_but_enforced",
            quota_type=quota_type,
            fixed_in=(2, 5),
            description="brokers before 2.5 keep a removed quota in force until they are "
            "restarted or the client was idle for an hour",
        )
        for quota_type in BANDWIDTH_TYPES
    ),
)


def known_fault(kind: str, quota_type: str, version: str | None) -> KnownFault | None:
    """Return the released fault that a finding of a broker of ``version`` looks like, if any."""
    if version is None:
        return None
    major, minor = (int(part) for part in version.split(".")[:2])
    return next(
        (
            fault
            for fault in KNOWN_FAULTS
            if (fault.kind, fault.quota_type) == (kind, quota_type)
            and (major, minor) < fault.fixed_in
        ),
        None,
    )
