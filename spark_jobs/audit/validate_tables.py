"""Steps validate_*: the tables of a stage against their suites."""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import SparkSession

from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import put_validated


def validate_stage(scope: RunScope, stage: str, spark: SparkSession | None = None) -> str:
    """Validate the tables of ``stage`` and return the outcome in a sentence.

    A run whose tables passed says so, until one of them is written again.

    Without ``spark``, a session is started where a table is too large for memory.
    Raises DataQualityError where a critical expectation failed, CheckBrokenError where one could
    not be evaluated, BadInputError where ``stage`` is none.
    """
    # Great Expectations takes seconds to import: only the steps that validate pay for it.
    from expectations.validate.runner import validate_tables

    with ExitStack() as stack:
        session = spark or (lambda: stack.enter_context(spark_session("validate")))
        said = validate_tables(scope, stage, session).sentence()
    put_validated(stage, scope)
    return said
