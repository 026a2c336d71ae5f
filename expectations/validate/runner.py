"""Validating the tables of a stage: one checkpoint per table, one verdict for all of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import great_expectations as gx
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.types.base import ProgressBarsConfig
from pyspark.sql import DataFrame, SparkSession

from expectations.suites.rules import TableSuite
from expectations.validate import data_docs
from expectations.validate.first_look import Held, held_by_every_row, put_back, without
from expectations.validate.frames import (
    StoredTable,
    pandas_frame,
    spark_frame,
    stored_table,
    sum_of,
)
from expectations.validate.overview import write_overview
from expectations.validate.results import (
    ROWS_IN_SAMPLE_MAX,
    RULES_IN_SENTENCE_MAX,
    TableResult,
    ValidationReport,
    failure_text,
    table_result,
)
from spark_jobs.errors import BadInputError, CheckBrokenError, DataQualityError, QuotaAuditError
from spark_jobs.settings import ValidateSettings
from spark_jobs.warehouse.days import DAY_MS
from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import remove_folder
from spark_jobs.warehouse.write import new_output

SUITES: dict[str, Callable[[], TableSuite]] = {
    table: getattr(import_module(f"expectations.suites.{stage}"), table)
    for stage, tables in STAGES.items()
    for table in tables
}
REQUIRED = frozenset({"requests", "files", "brokers"})
"""Every audited day has rows of these; a partition of another table is absent when it is empty."""
SparkSource = SparkSession | Callable[[], SparkSession]


def validate_tables(
    scope: RunScope,
    stage: str,
    spark: SparkSource | None = None,
    settings: ValidateSettings | None = None,
) -> ValidationReport:
    """Validate the tables of ``stage`` and return what was found; warnings do not stop.

    ``spark``, a session or what starts one, is used for tables with more rows than
    ``settings.in_memory_rows_max``. Writes ``data_quality/…/<stage>.json`` and the Data Docs of the
    stage, also when something is wrong. Raises CheckBrokenError where a rule could not be
    evaluated, DataQualityError where a critical rule does not hold.
    """
    if stage not in STAGES:
        raise BadInputError(f"There is no stage {stage!r}. Use one of {', '.join(STAGES)}.")
    settings, held = settings or ValidateSettings(), scope.held()
    stored = [_stored(held, table) for table in STAGES[stage]]
    outcome: ValidationReport | QuotaAuditError
    with TemporaryDirectory(prefix="quota-audit-data-docs-") as drafts:
        checks = _Checks(_context(Path(drafts)), held, stage, _parameters(held), spark)
        # One after the other: outside of a run, taking one removes what is not taken yet.
        with new_output("data_quality", scope) as results:
            # A stage that cannot be validated has no results, also no former ones.
            path = results / f"{stage}.json"
            path.unlink(missing_ok=True)
            try:
                tables = [checks.run(one, settings.in_memory_rows_max) for one in stored]
                outcome = ValidationReport(scope.cluster, str(scope.day), stage, tuple(tables))
                outcome.write(path)
            except QuotaAuditError as error:
                outcome = error
        with new_output("data_docs", scope) as docs:
            pages = docs / stage
            remove_folder(pages)
            if isinstance(outcome, ValidationReport):
                data_docs.write_pages(Path(drafts), pages, outcome)
    if scope.run is None:
        path = scope.shown_dir("data_quality") / path.name
        pages = scope.shown_dir("data_docs") / stage
        write_overview(scope.warehouse)
    if isinstance(outcome, QuotaAuditError):
        raise outcome
    _raise_for(outcome, f"Details: {path} and {pages / 'index.html'}.")
    return outcome


@dataclass(slots=True)
class _Checks:
    """The checkpoints of one stage in one Great Expectations context."""

    _context: EphemeralDataContext
    _scope: RunScope
    _stage: str
    _parameters: dict[str, int]
    _spark: SparkSource | None

    def run(self, stored: StoredTable, in_memory_rows_max: int) -> TableResult:
        """Return the outcome of one table's suite on the engine its size asks for.

        Raises CheckBrokenError where Great Expectations itself gives up.
        """
        try:
            return self._run(stored, in_memory_rows_max)
        except QuotaAuditError:
            raise
        except Exception as error:
            raise CheckBrokenError(
                f"The checks of {stored.table} are broken: evaluating them for {stored.folder} "
                f"raised {type(error).__name__}: {error}. This says nothing about the data; "
                "nothing is published."
            ) from error

    def _run(self, stored: StoredTable, in_memory_rows_max: int) -> TableResult:
        source: Any
        frame: Any
        if stored.rows <= in_memory_rows_max:
            source = self._context.data_sources.add_or_update_pandas("pandas")
            frame = pandas_frame(self._scope, stored)
        else:
            spark = self._session(stored, in_memory_rows_max)
            # A cached row has all its columns, and costs more than the few looks that are left.
            source = self._context.data_sources.add_or_update_spark("spark", persist=False)
            frame = spark_frame(spark, self._scope, stored)
        asset = source.add_dataframe_asset(stored.table)
        batch = asset.add_batch_definition_whole_dataframe("partition")
        key, suite = SUITES[stored.table]()
        given = {"dataframe": frame}
        held: Held = {}
        if isinstance(frame, DataFrame):
            held = held_by_every_row(stored, batch.get_batch(given), suite, self._parameters)
        result = self._checkpoint(stored, batch, key, without(suite, held)).run(
            batch_parameters=given,
            expectation_parameters=self._parameters,
            run_id=self._run_id(),
        )
        (validation,) = result.run_results.values()
        if held:
            put_back(held, validation, suite)
        data_docs.draft_pages(self._context, result)
        return table_result(stored, source.name, key, validation)

    def _checkpoint(
        self, stored: StoredTable, batch: Any, key: tuple[str, ...], rules: gx.ExpectationSuite
    ) -> gx.Checkpoint:
        suite = self._context.suites.add(rules)
        definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=stored.table, data=batch, suite=suite)
        )
        checkpoint = gx.Checkpoint(
            name=stored.table,
            validation_definitions=[definition],
            result_format={
                "result_format": "SUMMARY",
                "unexpected_index_column_names": [n for n in key if n in stored.columns],
                "partial_unexpected_count": ROWS_IN_SAMPLE_MAX,
                "return_unexpected_index_query": False,
            },
        )
        return self._context.checkpoints.add(checkpoint)

    def _session(self, stored: StoredTable, in_memory_rows_max: int) -> SparkSession:
        if self._spark is None:
            raise CheckBrokenError(
                f"{stored.table} has {stored.rows} rows, more than the {in_memory_rows_max} "
                "that are checked in memory, and no Spark was given. Raise "
                "QUOTA_AUDIT_VALIDATE_IN_MEMORY_ROWS_MAX or run the step with Spark."
            )
        if callable(self._spark):
            self._spark = self._spark()
        return self._spark

    def _run_id(self) -> RunIdentifier:
        # The audited day instead of a clock: validating twice writes the same pages.
        midnight = dt.datetime.combine(self._scope.day, dt.time(), dt.UTC)
        name = f"{self._scope.cluster} {self._scope.day} {self._stage}"
        return RunIdentifier(run_name=name, run_time=midnight)


def _context(drafts: Path) -> EphemeralDataContext:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    data_docs.add_site(context, drafts)
    return context


def _stored(scope: RunScope, table: str) -> StoredTable:
    folder = scope.partition_dir(table)
    if table in REQUIRED and not folder.is_dir():
        raise CheckBrokenError(
            f"The checks of {table} are broken: expected the partition {folder}, found none. "
            f"Run ingest for {scope.day} of cluster {scope.cluster} first."
        )
    return stored_table(scope, table)


def _parameters(scope: RunScope) -> dict[str, int]:
    """Return the numbers that only a run knows: the day's ends (ms), and the rows files counted."""
    midnight = dt.datetime.combine(scope.day, dt.time(), dt.UTC)
    day_first_ms = int(midnight.timestamp()) * 1000
    return {
        "day_first_ms": day_first_ms,
        "day_last_ms": day_first_ms + DAY_MS - 1,
        "requests_in_files": sum_of(scope, "files", "requests"),
        "quarantined_in_files": sum_of(scope, "files", "quarantined"),
    }


def _raise_for(report: ValidationReport, where: str) -> None:
    what = f"stage {report.stage}, cluster {report.cluster}, {report.date}"
    broken = report.broken()
    if broken:
        lines = [f"{table.table}, rule {rule.rule}: {rule.error}" for table, rule in broken]
        lines += [failure_text(table, rule) for table, rule in report.failed("critical")]
        raise CheckBrokenError(
            f"Data quality is unknown ({what}): {_rules(len(broken))} could not be evaluated. "
            f"Nothing is published.\n{_listed(lines)}\n{where}"
        )
    failed = report.failed("critical")
    if failed:
        lines = [failure_text(table, rule) for table, rule in failed]
        raise DataQualityError(
            f"The data is bad ({what}): {_rules(len(failed), 'critical ')} broken. "
            f"Nothing is published.\n{_listed(lines)}\n{where}"
        )


def _listed(lines: list[str]) -> str:
    shown = [f"- {line}" for line in lines[:RULES_IN_SENTENCE_MAX]]
    rest = len(lines) - len(shown)
    return "\n".join([*shown, f"- and {rest} more"] if rest > 0 else shown)


def _rules(count: int, kind: str = "") -> str:
    return f"{count} {kind}rule" if count == 1 else f"{count} {kind}rules"
