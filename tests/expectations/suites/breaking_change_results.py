"""Rows that break the rules of ``change_results``, each one rule and no other."""

from __future__ import annotations

from tests.expectations.suites.row_breaks import BLANK, NO_NUMBER_FROM_0, Break, each, rows, twice

CHANGE_RESULTS: dict[str, Break] = {
    "known_quota_type": each("quota_type", "produce"),
    "entity_has_a_part": rows({"quota_user": None, "quota_client_id": None}),
    "one_row_per_value": twice(quota_user="twice"),
    "known_result": each("result", "perhaps"),
    "application_id_is_not_blank": each("application_id", *BLANK),
    "explanation_is_not_blank": each("explanation", *BLANK),
    "requests_not_negative": each("requests", -1),
    "throttle_time_ms_before_not_negative": each("throttle_time_ms_before", -1),
    "throttle_time_ms_predicted_not_negative": each("throttle_time_ms_predicted", -1),
    "throttle_time_ms_not_negative": each("throttle_time_ms", -1),
    "demand_not_negative": each("demand", *NO_NUMBER_FROM_0),
}
