"""What suites are made of: named rules, and those that follow from the tables' contract."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.row_conditions import AndCondition, Column

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.warehouse.tables import TABLES

# NaN compares above every number on Spark and below none in pandas: an upper end catches both.
LARGEST_DOUBLE = 1.7e308

Rule: TypeAlias = gxe.Expectation

COLUMNS_RULE = "columns_of_the_contract"
EVENT_SOURCES = ("log", "server_log", "snapshot", "static", "journal")
RATE_PROFILES = ("rate_3_8", "rate_3_3", "rate_0_9")


def rule(
    kind: type[Rule],
    name: str,
    sentence: str,
    severity: str = "critical",
    **arguments: Any,
) -> Rule:
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


def suite_of(table: str, key: tuple[str, ...], *rules: Rule) -> TableSuite:
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
        has_value(f"{field.name}_is_there", field.name, f"{field.name} has a value in every row.")
        for field in schema
        if not field.nullable
    ]
    return TableSuite(key, gx.ExpectationSuite(table, [columns, *required, *rules]))


def known_quota_type() -> Rule:
    """Return the rule that ``quota_type`` is one of Kafka's four."""
    return known_values("known_quota_type", "quota_type", QUOTA_TYPES)


def known_values(name: str, column: str, values: tuple[str, ...]) -> Rule:
    """Return the rule that ``column``, where it has a value, holds one of ``values``."""
    return rule(
        gxe.ExpectColumnValuesToBeInSet,
        name,
        f"{column} is one of {', '.join(values)}.",
        column=column,
        value_set=list(values),
    )


def has_value(name: str, column: str, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that ``column`` has a value."""
    return rule(gxe.ExpectColumnValuesToNotBeNull, name, sentence, column=column, **arguments)


def has_no_value(name: str, column: str, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that ``column`` has no value."""
    return rule(gxe.ExpectColumnValuesToBeNull, name, sentence, column=column, **arguments)


def always(name: str, column: str, value: object, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that ``column``, where it has a value, holds ``value``."""
    kind = gxe.ExpectColumnValuesToBeInSet
    return rule(kind, name, sentence, column=column, value_set=[value], **arguments)


def has_rows(name: str, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that the table has a row."""
    return rule(gxe.ExpectTableRowCountToBeBetween, name, sentence, min_value=1, **arguments)


def is_other_than(column: str, value: str) -> AndCondition:
    """Return the condition that ``column`` has a value, and another one than ``value``.

    Spark leaves rows without a value out of a comparison and pandas does not: this says it.
    """
    return (Column(column) != value) & Column(column).is_not_null()


def entity_has_a_part() -> Rule:
    """Return the rule that a configured entity names a user, a client-id, or both."""
    return has_value(
        "entity_has_a_part",
        "quota_client_id",
        "The entity names a user or a client-id (or a default): a quota on nobody binds nobody.",
        row_condition=Column("quota_user").is_null(),
    )


def between(name: str, column: str, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that ``column``, where it has a value, lies between what is given.

    ``arguments`` are ``min_value``, ``max_value``, both included, and what every rule may have.
    """
    return rule(gxe.ExpectColumnValuesToBeBetween, name, sentence, column=column, **arguments)


def at_least(name: str, column: str, minimum: int, sentence: str) -> Rule:
    """Return the rule that the integer ``column``, where it has a value, is >= ``minimum``."""
    return between(name, column, sentence, min_value=minimum)


def not_negative(name: str, column: str, sentence: str, **arguments: Any) -> Rule:
    """Return the rule that ``column``, where it has a value, is a number of at least 0."""
    return between(name, column, sentence, min_value=0, max_value=LARGEST_DOUBLE, **arguments)


def integers_not_negative(*columns: str, because: str = "is not negative.") -> list[Rule]:
    """Return a rule for each of the integer ``columns``: where it has a value, it is >= 0."""
    return [at_least(f"{c}_not_negative", c, 0, f"{c} {because}") for c in columns]


def doubles_not_negative(*columns: str) -> list[Rule]:
    """Return a rule for each of ``columns``: where it has a value, it is a number >= 0."""
    return [not_negative(f"{c}_not_negative", c, f"{c} is not negative.") for c in columns]


def bound_not_negative() -> Rule:
    """Return the rule that ``bound``, where it has a value, is a number of at least 0."""
    return not_negative("bound_not_negative", "bound", "A quota's bound is a number of at least 0.")


def rate_not_negative() -> Rule:
    """Return the rule that ``rate``, where it has a value, is no negative one."""
    return between(
        "rate_not_negative",
        "rate",
        "A rate is not below 0 by more than rounding.",
        min_value=-1e-3,
        max_value=LARGEST_DOUBLE,
    )


def throttling_not_negative() -> list[Rule]:
    """Return the rules that throttled requests and their throttle times are counted from 0."""
    return [
        *integers_not_negative("throttled_requests", because="counts, so it is not negative."),
        at_least(
            "throttle_time_not_negative",
            "throttle_time_ms",
            0,
            "The sum of throttle times is not negative.",
        ),
    ]


def order_of_sensor_from_0() -> list[Rule]:
    """Return the rules that a sensor's epochs, and places in it, count from 0."""
    return [
        at_least("sensor_epoch_not_negative", "sensor_epoch", 0, "Sensor epochs count from 0."),
        at_least("sensor_seq_not_negative", "sensor_seq", 0, "Places in a sensor count from 0."),
    ]


def source_line_from_1() -> Rule:
    """Return the rule that ``source_line``, where it has a value, is the number of a line."""
    return at_least("source_line_from_1", "source_line", 1, "Lines are counted from 1.")


def evidence_is_json(of_what: str) -> Rule:
    """Return the rule that ``evidence`` of ``of_what``, as ``a finding``, is JSON."""
    return rule(
        gxe.ExpectColumnValuesToBeJsonParseable,
        "evidence_is_json",
        f"The numbers behind {of_what} are JSON.",
        column="evidence",
    )


def not_empty(column: str) -> Rule:
    """Return the rule that the text of ``column``, where it has a value, is not blank."""
    return rule(
        gxe.ExpectColumnValuesToMatchRegex,
        f"{column}_is_not_blank",
        f"{column} is a text that says something.",
        column=column,
        regex=r"\S",
    )


def once(name: str, sentence: str, *columns: str) -> Rule:
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
    name: str,
    earlier: str,
    later: str,
    sentence: str,
    *,
    strictly: bool = False,
    **arguments: Any,
) -> Rule:
    """Return the rule ``earlier`` <= ``later`` (< if ``strictly``), where both have a value."""
    return rule(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB,
        name,
        sentence,
        column_A=later,
        column_B=earlier,
        or_equal=not strictly,
        ignore_row_if="either_value_is_missing",
        **arguments,
    )


def part_of(name: str, part: str, whole: str) -> Rule:
    """Return the rule that the count ``part`` is of things that ``whole`` counts too."""
    return not_after(name, part, whole, f"A part of the {whole}.")


def within_the_day(column: str) -> Rule:
    """Return the rule that ``column`` lies in the partition's UTC day (given when it is run)."""
    return between(
        f"{column}_is_in_the_day",
        column,
        f"{column} lies in the UTC day of the partition.",
        min_value={"$PARAMETER": "day_first_ms"},
        max_value={"$PARAMETER": "day_last_ms"},
    )


def rows_as_counted(parameter: str, sentence: str) -> Rule:
    """Return the rule that the table has as many rows as ``parameter`` says when it is run."""
    return rule(
        gxe.ExpectTableRowCountToEqual,
        "rows_as_counted_in_files",
        sentence,
        value={"$PARAMETER": parameter},
    )
