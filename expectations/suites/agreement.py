"""Rules of ``agreement``: one sensor's throttles, log against replay."""

from __future__ import annotations

from expectations.suites import rules
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = SENSOR_COLUMNS


def suite() -> rules.Suite:
    """Return the expectations of ``agreement``."""
    return rules.suite_of(
        "agreement",
        rules.known_quota_type(),
        rules.once("one_row_per_sensor", "A sensor has one row.", *KEY),
        rules.not_negative("throttles_not_negative", "throttles", "A count is not negative."),
        rules.not_negative(
            "residual_not_negative", "residual_max_ms", "A distance is not negative."
        ),
        rules.not_after(
            "same_decisions_are_decisions", "same_decision", "decisions", "A part of the decisions."
        ),
        rules.not_after(
            "throttles_are_decisions", "throttles", "decisions", "A part of the decisions."
        ),
        rules.not_after(
            "nearest_are_near", "within_1ms", "within_5ms", "What is within 1 ms is within 5 ms."
        ),
        rules.not_after(
            "near_are_throttles", "within_5ms", "throttles", "A part of the throttles."
        ),
        rules.not_after("proven_are_decisions", "proven", "decisions", "A part of the decisions."),
    )
