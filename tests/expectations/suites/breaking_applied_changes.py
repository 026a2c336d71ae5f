"""Rows that break the rules of ``applied_changes``, each one rule and no other."""

from __future__ import annotations

from tests.builders.tables_builder import NOON_MS
from tests.expectations.suites.row_breaks import (
    BLANK,
    NO_NUMBER_FROM_0,
    OTHER_DAY_MS,
    Break,
    each,
    rows,
    twice,
)

APPLIED_CHANGES: dict[str, Break] = {
    "known_quota_type": each("quota_type", "produce"),
    "entity_has_a_part": rows({"quota_user": None, "quota_client_id": None}),
    "one_row_per_value": twice(quota_user="twice"),
    "one_row_per_position": twice(position=9001),
    "position_not_negative": each("position", -1),
    "application_id_is_not_blank": each("application_id", *BLANK),
    "reason_is_not_blank": each("reason", *BLANK),
    "applied_by_is_not_blank": each("applied_by", *BLANK),
    "bootstrap_servers_is_not_blank": each("bootstrap_servers", *BLANK),
    "known_action": each("action", "undo"),
    "known_outcome": each("outcome", "hopefully"),
    "rollback_names_what_it_takes_back": each("action", "rollback"),
    "started_ms_is_in_the_day": rows(
        {"started_ms": OTHER_DAY_MS[0]},
        {"started_ms": OTHER_DAY_MS[1], "ended_ms": OTHER_DAY_MS[1] + 1},
    ),
    "ended_after_start": each("ended_ms", NOON_MS - 1),
    "run_has_ended": each("outcome", "intended", ended_ms=None),
    "made_change_has_an_end": each("ended_ms", None),
    "before_not_negative": each("value_before", *NO_NUMBER_FROM_0),
    "after_not_negative": rows(
        *({"value_after": value, "value_read_back": value} for value in (-1.0, float("inf"))),
    ),
    "made_change_was_read_back": each("is_read_back", False),
    "made_change_reads_no_less": each("value_read_back", 99_999.0),
    "made_change_reads_no_more": each("value_read_back", 100_001.0),
    "set_value_was_read_back": each("value_read_back", None),
    "deleted_value_is_gone": rows(
        {"value_after": None},
        beside=({"value_after": None, "value_read_back": None},),
    ),
    "failure_says_why": each("outcome", "failed"),
    "throttle_time_ms_before_not_negative": each("throttle_time_ms_before", -1),
    "throttle_time_ms_after_not_negative": each("throttle_time_ms_after", -1),
}
