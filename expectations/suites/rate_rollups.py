"""Rules of ``rate_rollups``: one sensor in one minute, hour or day a row."""

from __future__ import annotations

import great_expectations.expectations as gxe

from expectations.suites import rules
from expectations.suites.custom_expectations import ExpectColumnValuesToBeMultipleOf
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.warehouse.tables import ROLLUP_SPANS_MS

KEY = ("span_ms", *SENSOR_COLUMNS, "from_ms")


def suite() -> rules.Suite:
    """Return the expectations of ``rate_rollups``."""
    return rules.suite_of(
        "rate_rollups",
        rules.known_quota_type(),
        rules.rule(
            gxe.ExpectColumnValuesToBeInSet,
            "known_span",
            "span_ms is a minute, an hour or a day.",
            column="span_ms",
            value_set=list(ROLLUP_SPANS_MS),
        ),
        rules.once("one_row_per_span", "A sensor has one row per minute, hour and day.", *KEY),
        rules.rule(
            ExpectColumnValuesToBeMultipleOf,
            "from_is_whole",
            "from_ms is the begin of a minute.",
            column="from_ms",
            divisor=ROLLUP_SPANS_MS[0],
        ),
        rules.at_least(
            "seconds_positive", "seconds", 1, "There is a row where there was traffic only."
        ),
        rules.not_negative("amount_not_negative", "amount", "An amount is not below 0."),
        rules.rate_not_negative(),
        rules.not_negative("bound_not_negative", "bound_min", "A bound is a number of at least 0."),
        rules.not_after(
            "bounds_in_order", "bound_min", "bound_max", "The least bound is not the larger one."
        ),
        *rules.throttling_not_negative(),
    )
