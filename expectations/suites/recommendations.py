"""Rules of ``recommendations``: one proposed change a row, or why there is none."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites.rules import (
    LARGEST_DOUBLE,
    at_least,
    entity_has_a_part,
    is_other_than,
    known_quota_type,
    known_values,
    not_after,
    not_empty,
    not_negative,
    once,
    rule,
    suite_of,
)
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.tables import RECOMMENDATION_KINDS, RECOMMENDATION_STATUSES

KEY = ENTITY_COLUMNS

_SMALLEST_BOUND = 1e-9


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``recommendations``."""
    return suite_of(
        "recommendations",
        known_quota_type(),
        entity_has_a_part(),
        once("one_row_per_entity", "An entity has one recommendation per quota type.", *KEY),
        known_values("known_status", "status", RECOMMENDATION_STATUSES),
        known_values("known_kind", "kind", RECOMMENDATION_KINDS),
        known_values("known_confidence", "confidence", ("high", "medium", "low")),
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "proposal_has_value",
            "Where a change is proposed, proposed says which value.",
            column="proposed",
            row_condition=(Column("status") == "proposed")
            & (Column("kind") != "reclaim")
            & (Column("kind") != "merge"),
        ),
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "proposal_has_kind",
            "Where a change is proposed, kind says which.",
            column="kind",
            row_condition=Column("status") == "proposed",
        ),
        rule(
            gxe.ExpectColumnValuesToBeNull,
            "reclaimed_has_no_value",
            "A value that is reclaimed is removed: there is no other in its place.",
            column="proposed",
            row_condition=Column("kind") == "reclaim",
        ),
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "merge_sets_what_is_missing",
            "A merge begins with a value for a user that has none.",
            column="proposed",
            row_condition=(Column("kind") == "merge") & Column("previous").is_null(),
        ),
        rule(
            gxe.ExpectColumnValuesToBeNull,
            "merged_has_no_value",
            "A value that is merged into the user's is removed: there is no other in its place.",
            column="proposed",
            row_condition=(Column("kind") == "merge") & Column("previous").is_not_null(),
        ),
        not_after(
            "kept_are_trials",
            "backtest_kept",
            "backtest_trials",
            "A proposal keeps its promise on some of the days that it was tried on.",
        ),
        rule(
            gxe.ExpectColumnValuesToBeNull,
            "no_proposal_no_value",
            "Where no change is proposed, proposed is empty: nothing can be applied by mistake.",
            column="proposed",
            row_condition=is_other_than("status", "proposed"),
        ),
        rule(
            gxe.ExpectColumnValuesToBeBetween,
            "proposed_above_zero",
            "A proposed value is above 0: a quota of 0 stops a client for good.",
            column="proposed",
            min_value=_SMALLEST_BOUND,
            max_value=LARGEST_DOUBLE,
        ),
        not_negative("current_not_negative", "current", "The value in force is at least 0."),
        not_after(
            "range_in_order", "lower", "upper", "The plausible range is in order: lower <= upper."
        ),
        not_empty("reason"),
        rule(
            gxe.ExpectColumnValuesToBeJsonParseable,
            "evidence_is_json",
            "The numbers behind a recommendation are JSON.",
            column="evidence",
        ),
        *(
            at_least(f"{column}_not_negative", column, 0, f"{column} is not negative.")
            for column in (
                "throttle_time_ms_before",
                "throttle_time_ms_after",
                "days_seen",
                "backtest_kept",
            )
        ),
    )
