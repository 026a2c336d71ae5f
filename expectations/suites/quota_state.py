"""Rules of ``quota_state``: one sensor a row, as the next day's replay takes it over."""

from __future__ import annotations

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.expectations.row_conditions import Column

from expectations.suites.rules import at_least, known_quota_type, once, rule, suite_of
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS

KEY = SENSOR_COLUMNS

_IS_BUCKET = Column("quota_type") == "controller_mutation_rate"


def suite() -> gx.ExpectationSuite:
    """Return the expectations of ``quota_state``; ``samples`` is seen as its length."""
    return suite_of(
        "quota_state",
        known_quota_type(),
        once("one_row_per_sensor", "A sensor has one state.", *KEY),
        at_least("sensor_epoch_not_negative", "sensor_epoch", 0, "Sensor epochs count from 0."),
        at_least("sensor_seq_not_negative", "sensor_seq", 0, "Places in a sensor count from 0."),
        at_least("sample_index_not_negative", "sample_index", 0, "Samples count from 0."),
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "bucket_has_tokens",
            "A token bucket that is carried over says how many tokens it holds.",
            column="tokens",
            row_condition=_IS_BUCKET,
        ),
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            "bucket_has_last_update",
            "A token bucket that is carried over says when it was filled last.",
            column="last_update_ms",
            row_condition=_IS_BUCKET,
        ),
    )
