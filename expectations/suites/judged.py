"""Suites of the stage ``judged``: findings, rates summed up, and what is recommended."""

from __future__ import annotations

from itertools import pairwise

import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from expectations.suites.custom_expectations import ExpectColumnValuesToBeMultipleOf
from spark_jobs.quota.codes import FINDING_KINDS, HYPOTHESES, QUOTA_LEVELS, SEVERITIES
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS, SENSOR_COLUMNS
from spark_jobs.warehouse.tables import (
    CHANGE_RESULT_KINDS,
    RECOMMENDATION_KINDS,
    RECOMMENDATION_STATUSES,
    ROLLUP_SPANS_MS,
)

_SMALLEST_BOUND = 1e-9


def findings() -> rules.TableSuite:
    """Return the suite of ``findings``: one thing a person should act on a row."""
    return rules.suite_of(
        "findings",
        ("finding_id",),
        rules.once("one_row_per_finding", "finding_id names one finding.", "finding_id"),
        rules.not_empty("finding_id"),
        rules.known_quota_type(),
        rules.known_values("known_kind", "kind", FINDING_KINDS),
        rules.known_values("known_severity", "severity", SEVERITIES),
        rules.not_empty("explanation"),
        rules.evidence_is_json("a finding"),
        rules.not_after(
            "interval_in_order",
            "from_ms",
            "until_ms",
            "A finding's interval does not end before it begins.",
        ),
        rules.at_least(
            "has_decisions", "decisions", 1, "A finding rests on at least one decision."
        ),
        rules.known_values("known_hypothesis", "hypothesis", HYPOTHESES),
        rules.known_values("known_runner_up", "runner_up", HYPOTHESES),
        _share("hypothesis_share"),
        _share("runner_up_share"),
        rules.between(
            "estimated_bound_above_zero",
            "estimated_bound",
            "A broker cannot have gone by no bound, or by a negative one.",
            min_value=0.0,
            strict_min=True,
        ),
    )


def _share(column: str) -> rules.Rule:
    return rules.between(
        f"{column}_is_a_share",
        column,
        f"{column} is a share of the decisions: from 0 to 1.",
        min_value=0.0,
        max_value=1.0,
    )


def rate_rollups() -> rules.TableSuite:
    """Return the suite of ``rate_rollups``: one sensor in one minute, hour or day a row."""
    return rules.suite_of(
        "rate_rollups",
        ("span_ms", *SENSOR_COLUMNS, "from_ms"),
        rules.known_quota_type(),
        rules.rule(
            gxe.ExpectColumnValuesToBeInSet,
            "known_span",
            "span_ms is a minute, an hour or a day.",
            column="span_ms",
            value_set=list(ROLLUP_SPANS_MS),
        ),
        rules.once(
            "one_row_per_span",
            "A sensor has one row per minute, hour and day.",
            "span_ms",
            *SENSOR_COLUMNS,
            "from_ms",
        ),
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


def demand() -> rules.TableSuite:
    """Return the suite of ``demand``: what one sensor asked of one broker on a day."""
    return rules.suite_of(
        "demand",
        (*ENTITY_COLUMNS, "broker_id"),
        rules.known_quota_type(),
        rules.known_values("known_quota_level", "quota_level", QUOTA_LEVELS),
        rules.known_values("known_demand_basis", "demand_basis", ("peak_rate", "free_run")),
        rules.once(
            "one_row_per_sensor", "A sensor has one row on a broker.", *ENTITY_COLUMNS, "broker_id"
        ),
        rules.at_least("has_requests", "requests", 1, "A row is about at least one request."),
        rules.at_least(
            "has_seconds", "seconds", 1, "Traffic takes at least a second of the clock."
        ),
        *rules.integers_not_negative(
            "unknown_amounts", "throttled_requests", "logged_throttle_time_ms", "muted_ms"
        ),
        *rules.doubles_not_negative("rate_p50", "demand", "near_bound_share", "largest_amount"),
        rules.not_negative("bound_not_negative", "bound", "A bound is at least 0."),
        *(
            rules.not_after(
                f"{low}_is_not_above_{high}",
                f"rate_{low}",
                f"rate_{high}",
                "Percentiles are in order.",
            )
            for low, high in pairwise(("p50", "p95", "p99", "max"))
        ),
        rules.part_of("throttled_are_requests", "throttled_requests", "requests"),
        rules.not_after(
            "muted_is_throttled", "muted_ms", "throttle_time_ms", "Overlaps count once, no more."
        ),
    )


def change_results() -> rules.TableSuite:
    """Return the suite of ``change_results``: what became of one applied change on a day, a row."""
    return rules.suite_of(
        "change_results",
        ENTITY_COLUMNS,
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.once("one_row_per_value", "One change of a value stands at a time.", *ENTITY_COLUMNS),
        rules.known_values("known_result", "result", CHANGE_RESULT_KINDS),
        *(rules.not_empty(name) for name in ("application_id", "explanation")),
        *rules.integers_not_negative(
            "requests", "throttle_time_ms_before", "throttle_time_ms_predicted", "throttle_time_ms"
        ),
        *rules.doubles_not_negative("demand"),
    )


def recommendations() -> rules.TableSuite:
    """Return the suite of ``recommendations``: one proposed change a row, or why there is none."""
    return rules.suite_of(
        "recommendations",
        ENTITY_COLUMNS,
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.once(
            "one_row_per_entity",
            "An entity has one recommendation per quota type.",
            *ENTITY_COLUMNS,
        ),
        rules.known_values("known_status", "status", RECOMMENDATION_STATUSES),
        rules.known_values("known_kind", "kind", RECOMMENDATION_KINDS),
        rules.known_values("known_confidence", "confidence", ("high", "medium", "low")),
        rules.has_value(
            "proposal_has_value",
            "proposed",
            "Where a change is proposed, proposed says which value.",
            row_condition=(Column("status") == "proposed")
            & (Column("kind") != "reclaim")
            & (Column("kind") != "merge"),
        ),
        rules.has_value(
            "proposal_has_kind",
            "kind",
            "Where a change is proposed, kind says which.",
            row_condition=Column("status") == "proposed",
        ),
        rules.has_no_value(
            "reclaimed_has_no_value",
            "proposed",
            "A value that is reclaimed is removed: there is no other in its place.",
            row_condition=Column("kind") == "reclaim",
        ),
        rules.has_value(
            "merge_sets_what_is_missing",
            "proposed",
            "A merge begins with a value for a user that has none.",
            row_condition=(Column("kind") == "merge") & Column("previous").is_null(),
        ),
        rules.has_no_value(
            "merged_has_no_value",
            "proposed",
            "A value that is merged into the user's is removed: there is no other in its place.",
            row_condition=(Column("kind") == "merge") & Column("previous").is_not_null(),
        ),
        rules.not_after(
            "kept_are_trials",
            "backtest_kept",
            "backtest_trials",
            "A proposal keeps its promise on some of the days that it was tried on.",
        ),
        rules.has_no_value(
            "no_proposal_no_value",
            "proposed",
            "Where no change is proposed, proposed is empty: nothing can be applied by mistake.",
            row_condition=rules.is_other_than("status", "proposed"),
        ),
        rules.between(
            "proposed_above_zero",
            "proposed",
            "A proposed value is above 0: a quota of 0 stops a client for good.",
            min_value=_SMALLEST_BOUND,
            max_value=rules.LARGEST_DOUBLE,
        ),
        rules.not_negative("current_not_negative", "current", "The value in force is at least 0."),
        rules.not_after(
            "range_in_order", "lower", "upper", "The plausible range is in order: lower <= upper."
        ),
        rules.not_empty("reason"),
        rules.evidence_is_json("a recommendation"),
        *rules.integers_not_negative(
            "throttle_time_ms_before", "throttle_time_ms_after", "days_seen", "backtest_kept"
        ),
    )
