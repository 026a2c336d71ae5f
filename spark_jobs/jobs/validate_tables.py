"""Steps validate_*: the tables of a stage against their suites."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_jobs.warehouse import RunScope


def validate_stage(scope: RunScope, stage: str, spark: SparkSession | None = None) -> str:
    """Validate the tables of ``stage`` and return the outcome in a sentence.

    Raises DataQualityError where a critical expectation failed, CheckBrokenError where one could
    not be evaluated, BadInputError where ``stage`` is none.
    """
    # Great Expectations takes seconds to import: only the steps that validate pay for it.
    from expectations.runner import validate_tables

    return validate_tables(scope, stage, spark).sentence()
