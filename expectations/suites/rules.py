"""What suites are made of: named rules, and those that follow from the tables' contract."""

from __future__ import annotations

from typing import Any, NamedTuple

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.row_conditions import AndCondition, Column

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.warehouse.tables import TABLES

# NaN compares above every number on Spark and below none in pandas: an upper end catches both.
LARGEST_DOUBLE = 1.7e308

Rule = gxe.Expectation

COLUMNS_RULE = "columns_of_the_contract"
EVENT_SOURCES = ("log", "server_log", "snapshot", "static", "journal")
RATE_PROFILES = ("rate_3_8", "rate_3_3", "rate_0_9")


def rule(
    kind: type[gxe.Expectation],
    name: str,
    sentence: str,
    severity: str = "critical",
    **arguments: Any,
) -> gxe.Expectation:
    """Return an expectation that carries its ``name``, a sentence for people and a severity.

    ``severity`` is critical (nothing is published), warning (shown in the report) or info.
    """
    return kind(
        description=sentence, severity=FailureSeverity(severity), meta={"rule": name}, **arguments
    )


class TableSuite(NamedTuple):
    """The columns that name a row of a table, and its rules."""

    key: tuple[str, ...]
    rules: gx.ExpectationSuite


def suite_of(table: str, key: tuple[str, ...], *rules: gxe.Expectation) -> TableSuite:
    """Return the suite of ``table``: the contract's columns, then ``rules``.

    A Great Expectations context must exist before a suite is built.
    """
    schema = TABLES[table]
    columns = rule(
        gxe.ExpectTableColumnsToMatchSet,
        COLUMNS_RULE,
        "Every column of the contract is there; a table may have more.",
        column_set=schema.names,
        exact_match=False,
    )
    required = [
        rule(
            gxe.ExpectColumnValuesToNotBeNull,
            f"{field.name}_is_there",
            f"{field.name} has a value in every row.",
            column=field.name,
        )
        for field in schema
        if not field.nullable
    ]
    return TableSuite(key, gx.ExpectationSuite(table, [columns, *required, *rules]))


def known_quota_type() -> gxe.Expectation:
    """Return the rule that ``quota_type`` is one of Kafka's four."""
    return known_values("known_quota_type", "quota_type", QUOTA_TYPES)


def known_values(name: str, column: str, values: tuple[str, ...]) -> gxe.Expectation:
    """Return the rule that ``column``, where it has a value, holds one of ``values``."""
    return rule(
        gxe.ExpectColumnValuesToBeInSet,
        name,
        f"{column} is one of {', '.join(values)}.",
        column=column,
        value_set=list(values),
    )


def has_value(name: str, column: str, sentence: str, **arguments: Any) -> gxe.Expectation:
    """Return the rule that ``column`` has a value."""
    return rule(gxe.ExpectColumnValuesToNotBeNull, name, sentence, column=column, **arguments)


def has_no_value(name: str, column: str, sentence: str, **arguments: Any) -> gxe.Expectation:
    """Return the rule that ``column`` has no value."""
    return rule(gxe.ExpectColumnValuesToBeNull, name, sentence, column=column, **arguments)


def always(
    name: str, column: str, value: object, sentence: str, **arguments: Any
) -> gxe.Expectation:
    """Return the rule that ``column``, where it has a value, holds ``value``."""
    kind = gxe.ExpectColumnValuesToBeInSet
    return rule(kind, name, sentence, column=column, value_set=[value], **arguments)


def has_rows(name: str, sentence: str, **arguments: Any) -> gxe.Expectation:
    """Return the rule that the table has a row."""
    return rule(gxe.ExpectTableRowCountToBeBetween, name, sentence, min_value=1, **arguments)


def is_other_than(column: str, value: str) -> AndCondition:
    """Return the condition that ``column`` has a value, and another one than ``value``.

    Spark leaves rows without a value out of a comparison and pandas does not: this says it.
    """
    return (Column(column) != value) & Column(column).is_not_null()


def entity_has_a_part() -> gxe.Expectation:
    """Return the rule that a configured entity names a user, a client-id, or both."""
    return rule(
        gxe.ExpectColumnValuesToNotBeNull,
        "entity_has_a_part",
        "The entity names a user or a client-id (or a default): a quota on nobody binds nobody.",
        column="quota_client_id",
        row_condition=Column("quota_user").is_null(),
    )


def not_negative(name: str, column: str, sentence: str, **arguments: Any) -> gxe.Expectation:
    """Return the rule that ``column``, where it has a value, is a number of at least 0."""
    return rule(
        gxe.ExpectColumnValuesToBeBetween,
        name,
        sentence,
        column=column,
        min_value=0,
        max_value=LARGEST_DOUBLE,
        **arguments,
    )


def rate_not_negative() -> gxe.Expectation:
    """Return the rule that ``rate``, where it has a value, is no negative one."""
    return rule(
        gxe.ExpectColumnValuesToBeBetween,
        "rate_not_negative",
        "A rate is not below 0 by more than rounding.",
        column="rate",
        min_value=-1e-3,
        max_value=LARGEST_DOUBLE,
    )


def throttling_not_negative() -> tuple[gxe.Expectation, gxe.Expectation]:
    """Return the rules that throttled requests and their throttle times are counted from 0."""
    return (
        at_least(
            "throttled_requests_not_negative",
            "throttled_requests",
            0,
            "throttled_requests counts, so it is not negative.",
        ),
        at_least(
            "throttle_time_not_negative",
            "throttle_time_ms",
            0,
            "The sum of throttle times is not negative.",
        ),
    )


def at_least(name: str, column: str, minimum: int, sentence: str) -> gxe.Expectation:
    """Return the rule that the integer ``column``, where it has a value, is >= ``minimum``."""
    return rule(gxe.ExpectColumnValuesToBeBetween, name, sentence, column=column, min_value=minimum)


def not_empty(column: str) -> gxe.Expectation:
    """Return the rule that the text of ``column``, where it has a value, is not blank."""
    return rule(
        gxe.ExpectColumnValuesToMatchRegex,
        f"{column}_is_not_blank",
        f"{column} is a text that says something.",
        column=column,
        regex=r"\S",
    )


def once(name: str, sentence: str, *columns: str) -> gxe.Expectation:
    """Return the rule that no two rows agree in ``columns``; missing values are equal."""
    if len(columns) == 1:
        return rule(gxe.ExpectColumnValuesToBeUnique, name, sentence, column=columns[0])
    return rule(
        gxe.ExpectCompoundColumnsToBeUnique,
        name,
        sentence,
        column_list=list(columns),
        ignore_row_if="never",
    )


def not_after(
    name: str, earlier: str, later: str, sentence: str, *, strictly: bool = False
) -> gxe.Expectation:
    """Return the rule ``earlier`` <= ``later`` (< if ``strictly``), where both have a value."""
    return rule(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB,
        name,
        sentence,
        column_A=later,
        column_B=earlier,
        or_equal=not strictly,
        ignore_row_if="either_value_is_missing",
    )


def within_the_day(column: str) -> gxe.Expectation:
    """Return the rule that ``column`` lies in the partition's UTC day (given when it is run)."""
    return rule(
        gxe.ExpectColumnValuesToBeBetween,
        f"{column}_is_in_the_day",
        f"{column} lies in the UTC day of the partition.",
        column=column,
        min_value={"$PARAMETER": "day_first_ms"},
        max_value={"$PARAMETER": "day_last_ms"},
    )


def rows_as_counted(parameter: str, sentence: str) -> gxe.Expectation:
    """Return the rule that the table has as many rows as ``parameter`` says when it is run."""
    return rule(
        gxe.ExpectTableRowCountToEqual,
        "rows_as_counted_in_files",
        sentence,
        value={"$PARAMETER": parameter},
    )
