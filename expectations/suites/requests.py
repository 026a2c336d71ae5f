"""Rules of ``requests``: one logged request a row."""

from __future__ import annotations

from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from expectations.suites.custom_expectations import ExpectMiddleColumnToLieBetween

KEY = ("source_file", "source_line", "broker_id")

_PHASES = (
    "total_time_us",
    "request_queue_time_us",
    "handler_time_us",
    "remote_time_us",
    "response_queue_time_us",
    "send_time_us",
)


def suite() -> rules.Suite:
    """Return the expectations of ``requests``."""
    phases = [
        rules.at_least(
            f"{name}_not_negative", name, 0, f"{name} is not negative: phases take time."
        )
        for name in _PHASES
    ]
    return rules.suite_of(
        "requests",
        rules.has_rows(
            "has_requests",
            "There is at least one request: an empty archive is an error, not an empty report.",
        ),
        rules.rows_as_counted(
            "requests_in_files",
            "As many rows as files says were read: no request was lost on the way.",
        ),
        rules.once(
            "one_row_per_line",
            "A line of a file is one request.",
            "source_file",
            "source_line",
        ),
        rules.once(
            "no_line_read_twice",
            "No logged request is there twice, as when a rotated file was archived under two "
            "names: its amounts would be counted twice.",
            "broker_id",
            "connection",
            "correlation_id",
            "api_key",
            "log_time_ms",
            "total_time_us",
            "request_queue_time_us",
        ),
        rules.within_the_day("log_time_ms"),
        rules.rule(
            ExpectMiddleColumnToLieBetween,
            "estimate_in_recorded_interval",
            "The estimate of the record time lies in [recorded_earliest_ms, recorded_latest_ms].",
            column_list=["recorded_earliest_ms", "recorded_estimate_us", "recorded_latest_ms"],
            middle_units=1000,
        ),
        rules.rule(
            ExpectMiddleColumnToLieBetween,
            "recorded_before_logged",
            "Recording ends when the line was logged at the latest (its time is cut to ms).",
            column_list=["recorded_earliest_ms", "recorded_latest_ms", "log_time_ms"],
            slack=1,
        ),
        rules.not_empty("connection"),
        rules.not_empty("principal"),
        rules.not_empty("source_file"),
        rules.at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1."),
        rules.at_least(
            "api_version_not_negative", "api_version", 0, "api_version is not negative."
        ),
        rules.at_least(
            "throttle_not_negative", "throttle_time_ms", 0, "throttle_time_ms is not negative."
        ),
        rules.at_least(
            "request_bytes_positive", "request_bytes", 1, "A request has at least a byte."
        ),
        rules.at_least(
            "response_bytes_not_negative", "response_bytes", 0, "No response is below empty."
        ),
        rules.has_value(
            "known_bytes_are_there",
            "request_bytes",
            "Where request_bytes_known is true, request_bytes has a value.",
            row_condition=Column("request_bytes_known") == True,  # noqa: E712
        ),
        *phases,
        rules.always(
            "most_sizes_known",
            "request_bytes_known",
            True,
            "The size of at least 95 % of the produces could be computed from the log.",
            severity="warning",
            mostly=0.95,
            row_condition=Column("api_name") == "PRODUCE",
        ),
        rules.has_value(
            "most_client_software_known",
            "software_name",
            "At least 90 % of the requests say which client library sent them.",
            severity="info",
            mostly=0.9,
        ),
    )
