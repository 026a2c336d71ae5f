"""Which tables are validated together, after which step."""

from __future__ import annotations

STAGES = {
    "ingested": (
        "requests",
        "quarantine",
        "files",
        "brokers",
        "quota_events",
        "log_gaps",
        "broker_starts",
        "throttle_records",
    ),
    "replayed": (
        "quota_changes",
        "located_changes",
        "decisions",
        "agreement",
        "rates",
        "quota_state",
        "topic_inventory",
    ),
    "judged": ("findings", "rate_rollups", "demand", "change_results", "recommendations"),
    "whatif": ("whatif",),
    "applied": ("applied_changes",),
}
"""Tables by stage, in the order in which they are checked and shown."""

REQUIRED = frozenset({"requests", "files", "brokers"})
"""Every audited day has rows of these; a partition of another table is absent when it is empty."""
