"""Rules of ``demand``: what one sensor asked of one broker on a day."""

from __future__ import annotations

from expectations.suites import rules
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


def suite() -> rules.Suite:
    """Return the expectations of ``demand``."""
    return rules.suite_of(
        "demand",
        rules.known_quota_type(),
        rules.known_values("known_quota_level", "quota_level", QUOTA_LEVELS),
        rules.known_values("known_demand_basis", "demand_basis", ("peak_rate", "free_run")),
        rules.once("one_row_per_sensor", "A sensor has one row on a broker.", *KEY),
        rules.at_least("has_requests", "requests", 1, "A row is about at least one request."),
        rules.at_least(
            "has_seconds", "seconds", 1, "Traffic takes at least a second of the clock."
        ),
        *(rules.at_least(f"{c}_not_negative", c, 0, f"{c} is not negative.") for c in _COUNTS),
        *(rules.not_negative(f"{c}_not_negative", c, f"{c} is not negative.") for c in _RATES),
        rules.not_negative("bound_not_negative", "bound", "A bound is at least 0."),
        rules.not_after(
            "p50_is_not_above_p95", "rate_p50", "rate_p95", "Percentiles are in order."
        ),
        rules.not_after(
            "p95_is_not_above_p99", "rate_p95", "rate_p99", "Percentiles are in order."
        ),
        rules.not_after(
            "p99_is_not_above_max", "rate_p99", "rate_max", "Percentiles are in order."
        ),
        rules.not_after(
            "throttled_are_requests", "throttled_requests", "requests", "A part of the requests."
        ),
        rules.not_after(
            "muted_is_throttled", "muted_ms", "throttle_time_ms", "Overlaps count once, no more."
        ),
    )
