"""Rules of ``agreement``: one sensor's throttles, log against replay."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import known_quota_type, not_after, not_negative, once, suite_of
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = SENSOR_COLUMNS


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``agreement``."""
    return suite_of(
        "agreement",
        known_quota_type(),
        once("one_row_per_sensor", "A sensor has one row.", *KEY),
        not_negative("throttles_not_negative", "throttles", "A count is not negative."),
        not_negative("residual_not_negative", "residual_max_ms", "A distance is not negative."),
        not_after(
            "same_decisions_are_decisions", "same_decision", "decisions", "A part of the decisions."
        ),
        not_after("throttles_are_decisions", "throttles", "decisions", "A part of the decisions."),
        not_after(
            "nearest_are_near", "within_1ms", "within_5ms", "What is within 1 ms is within 5 ms."
        ),
        not_after("near_are_throttles", "within_5ms", "throttles", "A part of the throttles."),
        not_after("proven_are_decisions", "proven", "decisions", "A part of the decisions."),
    )
