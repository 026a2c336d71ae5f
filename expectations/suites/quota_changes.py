"""Rules of ``quota_changes``: one interval a row in which one quota value held."""

from __future__ import annotations

from expectations.suites import rules
from expectations.suites.custom_expectations import ExpectRowNotToStartBeforePrevious
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS

KEY = (*ENTITY_COLUMNS, "broker_id", "valid_from_ms")


def suite() -> rules.Suite:
    """Return the expectations of ``quota_changes``."""
    return rules.suite_of(
        "quota_changes",
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.known_values("known_source", "source", rules.EVENT_SOURCES),
        rules.not_negative(
            "bound_not_negative", "bound", "A quota's bound is a number of at least 0."
        ),
        rules.not_after(
            "interval_not_empty",
            "valid_from_ms",
            "valid_until_ms",
            "An interval ends after it begins: valid_from_ms < valid_until_ms.",
            strictly=True,
        ),
        rules.rule(
            ExpectRowNotToStartBeforePrevious,
            "intervals_do_not_overlap",
            "An entity has one value of a quota type at a time on a broker: its intervals do not "
            "overlap.",
            column_list=[
                "quota_type",
                "quota_user",
                "quota_client_id",
                "broker_id",
                "valid_from_ms",
                "valid_until_ms",
            ],
            order_by="valid_from_ms",
            starts="valid_from_ms",
            previous_ends="valid_until_ms",
        ),
    )
