"""Rules of ``demand``: what one sensor asked of one broker on a day."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import (
    at_least,
    known_quota_type,
    known_values,
    not_after,
    not_negative,
    once,
    suite_of,
)
from spark_jobs.quota.codes import QUOTA_LEVELS
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS

KEY = (*ENTITY_COLUMNS, "broker_id")

_COUNTS = (
    "unknown_amounts",
    "throttled_requests",
    "logged_throttle_time_ms",
    "muted_ms",
)
_RATES = ("rate_p50", "demand", "near_bound_share", "largest_amount")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``demand``."""
    return suite_of(
        "demand",
        known_quota_type(),
        known_values("known_quota_level", "quota_level", QUOTA_LEVELS),
        known_values("known_demand_basis", "demand_basis", ("peak_rate", "free_run")),
        once("one_row_per_sensor", "A sensor has one row on a broker.", *KEY),
        at_least("has_requests", "requests", 1, "A row is about at least one request."),
        at_least("has_seconds", "seconds", 1, "Traffic takes at least a second of the clock."),
        *(at_least(f"{c}_not_negative", c, 0, f"{c} is not negative.") for c in _COUNTS),
        *(not_negative(f"{c}_not_negative", c, f"{c} is not negative.") for c in _RATES),
        not_negative("bound_not_negative", "bound", "A bound is at least 0."),
        not_after("p50_is_not_above_p95", "rate_p50", "rate_p95", "Percentiles are in order."),
        not_after("p95_is_not_above_p99", "rate_p95", "rate_p99", "Percentiles are in order."),
        not_after("p99_is_not_above_max", "rate_p99", "rate_max", "Percentiles are in order."),
        not_after(
            "throttled_are_requests", "throttled_requests", "requests", "A part of the requests."
        ),
        not_after(
            "muted_is_throttled", "muted_ms", "throttle_time_ms", "Overlaps count once, no more."
        ),
    )
