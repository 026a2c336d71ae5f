"""One set of alterations that has something of everything, and the quotas of its cluster."""

from __future__ import annotations

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaValue
from spark_jobs.quota.codes import DEFAULT

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"


def alteration(
    user: str | None = "alice",
    client_id: str | None = None,
    *,
    quota_type: str = PRODUCER,
    before: float | None = 50_000.0,
    after: float | None = 100_000.0,
    reason: str = "Because.",
) -> QuotaAlteration:
    return QuotaAlteration(quota_type, user, client_id, before, after, reason)


def value(
    user: str | None, client_id: str | None, quota_type: str, bound: float = 50_000.0
) -> QuotaValue:
    return QuotaValue(quota_type, user, client_id, bound)


EVERY_LEVEL = [
    alteration("alice"),
    alteration("alice", "etl", before=None),
    alteration("alice", DEFAULT, after=25_000.0),
    alteration(None, "etl", after=75_000.0),
    alteration(None, DEFAULT),
    alteration(DEFAULT),
]
PAIRS_OF_THE_DEFAULT_USER = [
    alteration(DEFAULT, "etl"),
    alteration(DEFAULT, DEFAULT, quota_type=CONSUMER),
]
EVERY_TYPE = [
    alteration("bob", quota_type=CONSUMER, after=None, reason="Unused for 14 days."),
    alteration("bob", quota_type=MUTATION, before=1.5, after=2.25),
    alteration("bob", quota_type=REQUEST, before=None, after=150.0),
    alteration("carol", after=None),
    alteration(None, "mirror", quota_type=CONSUMER, before=5e9, after=1e10),
    alteration(None, "mirror", quota_type=PRODUCER, before=None, after=3_000_000_000.0),
]
NAMES = [
    alteration("CN=tls-user", before=None),
    alteration("CN=Big Corp, O='it'"),
    alteration(None, 'say "hi"', reason='Asked for by "hi" ${who} {{ why }}.'),
    alteration(None, "line\nbreak\ttab", before=None),
    alteration(None, "grün ✓ 東京"),
    alteration(None, "a,b", before=None),
    alteration(None, "c:d"),
    alteration(None, "${e} %{f} {{ g }}"),
    alteration(None, "e\N{COMBINING ACUTE ACCENT}t"),
    alteration(None, "1e3"),
]
VALUES = [
    alteration("dave", after=0.0),
    alteration("dave", quota_type=CONSUMER, after=1_000.5),
    alteration("erin", before=0.0, after=10.0),
    alteration("frank", after=2.0**31),
    alteration("grace", quota_type=REQUEST, before=100.0, after=12.5),
    alteration("heidi", after=2.0**64),
    alteration("", before=None, after=10.0),
    alteration("alice", after=10.0),
]
ALTERATIONS = [*EVERY_LEVEL, *PAIRS_OF_THE_DEFAULT_USER, *EVERY_TYPE, *NAMES, *VALUES]
UNCHANGED = [
    value("alice", None, MUTATION, 2.5),
    value("carol", None, REQUEST, 30.0),
    value("ivan", "etl", PRODUCER),
    value(None, "other", CONSUMER),
]
IN_FORCE = [
    *UNCHANGED,
    *(value(*a.entity, a.quota_type, a.before) for a in ALTERATIONS[:-1] if a.before is not None),
]
"""What the cluster of :data:`ALTERATIONS` holds, the last of which says so a second time."""

# A cluster that Jikkou and rpk can work on: they read or replace everything that is in force.
JIKKOUS = [a for a in ALTERATIONS if a not in PAIRS_OF_THE_DEFAULT_USER]
REDPANDAS = [
    alteration("alice"),
    alteration("alice", "etl", before=None),
    alteration(DEFAULT, "etl"),
    alteration(DEFAULT, after=None),
    alteration(None, DEFAULT),
    alteration(None, "mirror", before=5e9, after=1e10),
    alteration("bob", quota_type=MUTATION, before=1.0, after=2.0),
    alteration("bob", quota_type=MUTATION, before=1.0, after=3.0),
    alteration("carol", quota_type=MUTATION, before=None, after=2.25),
    alteration("carol", quota_type=REQUEST, before=None, after=150.0),
    *NAMES[1:],
]


def in_force_of(alterations: list[QuotaAlteration]) -> list[QuotaValue]:
    """Return what a cluster holds that the alterations' ``before`` speaks of."""
    held = {(a.quota_type, a.entity): a.before for a in alterations}
    return [value(*e, t, before) for (t, e), before in held.items() if before is not None]
