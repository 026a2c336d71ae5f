"""Rules of ``log_gaps``: a gap between two correlation ids of a client instance a row."""

from __future__ import annotations

from expectations.suites import rules

KEY = ("user", "client_id", "correlation_id_before", "correlation_id_after", "after_ms")

CAUSES = ("lost_lines", "never_read", "other_broker")


def suite() -> rules.Suite:
    """Return the expectations of ``log_gaps``."""
    return rules.suite_of(
        "log_gaps",
        rules.at_least("missing_from_1", "missing", 1, "A gap is of at least one request."),
        rules.known_values("known_cause", "cause", CAUSES),
        rules.not_after(
            "gap_in_order",
            "after_ms",
            "before_ms",
            "The missing requests were recorded in [after_ms, before_ms], so after <= before.",
        ),
        rules.at_least("request_bytes_positive", "request_bytes_max", 1, "A request has a size."),
        rules.at_least(
            "response_bytes_not_negative", "response_bytes_max", 0, "A size is not negative."
        ),
        rules.at_least(
            "handler_time_not_negative", "handler_time_us_max", 0, "A time is not negative."
        ),
    )
