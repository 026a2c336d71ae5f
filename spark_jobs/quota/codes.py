"""The codes of the tables: what a column of a quota, a decision or a finding may hold."""

from __future__ import annotations

from enum import StrEnum


class QuotaType(StrEnum):
    """A quota by the name of its configuration key.

    Kafka: ``QuotaConfig`` (``server-common``), the keys that ``ALTER_CLIENT_QUOTAS`` takes.

    >>> str(QuotaType.PRODUCER_BYTE_RATE)
    'producer_byte_rate'
    """

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"


QUOTA_TYPES = tuple(map(str, QuotaType))
BANDWIDTH_TYPES = QUOTA_TYPES[:2]
"""Bytes per second, produced and fetched."""

DEFAULT = "<default>"
"""How Kafka's tools print the default entity; null means the entity has no such part."""

QUOTA_LEVELS = (
    "user+client-id",
    "user+default-client-id",
    "user",
    "default-user+client-id",
    "default-user+default-client-id",
    "default-user",
    "client-id",
    "default-client-id",
)

VERDICTS = (
    "agree",
    "under_throttled",
    "over_throttled",
    "wrongly_admitted",
    "wrongly_refused",
    "indeterminate",
    "no_quota",
)
WRONG_VERDICTS = ("under_throttled", "over_throttled", "wrongly_admitted", "wrongly_refused")

FINDING_KINDS = (
    "not_enforced",
    "under_throttled",
    "over_throttled",
    "wrongly_admitted",
    "wrongly_refused",
    "wrong_quota",
    "other_rate_profile",
    "state_lost",
    "counted_apart",
    "throttle_ignored",
    "lines_missing",
    "disagrees_with_metrics",
)
SEVERITIES = ("critical", "warning", "info")

CONFIGURED = "configured_quota"
PREVIOUS_QUOTA = "previous_quota"
OTHER_LEVEL = "other_level"
NOT_ENFORCED = "not_enforced"
OTHER_RATE_PROFILE = "other_rate_profile"
STATE_LOST = "state_lost"
COUNTED_APART = "counted_apart"
UNKNOWN_QUOTA = "unknown_quota"
LINES_MISSING = "lines_missing"
REQUEST_QUOTA = "request_quota"
CLIENT_IGNORES_THROTTLE = "client_ignores_throttle"

HYPOTHESES = (
    CONFIGURED,
    PREVIOUS_QUOTA,
    OTHER_LEVEL,
    UNKNOWN_QUOTA,
    NOT_ENFORCED,
    OTHER_RATE_PROFILE,
    STATE_LOST,
    COUNTED_APART,
    CLIENT_IGNORES_THROTTLE,
    REQUEST_QUOTA,
    LINES_MISSING,
)


def severity_rank(severity: str) -> int:
    """Return the rank of a severity, 0 for the worst; an unknown one is the least."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
