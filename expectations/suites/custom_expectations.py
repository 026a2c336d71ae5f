"""Expectations of our own, each evaluated by pandas and by Spark with the same outcome.

A rule that compares columns of one row, or a row with its neighbours, is a multi-column map
expectation: the rows that break it are counted and named like those of the built-in ones. No
condition is ever null: a comparison with a missing value is decided here, not by the engine. That a
required value is missing breaks the rule that demands it, and no other: one defect, one rule.
"""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import PandasExecutionEngine, SparkDFExecutionEngine
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    MulticolumnMapExpectation,
)
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnMapMetricProvider,
    MulticolumnMapMetricProvider,
    column_condition_partial,
    multicolumn_condition_partial,
)
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_DOMAIN = ("batch_id", "table", "column_list", "row_condition", "condition_parser", "ignore_row_if")
_WINDOW = MetricPartialFunctionTypes.WINDOW_CONDITION_FN


class _ColumnMultipleOf(ColumnMapMetricProvider):
    condition_metric_name = "column_values.multiple_of"
    condition_value_keys = ("divisor",)

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: Any, divisor: int, **_: Any) -> Any:
        return column // divisor * divisor == column

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, divisor: int, **_: Any) -> Column:
        return column % F.lit(divisor) == 0


class ExpectColumnValuesToBeMultipleOf(ColumnMapExpectation):
    """Expect every value of an integer column to be a multiple of ``divisor``."""

    divisor: int
    map_metric: ClassVar[str] = "column_values.multiple_of"
    success_keys: ClassVar[tuple[str, ...]] = ("divisor", "mostly")


class _SumOfTheRest(MulticolumnMapMetricProvider):
    condition_metric_name = "multicolumn_values.first_is_sum_of_the_rest"
    condition_domain_keys = _DOMAIN

    @multicolumn_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_list: Any, **_: Any) -> Any:
        total, *parts = (column_list[name] for name in column_list.columns)
        return (sum(parts[1:], start=parts[0]) == total).fillna(True)

    @multicolumn_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column_list: DataFrame, **_: Any) -> Column:
        total, *parts = (F.col(name) for name in column_list.columns)
        return _decided(sum(parts[1:], start=parts[0]) == total, missing=True)


class ExpectFirstColumnToBeSumOfTheRest(MulticolumnMapExpectation):
    """Expect the first of ``column_list`` to be the sum of the others, where all have a value."""

    map_metric: ClassVar[str] = "multicolumn_values.first_is_sum_of_the_rest"


class _InOrder(MulticolumnMapMetricProvider):
    condition_metric_name = "multicolumn_values.in_order"
    condition_domain_keys = _DOMAIN
    condition_value_keys = ("middle_units", "slack", "slack_below")

    @multicolumn_condition_partial(engine=PandasExecutionEngine)
    def _pandas(
        cls, column_list: Any, middle_units: int, slack: int, slack_below: int, **_: Any
    ) -> Any:
        low, middle, high = (column_list[name] for name in column_list.columns)
        middle = middle // middle_units
        low = low - slack_below
        return (low <= middle).fillna(True) & (middle <= high + slack).fillna(True)

    @multicolumn_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(
        cls, column_list: DataFrame, middle_units: int, slack: int, slack_below: int, **_: Any
    ) -> Column:
        low, middle, high = (F.col(name) for name in column_list.columns)
        middle = F.floor(middle / F.lit(middle_units))
        above = _decided(low - F.lit(slack_below) <= middle, missing=True)
        return above & _decided(middle <= high + F.lit(slack), missing=True)


class ExpectMiddleColumnToLieBetween(MulticolumnMapExpectation):
    """Expect the second of three columns to lie between the first and the third, both included.

    The second is divided by ``middle_units`` first (1000: microseconds against milliseconds), and
    may exceed the third by ``slack`` and fall below the first by ``slack_below``. A missing end
    bounds nothing.
    """

    middle_units: int = 1
    slack: int = 0
    slack_below: int = 0
    map_metric: ClassVar[str] = "multicolumn_values.in_order"
    success_keys: ClassVar[tuple[str, ...]] = ("middle_units", "slack", "slack_below", "mostly")


class _NotBeforePrevious(MulticolumnMapMetricProvider):
    condition_metric_name = "multicolumn_values.not_before_previous"
    condition_domain_keys = _DOMAIN
    condition_value_keys = ("order_by", "starts", "previous_ends", "slack")

    @multicolumn_condition_partial(engine=PandasExecutionEngine)
    def _pandas(
        cls, column_list: Any, order_by: str, starts: str, previous_ends: str, slack: int, **_: Any
    ) -> Any:
        group = _group(list(column_list.columns), order_by, starts, previous_ends)
        rows = column_list.sort_values([*group, order_by], kind="stable", na_position="last")
        earlier = rows.groupby(group, dropna=False, sort=False)
        is_free = (earlier.cumcount() == 0) | rows[starts].isna()
        follows = (rows[starts] + slack >= earlier[previous_ends].shift()).fillna(False)
        return (is_free | follows).reindex(column_list.index)

    @multicolumn_condition_partial(engine=SparkDFExecutionEngine, partial_fn_type=_WINDOW)
    def _spark(
        cls,
        column_list: DataFrame,
        order_by: str,
        starts: str,
        previous_ends: str,
        slack: int,
        **_: Any,
    ) -> Column:
        group = _group(column_list.columns, order_by, starts, previous_ends)
        earlier = Window.partitionBy(*group).orderBy(F.col(order_by).asc_nulls_last())
        is_free = (F.row_number().over(earlier) == 1) | F.isnull(starts)
        follows = F.col(starts) + F.lit(slack) >= F.lag(previous_ends).over(earlier)
        return is_free | _decided(follows, missing=False)


class ExpectRowNotToStartBeforePrevious(MulticolumnMapExpectation):
    """Expect ``starts`` of a row to be at or after ``previous_ends`` of the row before it.

    It may be earlier by ``slack``.

    Rows are compared within groups of equal values of the other columns of ``column_list`` (missing
    values are equal), in order of ``order_by``. A missing end reaches into eternity; a row without
    a start is not compared.
    """

    order_by: str
    starts: str
    previous_ends: str
    slack: int = 0
    map_metric: ClassVar[str] = "multicolumn_values.not_before_previous"
    success_keys: ClassVar[tuple[str, ...]] = (
        "order_by",
        "starts",
        "previous_ends",
        "slack",
        "mostly",
    )


class _ShareOfSums(MulticolumnMapMetricProvider):
    condition_metric_name = "multicolumn_values.share_of_sums"
    condition_domain_keys = _DOMAIN
    condition_value_keys = ("share_max",)

    @multicolumn_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column_list: Any, share_max: float, **_: Any) -> Any:
        part, whole = (column_list[name] for name in column_list.columns)
        return (part <= 0).fillna(True) | bool(part.sum() <= share_max * whole.sum())

    @multicolumn_condition_partial(engine=SparkDFExecutionEngine, partial_fn_type=_WINDOW)
    def _spark(cls, column_list: DataFrame, share_max: float, **_: Any) -> Column:
        part, whole = (F.col(name) for name in column_list.columns)
        everything = Window.partitionBy(F.lit(0))
        within = F.sum(part).over(everything) <= F.lit(share_max) * F.sum(whole).over(everything)
        return _decided(part <= 0, missing=True) | _decided(within, missing=True)


class ExpectShareOfSumsToBeAtMost(MulticolumnMapExpectation):
    """Expect the sum of the first column to be at most ``share_max`` of the second's, table-wide.

    Where it is more, the rows that contribute to the first sum are the ones that break the rule.
    """

    share_max: float
    map_metric: ClassVar[str] = "multicolumn_values.share_of_sums"
    success_keys: ClassVar[tuple[str, ...]] = ("share_max", "mostly")


def _group(columns: list[str], *compared: str) -> list[str]:
    return [name for name in columns if name not in compared]


def _decided(condition: Column, *, missing: bool) -> Column:
    return F.coalesce(condition, F.lit(missing))
