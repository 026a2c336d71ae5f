"""Rules of ``quota_events``: one quota value set or removed a row."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe

from expectations.suites.rules import (
    EVENT_SOURCES,
    entity_has_a_part,
    known_quota_type,
    known_values,
    not_after,
    not_negative,
    rule,
    suite_of,
)

KEY = (
    "quota_type",
    "quota_user",
    "quota_client_id",
    "broker_id",
    "earliest_ms",
    "source_file",
    "source_line",
)


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``quota_events``."""
    return suite_of(
        "quota_events",
        known_quota_type(),
        entity_has_a_part(),
        known_values("known_source", "source", EVENT_SOURCES),
        not_negative("bound_not_negative", "bound", "A quota's bound is a number of at least 0."),
        not_after(
            "effect_interval_in_order",
            "earliest_ms",
            "latest_ms",
            "The moment of effect lies in [earliest_ms, latest_ms], so earliest <= latest.",
        ),
        rule(
            gxe.ExpectTableRowCountToBeBetween,
            "has_quota_events",
            "At least one quota is configured; without any there is nothing to audit.",
            severity="warning",
            min_value=1,
        ),
        rule(
            gxe.ExpectColumnValuesToNotBeInSet,
            "bound_not_zero",
            "No bound is 0: such a quota lets nothing through for good.",
            severity="warning",
            column="bound",
            value_set=[0],
        ),
    )
