"""The suite of the stage ``applied``: what was changed in a cluster."""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.tables import CHANGE_ACTIONS, CHANGE_OUTCOMES

_IS_APPLIED = Column("outcome") == "applied"


def applied_changes() -> rules.TableSuite:
    """Return the suite of ``applied_changes``: one change, made or meant to be made, a row."""
    return rules.suite_of(
        "applied_changes",
        ("application_id", *ENTITY_COLUMNS),
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.once(
            "one_row_per_value",
            "An application changes a value once.",
            "application_id",
            *ENTITY_COLUMNS,
        ),
        rules.once(
            "one_row_per_position", "Changes are in one order.", "application_id", "position"
        ),
        rules.at_least("position_not_negative", "position", 0, "position counts from 0."),
        *(
            rules.not_empty(name)
            for name in ("application_id", "reason", "applied_by", "bootstrap_servers")
        ),
        rules.known_values("known_action", "action", CHANGE_ACTIONS),
        rules.known_values("known_outcome", "outcome", CHANGE_OUTCOMES),
        rules.has_value(
            "rollback_names_what_it_takes_back",
            "takes_back",
            "A rollback says which application it takes back.",
            row_condition=Column("action") == "rollback",
        ),
        rules.within_the_day("started_ms"),
        rules.not_after(
            "ended_after_start", "started_ms", "ended_ms", "A run ends after its start."
        ),
        rules.rule(
            gxe.ExpectColumnValuesToNotBeInSet,
            "run_has_ended",
            "A run says what became of its changes; one that was cut off does not.",
            severity="warning",
            column="outcome",
            value_set=["intended"],
        ),
        rules.has_value(
            "made_change_has_an_end",
            "ended_ms",
            "A change that was made has the time at which its run ended.",
            row_condition=_IS_APPLIED,
        ),
        rules.not_negative(
            "before_not_negative", "value_before", "The value before is at least 0."
        ),
        rules.not_negative(
            "after_not_negative",
            "value_after",
            "A value that was set is at least 0.",
            row_condition=_IS_APPLIED,
        ),
        rules.always(
            "made_change_was_read_back",
            "is_read_back",
            True,
            "A change counts as made when the cluster has been read again.",
            row_condition=_IS_APPLIED,
        ),
        *_reads_as_meant(),
        rules.has_value(
            "failure_says_why",
            "message",
            "A change that failed says why.",
            row_condition=Column("outcome") == "failed",
        ),
        *rules.integers_not_negative("throttle_time_ms_before", "throttle_time_ms_after"),
    )


def _reads_as_meant() -> list[rules.Rule]:
    """Return the rules that a change that was made reads as it was meant."""
    sides = (("less", "value_read_back", "value_after"), ("more", "value_after", "value_read_back"))
    return [
        *(
            rules.not_after(
                f"made_change_reads_no_{word}",
                smaller,
                larger,
                f"The value read back of a change that was made is no {word} than the one meant.",
                row_condition=_IS_APPLIED,
            )
            for word, larger, smaller in sides
        ),
        rules.has_value(
            "set_value_was_read_back",
            "value_read_back",
            "Where a value was set, one was read back.",
            row_condition=_IS_APPLIED & Column("value_after").is_not_null(),
        ),
        rules.has_no_value(
            "deleted_value_is_gone",
            "value_read_back",
            "Where a value was deleted, none was read back.",
            row_condition=_IS_APPLIED & Column("value_after").is_null(),
        ),
    ]
