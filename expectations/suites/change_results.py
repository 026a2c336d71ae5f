"""Rules of ``change_results``: what became of one applied change on a day, a row."""

from __future__ import annotations

import great_expectations as gx

from expectations.suites.rules import (
    at_least,
    entity_has_a_part,
    known_quota_type,
    known_values,
    not_empty,
    not_negative,
    once,
    suite_of,
)
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.tables import CHANGE_RESULT_KINDS

KEY = ENTITY_COLUMNS


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``change_results``."""
    return suite_of(
        "change_results",
        known_quota_type(),
        entity_has_a_part(),
        once("one_row_per_value", "One change of a value stands at a time.", *KEY),
        known_values("known_result", "result", CHANGE_RESULT_KINDS),
        *(not_empty(name) for name in ("application_id", "explanation")),
        *(
            at_least(f"{name}_not_negative", name, 0, f"{name} is not negative.")
            for name in (
                "requests",
                "throttle_time_ms_before",
                "throttle_time_ms_predicted",
                "throttle_time_ms",
            )
        ),
        not_negative("demand_not_negative", "demand", "demand is not negative."),
    )
