"""What a validation found, per table and rule with the rows that broke it: JSON and sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: TID251 - Great Expectations hands its missing value over
from great_expectations.core import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)

from expectations.suites.rules import COLUMNS_RULE
from expectations.validate.frames import StoredTable

ROWS_IN_SAMPLE_MAX = 20
ROWS_IN_SENTENCE_MAX = 5
RULES_IN_SENTENCE_MAX = 10
_VALUE_LENGTH_MAX = 120


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule of one table.

    ``error`` is set where the rule could not be evaluated (``success`` says nothing then);
    ``found`` is what a rule on the whole table saw; ``failed_rows`` are counted even where
    ``success`` is true because the rule tolerates some; ``sample`` holds the first of them, each
    with the table's key columns and the columns the rule looked at (NaN and infinity as text).
    """

    rule: str
    description: str
    severity: str
    success: bool
    failed_rows: int
    found: str | None
    sample: tuple[dict[str, Any], ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class TableResult:
    """All rules of one table; ``engine`` is pandas or spark."""

    table: str
    rows: int
    engine: str
    rules: tuple[RuleResult, ...]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All tables of one stage of one audited day."""

    cluster: str
    date: str
    stage: str
    tables: tuple[TableResult, ...]

    def broken(self) -> list[tuple[TableResult, RuleResult]]:
        """Return the rules that could not be evaluated, the cause of others first."""
        found = [(table, rule) for table, rule in self._rules() if rule.error is not None]
        return sorted(found, key=lambda pair: pair[1].rule != COLUMNS_RULE)

    def failed(self, severity: str) -> list[tuple[TableResult, RuleResult]]:
        """Return the evaluated rules of ``severity`` that do not hold."""
        return [
            (table, rule)
            for table, rule in self._rules()
            if rule.error is None and not rule.success and rule.severity == severity
        ]

    @property
    def outcome(self) -> str:
        """Return broken, failed, warnings or passed: the worst thing found."""
        if self.broken():
            return "broken"
        if self.failed("critical"):
            return "failed"
        return "warnings" if self.failed("warning") else "passed"

    def sentence(self) -> str:
        """Return the outcome in one line for the terminal."""
        count = sum(len(table.rules) for table in self.tables)
        start = f"validated {self.stage}: {count} rules on {len(self.tables)} tables"
        warnings = self.failed("warning")
        if not warnings:
            return f"{start}, all critical ones and warnings hold"
        names = ", ".join(f"{rule.rule} of {table.table}" for table, rule in warnings)
        plural = "" if len(warnings) == 1 else "s"
        return f"{start}, {len(warnings)} warning{plural}: {names}"

    def write(self, path: Path) -> None:
        """Write the report as JSON, the same bytes for the same tables."""
        document = {"outcome": self.outcome} | asdict(self)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", "utf-8")

    def _rules(self) -> Iterator[tuple[TableResult, RuleResult]]:
        return ((table, rule) for table in self.tables for rule in table.rules)


def table_result(
    stored: StoredTable,
    engine: str,
    key: tuple[str, ...],
    validation: ExpectationSuiteValidationResult,
) -> TableResult:
    """Return Great Expectations' results for a table, in the order of rule names.

    ``key`` are the table's key columns: a sample row names them first.
    """
    rules = sorted((_rule_result(r, key) for r in validation.results), key=lambda r: r.rule)
    return TableResult(stored.table, stored.rows, engine, tuple(rules))


def _rule_result(result: ExpectationValidationResult, key: tuple[str, ...]) -> RuleResult:
    config: Any = result.expectation_config
    found: dict[str, Any] = result.result or {}
    rows = found.get("partial_unexpected_index_list") or []
    sample = sorted((_ordered(row, key) for row in rows), key=json.dumps)
    return RuleResult(
        rule=config.meta["rule"],
        description=config.description,
        severity=str(config.severity.value),
        success=bool(result.success),
        failed_rows=found.get("unexpected_count") or 0,
        found=_found(found, config.kwargs),
        sample=tuple(sample[:ROWS_IN_SAMPLE_MAX]),
        error=_exception(result.exception_info or {}) or _missing_columns(found),
    )


def failure_text(table: TableResult, rule: RuleResult) -> str:
    """Return a failed rule in sentences: table, rule, how many rows, and which ones first."""
    text = f"{table.table} breaks {rule.rule}: {rule.description}"
    if rule.found is not None:
        return f"{text} Found: {rule.found}."
    named = rule.sample[:ROWS_IN_SENTENCE_MAX]
    rows = "; ".join(", ".join(f"{k}={_shown(v)}" for k, v in row.items()) for row in named)
    more = rule.failed_rows - len(named)
    rest = f"; and {more} more" if more > 0 else ""
    return f"{text} {rule.failed_rows} of {table.rows} rows break it: {rows}{rest}."


def _found(result: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """Return the number of rows that a rule saw and wanted; None for rules on single rows."""
    observed = result.get("observed_value")
    if "unexpected_count" in result or not isinstance(observed, int):
        return None
    if "value" in arguments:
        return f"{observed} rows, expected {arguments['value']}"
    return f"{observed} rows, expected at least {arguments['min_value']}"


def _ordered(row: dict[str, Any], key: tuple[str, ...]) -> dict[str, Any]:
    names = [*(name for name in key if name in row), *sorted(set(row) - set(key))]
    return {name: _plain(row[name]) for name in names}


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON has it: no NaN (which is no missing value), no engine's types."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or value is pd.NA:
        return None
    return value.item() if hasattr(value, "item") else value


def _shown(value: Any) -> str:
    """Return ``value`` for a sentence: quoted where it would not be seen, cut where it is long."""
    text = str(value)
    if isinstance(value, str) and (not value.strip() or not value.isprintable()):
        text = repr(value)
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[: _VALUE_LENGTH_MAX - 1]}…"


def _missing_columns(result: dict[str, Any]) -> str | None:
    """Return a text naming the contract's missing columns: rules on them cannot be evaluated."""
    missing = ((result.get("details") or {}).get("mismatched") or {}).get("missing") or []
    plural = "" if len(missing) == 1 else "s"
    return f"missing column{plural} {', '.join(missing)}" if missing else None


def _exception(info: dict[str, Any]) -> str | None:
    """Return the first exception's message; one metric of a rule or the rule itself may raise.

    An exception looks like a failure (success is false): only this tells them apart.
    """
    single = [info] if "raised_exception" in info else list(info.values())
    for one in single:
        if one.get("raised_exception"):
            return str(one.get("exception_message")).strip()
    return None
