"""Rules of ``rates``: one sensor in one second a row."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe

from expectations.custom_expectations import ExpectColumnValuesToBeMultipleOf
from expectations.rules import (
    LARGEST_DOUBLE,
    at_least,
    known_quota_type,
    not_negative,
    once,
    rule,
    suite_of,
)

KEY = ("broker_id", "quota_type", "quota_user", "quota_client_id", "second_ms")


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
        rule(
            gxe.ExpectColumnValuesToBeBetween,
            "rate_not_negative",
            "A rate is not below 0 by more than rounding.",
            column="rate",
            min_value=-1e-3,
            max_value=LARGEST_DOUBLE,
        ),
        not_negative("bound_not_negative", "bound", "A quota's bound is a number of at least 0."),
        at_least(
            "throttled_requests_not_negative",
            "throttled_requests",
            0,
            "throttled_requests counts, so it is not negative.",
        ),
        at_least(
            "throttle_time_not_negative",
            "throttle_time_ms",
            0,
            "The sum of throttle times is not negative.",
        ),
    )
