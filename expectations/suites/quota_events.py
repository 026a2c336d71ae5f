"""Rules of ``quota_events``: one quota value set or removed a row."""

from __future__ import annotations

import great_expectations.expectations as gxe

from expectations.suites import rules

KEY = (
    "quota_type",
    "quota_user",
    "quota_client_id",
    "broker_id",
    "earliest_ms",
    "source_file",
    "source_line",
)


def suite() -> rules.Suite:
    """Return the expectations of ``quota_events``."""
    return rules.suite_of(
        "quota_events",
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.known_values("known_source", "source", rules.EVENT_SOURCES),
        rules.not_negative(
            "bound_not_negative", "bound", "A quota's bound is a number of at least 0."
        ),
        rules.not_after(
            "effect_interval_in_order",
            "earliest_ms",
            "latest_ms",
            "The moment of effect lies in [earliest_ms, latest_ms], so earliest <= latest.",
        ),
        rules.has_rows(
            "has_quota_events",
            "At least one quota is configured; without any there is nothing to audit.",
            severity="warning",
        ),
        rules.rule(
            gxe.ExpectColumnValuesToNotBeInSet,
            "bound_not_zero",
            "No bound is 0: such a quota lets nothing through for good.",
            severity="warning",
            column="bound",
            value_set=[0],
        ),
    )
