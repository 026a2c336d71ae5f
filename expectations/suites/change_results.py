"""Rules of ``change_results``: what became of one applied change on a day, a row."""

from __future__ import annotations

from expectations.suites import rules
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.tables import CHANGE_RESULT_KINDS

KEY = ENTITY_COLUMNS


def suite() -> rules.Suite:
    """Return the expectations of ``change_results``."""
    return rules.suite_of(
        "change_results",
        rules.known_quota_type(),
        rules.entity_has_a_part(),
        rules.once("one_row_per_value", "One change of a value stands at a time.", *KEY),
        rules.known_values("known_result", "result", CHANGE_RESULT_KINDS),
        *(rules.not_empty(name) for name in ("application_id", "explanation")),
        *(
            rules.at_least(f"{name}_not_negative", name, 0, f"{name} is not negative.")
            for name in (
                "requests",
                "throttle_time_ms_before",
                "throttle_time_ms_predicted",
                "throttle_time_ms",
            )
        ),
        rules.not_negative("demand_not_negative", "demand", "demand is not negative."),
    )
