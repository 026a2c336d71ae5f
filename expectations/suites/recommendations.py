"""Rules of ``recommendations``: one proposed change a row, or why there is none."""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.tables import RECOMMENDATION_KINDS, RECOMMENDATION_STATUSES

KEY = ENTITY_COLUMNS

_SMALLEST_BOUND = 1e-9


def suite() -> rules.Suite:
    """Return the expectations of ``recommendations``."""
    return rules.suite_of(
        "recommendations",
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.once("one_row_per_entity", "An entity has one recommendation per quota type.", *KEY),
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
        rules.rule(
            gxe.ExpectColumnValuesToBeBetween,
            "proposed_above_zero",
            "A proposed value is above 0: a quota of 0 stops a client for good.",
            column="proposed",
            min_value=_SMALLEST_BOUND,
            max_value=rules.LARGEST_DOUBLE,
        ),
        rules.not_negative("current_not_negative", "current", "The value in force is at least 0."),
        rules.not_after(
            "range_in_order", "lower", "upper", "The plausible range is in order: lower <= upper."
        ),
        rules.not_empty("reason"),
        rules.rule(
            gxe.ExpectColumnValuesToBeJsonParseable,
            "evidence_is_json",
            "The numbers behind a recommendation are JSON.",
            column="evidence",
        ),
        *(
            rules.at_least(f"{column}_not_negative", column, 0, f"{column} is not negative.")
            for column in (
                "throttle_time_ms_before",
                "throttle_time_ms_after",
                "days_seen",
                "backtest_kept",
            )
        ),
    )
