"""Rules of ``quota_state``: one sensor a row, as the next day's replay takes it over."""

from __future__ import annotations

from great_expectations.expectations.row_conditions import Column

from expectations.suites import rules
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = SENSOR_COLUMNS

_IS_BUCKET = Column("quota_type") == "controller_mutation_rate"


def suite() -> rules.Suite:
    """Return the expectations of ``quota_state``; ``samples`` is seen as its length."""
    return rules.suite_of(
        "quota_state",
        rules.known_quota_type(),
        rules.once("one_row_per_sensor", "A sensor has one state.", *KEY),
        rules.at_least(
            "sensor_epoch_not_negative", "sensor_epoch", 0, "Sensor epochs count from 0."
        ),
        rules.at_least(
            "sensor_seq_not_negative", "sensor_seq", 0, "Places in a sensor count from 0."
        ),
        rules.at_least("sample_index_not_negative", "sample_index", 0, "Samples count from 0."),
        rules.has_value(
            "bucket_has_tokens",
            "tokens",
            "A token bucket that is carried over says how many tokens it holds.",
            row_condition=_IS_BUCKET,
        ),
        rules.has_value(
            "bucket_has_last_update",
            "last_update_ms",
            "A token bucket that is carried over says when it was filled last.",
            row_condition=_IS_BUCKET,
        ),
    )
