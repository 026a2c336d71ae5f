"""Rules of ``rates``: one sensor in one second a row."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.custom_expectations import ExpectColumnValuesToBeMultipleOf
from expectations.suites.rules import (
    known_quota_type,
    not_negative,
    once,
    rate_not_negative,
    rule,
    suite_of,
    throttling_not_negative,
)
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = (*SENSOR_COLUMNS, "second_ms")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``rates``."""
    return suite_of(
        "rates",
        known_quota_type(),
        once("one_row_per_second", "A sensor has one row per second.", *KEY),
        rule(
            ExpectColumnValuesToBeMultipleOf,
            "second_is_whole",
            "second_ms is the begin of a second: a multiple of 1000.",
            column="second_ms",
            divisor=1000,
        ),
        not_negative("amount_not_negative", "amount", "A second's amount is not below 0."),
        rate_not_negative(),
        not_negative("bound_not_negative", "bound", "A quota's bound is a number of at least 0."),
        *throttling_not_negative(),
    )
