"""Rules of ``throttle_records``: one amount above its quota, as the broker logged it, a row."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("source_file", "source_line")


def suite() -> rules.Suite:
    """Return the expectations of ``throttle_records``."""
    return rules.suite_of(
        "throttle_records",
        rules.once("one_row_per_line", "A line of a file is one record.", *KEY),
        rules.within_the_day("at_ms"),
        rules.known_quota_type(),
        rules.at_least("throttle_not_negative", "throttle_time_ms", 0, "A delay is not negative."),
        rules.not_empty("source_file"),
        rules.at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
    )
