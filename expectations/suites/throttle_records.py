"""Rules of ``throttle_records``: one amount above its quota, as the broker logged it, a row."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import (
    at_least,
    known_quota_type,
    not_empty,
    once,
    suite_of,
    within_the_day,
)

KEY = ("source_file", "source_line")


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``throttle_records``."""
    return suite_of(
        "throttle_records",
        once("one_row_per_line", "A line of a file is one record.", *KEY),
        within_the_day("at_ms"),
        known_quota_type(),
        at_least("throttle_not_negative", "throttle_time_ms", 0, "A delay is not negative."),
        not_empty("source_file"),
        at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
