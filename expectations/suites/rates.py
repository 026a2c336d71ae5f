"""Rules of ``rates``: one sensor in one second a row."""

from __future__ import annotations

from expectations.suites import rules
from expectations.suites.custom_expectations import ExpectColumnValuesToBeMultipleOf
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = (*SENSOR_COLUMNS, "second_ms")


def suite() -> rules.Suite:
    """Return the expectations of ``rates``."""
    return rules.suite_of(
        "rates",
        rules.known_quota_type(),
        rules.once("one_row_per_second", "A sensor has one row per second.", *KEY),
        rules.rule(
            ExpectColumnValuesToBeMultipleOf,
            "second_is_whole",
            "second_ms is the begin of a second: a multiple of 1000.",
            column="second_ms",
            divisor=1000,
        ),
        rules.not_negative("amount_not_negative", "amount", "A second's amount is not below 0."),
        rules.rate_not_negative(),
        rules.not_negative(
            "bound_not_negative", "bound", "A quota's bound is a number of at least 0."
        ),
        *rules.throttling_not_negative(),
    )
