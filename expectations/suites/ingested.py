"""Suites of the stage ``ingested``: what was read from an archive."""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from expectations.suites.custom_expectations import (
    ExpectFirstColumnToBeSumOfTheRest,
    ExpectMiddleColumnToLieBetween,
    ExpectShareOfSumsToBeAtMost,
)
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS

_PHASES = (
    "total_time_us",
    "request_queue_time_us",
    "handler_time_us",
    "remote_time_us",
    "response_queue_time_us",
    "send_time_us",
)
# lines_read is the sum of the others, which a rule of its own says.
_COUNTS = ("bytes_read", "requests", "quarantined", "other", "other_days", "duplicated")
_VERSION_SOURCES = ("option", "archive", "detected", "unknown")
_SIZES = ("samples", "window_ms", "controller_samples", "controller_window_ms")
CAUSES = ("lost_lines", "never_read", "other_broker")
SOURCES = ("server_log", "inferred")


def requests() -> rules.TableSuite:
    """Return the suite of ``requests``: one logged request a row."""
    return rules.suite_of(
        "requests",
        ("source_file", "source_line", "broker_id"),
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
        rules.source_line_from_1(),
        *rules.integers_not_negative("api_version"),
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
        *rules.integers_not_negative(*_PHASES, because="is not negative: phases take time."),
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


def quarantine() -> rules.TableSuite:
    """Return the suite of ``quarantine``: one unreadable line a row; empty is the good case."""
    return rules.suite_of(
        "quarantine",
        ("source_file", "source_line"),
        rules.rows_as_counted(
            "quarantined_in_files",
            "As many rows as files says were set aside: no line was dropped silently.",
        ),
        rules.once("one_row_per_line", "A line is set aside once.", "source_file", "source_line"),
        rules.within_the_day("log_time_ms"),
        rules.not_empty("source_file"),
        rules.not_empty("reason"),
        rules.source_line_from_1(),
    )


def files() -> rules.TableSuite:
    """Return the suite of ``files``: one file read a row; here lines are conserved."""
    return rules.suite_of(
        "files",
        ("source_file",),
        rules.has_rows("has_files", "At least one file was read."),
        rules.once("one_row_per_file", "A file is read once.", "source_file"),
        rules.not_empty("source_file"),
        *rules.integers_not_negative(*_COUNTS, because="counts, so it is not negative."),
        rules.rule(
            ExpectFirstColumnToBeSumOfTheRest,
            "lines_are_conserved",
            "Lines read = requests + quarantined + other + lines of other days + lines that count "
            "in another file, in every file.",
            column_list=["lines_read", *_COUNTS[1:]],
        ),
        rules.rule(
            ExpectShareOfSumsToBeAtMost,
            "half_of_the_lines_readable",
            "At most 50 % of all lines are in quarantine; above, these are not request logs.",
            column_list=["quarantined", "lines_read"],
            share_max=0.5,
        ),
        rules.rule(
            ExpectShareOfSumsToBeAtMost,
            "few_lines_in_quarantine",
            "At most 1 % of all lines are in quarantine.",
            severity="warning",
            column_list=["quarantined", "lines_read"],
            share_max=0.01,
        ),
    )


def brokers() -> rules.TableSuite:
    """Return the suite of ``brokers``: the configuration a broker's requests are replayed with."""
    return rules.suite_of(
        "brokers",
        ("broker_id",),
        rules.has_rows("has_brokers", "At least one broker is known."),
        rules.once("one_row_per_broker", "A broker has one configuration.", "broker_id"),
        rules.known_values("known_version_source", "version_source", _VERSION_SOURCES),
        rules.known_values("known_rate_profile", "rate_profile", rules.RATE_PROFILES),
        *(
            rules.at_least(
                f"{name}_positive", name, 1, f"{name} is at least 1, as in the broker's settings."
            )
            for name in _SIZES
        ),
        rules.has_value(
            "version_is_known",
            "version",
            "The broker's Kafka version is known, so its rate profile is not a guess.",
            severity="warning",
        ),
    )


def quota_events() -> rules.TableSuite:
    """Return the suite of ``quota_events``: one quota value set or removed a row."""
    return rules.suite_of(
        "quota_events",
        (*ENTITY_COLUMNS, "broker_id", "earliest_ms", "source_file", "source_line"),
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.known_values("known_source", "source", rules.EVENT_SOURCES),
        rules.bound_not_negative(),
        rules.not_after(
            "effect_interval_in_order",
            "earliest_ms",
            "latest_ms",
            "The moment of effect lies in [earliest_ms, latest_ms], so earliest <= latest.",
        ),
        rules.has_rows(
            "has_quota_events",
            "At least one quota is configured; without any there is nothing to audit.",
            severity="warning",
        ),
        rules.rule(
            gxe.ExpectColumnValuesToNotBeInSet,
            "bound_not_zero",
            "No bound is 0: such a quota lets nothing through for good.",
            severity="warning",
            column="bound",
            value_set=[0],
        ),
    )


def log_gaps() -> rules.TableSuite:
    """Return the suite of ``log_gaps``: a gap between two correlation ids of a client a row."""
    return rules.suite_of(
        "log_gaps",
        ("user", "client_id", "correlation_id_before", "correlation_id_after", "after_ms"),
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


def broker_starts() -> rules.TableSuite:
    """Return the suite of ``broker_starts``: one start of a broker, with empty sensors, a row."""
    return rules.suite_of(
        "broker_starts",
        ("broker_id", "started_ms"),
        rules.once("one_row_per_start", "A start is known once.", "broker_id", "started_ms"),
        rules.within_the_day("started_ms"),
        rules.known_values("known_source", "source", SOURCES),
        rules.not_empty("evidence"),
        rules.source_line_from_1(),
    )


def throttle_records() -> rules.TableSuite:
    """Return the suite of ``throttle_records``: one amount above its quota, as logged, a row."""
    return rules.suite_of(
        "throttle_records",
        ("source_file", "source_line"),
        rules.once(
            "one_row_per_line", "A line of a file is one record.", "source_file", "source_line"
        ),
        rules.within_the_day("at_ms"),
        rules.known_quota_type(),
        rules.at_least("throttle_not_negative", "throttle_time_ms", 0, "A delay is not negative."),
        rules.not_empty("source_file"),
        rules.source_line_from_1(),
    )
