"""Rules of ``rate_rollups``: one sensor in one minute, hour or day a row."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe

from expectations.suites.custom_expectations import ExpectColumnValuesToBeMultipleOf
from expectations.suites.rules import (
    at_least,
    known_quota_type,
    not_after,
    not_negative,
    once,
    rate_not_negative,
    rule,
    suite_of,
    throttling_not_negative,
)
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS

KEY = ("span_ms", *SENSOR_COLUMNS, "from_ms")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``rate_rollups``."""
    return suite_of(
        "rate_rollups",
        known_quota_type(),
        rule(
            gxe.ExpectColumnValuesToBeInSet,
            "known_span",
            "span_ms is a minute, an hour or a day.",
            column="span_ms",
            value_set=list(ROLLUP_SPANS_MS),
        ),
        once("one_row_per_span", "A sensor has one row per minute, hour and day.", *KEY),
        rule(
            ExpectColumnValuesToBeMultipleOf,
            "from_is_whole",
            "from_ms is the begin of a minute.",
            column="from_ms",
            divisor=ROLLUP_SPANS_MS[0],
        ),
        at_least("seconds_positive", "seconds", 1, "There is a row where there was traffic only."),
        not_negative("amount_not_negative", "amount", "An amount is not below 0."),
        rate_not_negative(),
        not_negative("bound_not_negative", "bound_min", "A bound is a number of at least 0."),
        not_after(
            "bounds_in_order", "bound_min", "bound_max", "The least bound is not the larger one."
        ),
        *throttling_not_negative(),
    )
