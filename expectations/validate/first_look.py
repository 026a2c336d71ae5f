"""What one look at a large table decides: a rule that no row breaks needs no second one.

Great Expectations names the rows that break a rule by looking at the whole table again, twice for
each rule. Whether any does it says of all rules of the same rows in a single pass.
"""

from __future__ import annotations

from typing import Any

import great_expectations as gx
from great_expectations.core import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    Expectation,
    MulticolumnMapExpectation,
)
from great_expectations.validator.validation_statistics import calc_validation_statistics

from expectations.validate.frames import StoredTable

_LOOKS_AT_ROWS = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
Held = dict[str, ExpectationValidationResult]


def held_by_every_row(
    stored: StoredTable, batch: Any, suite: gx.ExpectationSuite, parameters: dict[str, int]
) -> Held:
    """Return the result of each rule that no row of ``batch`` breaks, by the rule's name.

    The other rules need a second look: their results here, exceptions too, do not name the rows.
    """
    asked = [rule for rule in suite.expectations if _all_or_nothing(rule)]
    found = batch.validate(
        gx.ExpectationSuite(name=stored.table, expectations=asked),
        result_format="BOOLEAN_ONLY",
        expectation_parameters=parameters,
    )
    held = {_name(result): result for result in found.results if result.success}
    for result in held.values():
        # The result that a second look would give, for the pages.
        result.result = {
            "element_count": stored.rows,
            "unexpected_count": 0,
            "unexpected_percent": 0.0,
            "partial_unexpected_list": [],
        }
    return held


def without(suite: gx.ExpectationSuite, held: Held) -> gx.ExpectationSuite:
    """Return the suite of the rules that a second look is for."""
    rest = [rule for rule in suite.expectations if _rule(rule) not in held]
    return gx.ExpectationSuite(name=suite.name, expectations=rest)


def put_back(
    held: Held, validation: ExpectationSuiteValidationResult, suite: gx.ExpectationSuite
) -> None:
    """Add the first look's results ``held`` to the second's, in the order of ``suite``."""
    found = {_name(result): result for result in validation.results} | held
    validation.results = [found[_rule(rule)] for rule in suite.expectations]
    statistics = calc_validation_statistics(validation.results)._asdict()
    validation.success = statistics.pop("success")
    validation.statistics = statistics


def _all_or_nothing(rule: Expectation) -> bool:
    return isinstance(rule, _LOOKS_AT_ROWS) and rule.mostly == 1


def _rule(expectation: Expectation) -> str:
    return str((expectation.meta or {})["rule"])


def _name(result: ExpectationValidationResult) -> str:
    config = result.expectation_config
    assert config is not None
    return str(config.meta["rule"])
