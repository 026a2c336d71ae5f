"""Suites of the stage ``replayed``: which quotas held, and what brokers must have decided.

That a broker decided wrongly is a finding, not bad data: no rule here looks at how many decisions
agree. What is checked is that a row says one consistent thing about one logged request.
"""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from expectations.suites.custom_expectations import (
    ExpectColumnValuesToBeMultipleOf,
    ExpectMiddleColumnToLieBetween,
    ExpectRowNotToStartBeforePrevious,
)
from spark_jobs.quota.codes import QUOTA_LEVELS, VERDICTS, WRONG_VERDICTS
from spark_jobs.quota.constants import LATE_LINE_MS
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS

_IS_MUTATION = Column("quota_type") == "controller_mutation_rate"
_IS_RATE = rules.is_other_than("quota_type", "controller_mutation_rate")
_HAS_LINE = Column("source_file").is_not_null() & Column("source_line").is_not_null()


def quota_changes() -> rules.TableSuite:
    """Return the suite of ``quota_changes``: one interval a row in which one quota value held."""
    return rules.suite_of(
        "quota_changes",
        (*ENTITY_COLUMNS, "broker_id", "valid_from_ms"),
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.known_values("known_source", "source", rules.EVENT_SOURCES),
        rules.bound_not_negative(),
        rules.not_after(
            "interval_not_empty",
            "valid_from_ms",
            "valid_until_ms",
            "An interval ends after it begins: valid_from_ms < valid_until_ms.",
            strictly=True,
        ),
        rules.rule(
            ExpectRowNotToStartBeforePrevious,
            "intervals_do_not_overlap",
            "An entity has one value of a quota type at a time on a broker: its intervals do not "
            "overlap.",
            column_list=[*ENTITY_COLUMNS, "broker_id", "valid_from_ms", "valid_until_ms"],
            order_by="valid_from_ms",
            starts="valid_from_ms",
            previous_ends="valid_until_ms",
        ),
    )


def located_changes() -> rules.TableSuite:
    """Return the suite of ``located_changes``: when a broker went by a changed quota."""
    return rules.suite_of(
        "located_changes",
        ("broker_id", "answered_ms"),
        rules.once(
            "one_moment_per_broker", "A change reaches a broker once.", "broker_id", "answered_ms"
        ),
        rules.within_the_day("answered_ms"),
    )


def decisions() -> rules.TableSuite:
    """Return the suite of ``decisions``: one amount, with times of its request, a row."""
    return rules.suite_of(
        "decisions",
        ("source_file", "source_line", *SENSOR_COLUMNS, "resource"),
        *_identity(),
        *_times(),
        *_numbers(),
        *_verdicts(),
        *_verdict_against_log(),
    )


def _identity() -> list[rules.Rule]:
    return [
        rules.known_quota_type(),
        rules.known_values("known_quota_level", "quota_level", QUOTA_LEVELS),
        rules.known_values("known_verdict", "verdict", VERDICTS),
        rules.once(
            "one_decision_per_line",
            "A line decides once per quota type and topic.",
            "source_file",
            "source_line",
            "quota_type",
            "resource",
        ),
        rules.once(
            "one_decision_per_request",
            "A request is decided once per quota type and topic, wherever its line was found.",
            "broker_id",
            "connection",
            "correlation_id",
            "quota_type",
            "resource",
            "log_time_ms",
        ),
        rules.once(
            "one_place_in_the_sensor",
            "No two amounts have the same place in the order of their sensor.",
            *SENSOR_COLUMNS,
            "sensor_epoch",
            "sensor_seq",
        ),
        rules.has_value(
            "has_its_request",
            "request_recorded_latest_ms",
            "Every decision is one about a row of requests (same source_file and source_line).",
            row_condition=_HAS_LINE,
        ),
    ]


def _times() -> list[rules.Rule]:
    return [
        rules.within_the_day("log_time_ms"),
        rules.rule(
            ExpectMiddleColumnToLieBetween,
            "recorded_in_logged_phases",
            "recorded_at_ms lies in the request's [recorded_earliest_ms, recorded_latest_ms], or "
            "up to 50 ms before where the throttle says that the line was written late.",
            column_list=[
                "request_recorded_earliest_ms",
                "recorded_at_ms",
                "request_recorded_latest_ms",
            ],
            slack_below=LATE_LINE_MS,
        ),
        rules.rule(
            ExpectRowNotToStartBeforePrevious,
            "sensor_time_not_backwards",
            "In the order of a sensor, recorded_at_ms does not go back by more than 50 ms (a "
            "handler reads the clock before its turn; a line may be written late).",
            severity="warning",
            column_list=[*SENSOR_COLUMNS, "sensor_epoch", "sensor_seq", "recorded_at_ms"],
            order_by="sensor_seq",
            starts="recorded_at_ms",
            previous_ends="recorded_at_ms",
            slack=LATE_LINE_MS,
        ),
    ]


def _numbers() -> list[rules.Rule]:
    return [
        rules.not_negative("amount_not_negative", "amount", "A recorded amount is not below 0."),
        rules.bound_not_negative(),
        rules.at_least("window_positive", "window_size_ms", 1, "A rate's window is at least 1 ms."),
        rules.at_least(
            "logged_throttle_not_negative",
            "logged_throttle_time_ms",
            0,
            "The logged throttle time is not negative.",
        ),
        rules.at_least(
            "replayed_throttle_not_negative",
            "replayed_throttle_time_ms",
            0,
            "The replayed throttle time is not negative.",
        ),
        *rules.order_of_sensor_from_0(),
        rules.always(
            "logged_refusals_are_mutations",
            "logged_admitted",
            True,
            "Only controller_mutation_rate refuses requests; other quotas throttle.",
            row_condition=_IS_RATE,
        ),
        rules.always(
            "replayed_refusals_are_mutations",
            "replayed_admitted",
            True,
            "The replay, too, refuses by controller_mutation_rate only.",
            row_condition=_IS_RATE,
        ),
        rules.has_value(
            "mutations_name_their_topic",
            "resource",
            "A controller mutation is decided per topic, so resource names one.",
            row_condition=_IS_MUTATION,
        ),
    ]


def _verdicts() -> list[rules.Rule]:
    return [
        rules.has_no_value(
            "no_quota_has_no_bound",
            "bound",
            "Where the verdict is no_quota, no bound was in force.",
            row_condition=Column("verdict") == "no_quota",
        ),
        rules.has_value(
            "judged_has_bound",
            "bound",
            "Where the verdict is another than no_quota, a bound was in force.",
            row_condition=rules.is_other_than("verdict", "no_quota"),
        ),
        rules.has_value(
            "judged_has_level",
            "quota_level",
            "Where a bound was in force, quota_level says which level it came from.",
            row_condition=Column("bound").is_not_null(),
        ),
        rules.has_value(
            "indeterminate_has_reason",
            "reason",
            "Where the log cannot decide, reason says why.",
            row_condition=Column("verdict") == "indeterminate",
        ),
    ]


def _verdict_against_log() -> list[rules.Rule]:
    """Return the rules that a blaming verdict follows from the row's own two sides."""
    blamed = Column("verdict").is_in(WRONG_VERDICTS)
    sides = (
        ("wrongly_admitted", "logged_admitted", True),
        ("wrongly_admitted", "replayed_admitted", False),
        ("wrongly_refused", "logged_admitted", False),
        ("wrongly_refused", "replayed_admitted", True),
    )
    throttled = (
        ("under_throttled", "replayed_throttle_time_ms", "logged_throttle_time_ms", "less"),
        ("over_throttled", "logged_throttle_time_ms", "replayed_throttle_time_ms", "more"),
    )
    return [
        *(
            rules.has_value(
                f"blame_has_{column}",
                column,
                f"A verdict that blames the broker rests on a replay: {column} has a value.",
                row_condition=blamed,
            )
            for column in ("replayed_throttle_time_ms", "replayed_admitted")
        ),
        *(
            rules.always(
                f"{verdict}_by_{column}",
                column,
                value,
                f"Where the verdict is {verdict}, {column} is {str(value).lower()}.",
                row_condition=Column("verdict") == verdict,
            )
            for verdict, column, value in sides
        ),
        *(
            rules.rule(
                gxe.ExpectColumnPairValuesAToBeGreaterThanB,
                f"{verdict}_by_throttle",
                f"Where the verdict is {verdict}, the broker throttled {word} than the replay.",
                column_A=more,
                column_B=less,
                ignore_row_if="either_value_is_missing",
                row_condition=Column("verdict") == verdict,
            )
            for verdict, more, less, word in throttled
        ),
    ]


def agreement() -> rules.TableSuite:
    """Return the suite of ``agreement``: one sensor's throttles, log against replay."""
    return rules.suite_of(
        "agreement",
        SENSOR_COLUMNS,
        rules.known_quota_type(),
        rules.once("one_row_per_sensor", "A sensor has one row.", *SENSOR_COLUMNS),
        rules.not_negative("throttles_not_negative", "throttles", "A count is not negative."),
        rules.not_negative(
            "residual_not_negative", "residual_max_ms", "A distance is not negative."
        ),
        rules.part_of("same_decisions_are_decisions", "same_decision", "decisions"),
        rules.part_of("throttles_are_decisions", "throttles", "decisions"),
        rules.not_after(
            "nearest_are_near", "within_1ms", "within_5ms", "What is within 1 ms is within 5 ms."
        ),
        rules.part_of("near_are_throttles", "within_5ms", "throttles"),
        rules.part_of("proven_are_decisions", "proven", "decisions"),
    )


def rates() -> rules.TableSuite:
    """Return the suite of ``rates``: one sensor in one second a row."""
    return rules.suite_of(
        "rates",
        (*SENSOR_COLUMNS, "second_ms"),
        rules.known_quota_type(),
        rules.once(
            "one_row_per_second", "A sensor has one row per second.", *SENSOR_COLUMNS, "second_ms"
        ),
        rules.rule(
            ExpectColumnValuesToBeMultipleOf,
            "second_is_whole",
            "second_ms is the begin of a second: a multiple of 1000.",
            column="second_ms",
            divisor=1000,
        ),
        rules.not_negative("amount_not_negative", "amount", "A second's amount is not below 0."),
        rules.rate_not_negative(),
        rules.bound_not_negative(),
        *rules.throttling_not_negative(),
    )


def quota_state() -> rules.TableSuite:
    """Return the suite of ``quota_state``: one sensor a row; ``samples`` is seen as its length."""
    return rules.suite_of(
        "quota_state",
        SENSOR_COLUMNS,
        rules.known_quota_type(),
        rules.once("one_row_per_sensor", "A sensor has one state.", *SENSOR_COLUMNS),
        *rules.order_of_sensor_from_0(),
        rules.at_least("sample_index_not_negative", "sample_index", 0, "Samples count from 0."),
        rules.has_value(
            "bucket_has_tokens",
            "tokens",
            "A token bucket that is carried over says how many tokens it holds.",
            row_condition=_IS_MUTATION,
        ),
        rules.has_value(
            "bucket_has_last_update",
            "last_update_ms",
            "A token bucket that is carried over says when it was filled last.",
            row_condition=_IS_MUTATION,
        ),
    )


def topic_inventory() -> rules.TableSuite:
    """Return the suite of ``topic_inventory``: a topic's partitions at the day's end a row."""
    return rules.suite_of(
        "topic_inventory",
        ("topic",),
        rules.once("one_row_per_topic", "A topic is there once.", "topic"),
        rules.not_empty("topic"),
        rules.at_least(
            "partitions_positive", "partitions", 1, "A topic has at least one partition."
        ),
        rules.at_least(
            "partitions_handed_on_positive",
            "partitions_handed_on",
            1,
            "A topic that is handed on has at least one partition.",
        ),
    )
