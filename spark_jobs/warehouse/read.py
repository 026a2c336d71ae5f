"""Reading tables of a day: whole or in batches, columns and rows chosen, and in Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import WHAT_OF_DAMAGE, BadInputError
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.warehouse.parquet import (
    MadeBy,
    damage_told,
    made_by_of_file,
    other_version,
    parquet_dataset,
    parquet_file,
)
from spark_jobs.warehouse.recorded_files import HOW_DIFFERENT, differences
from spark_jobs.warehouse.scope import APPENDED, RunScope
from spark_jobs.warehouse.storage import spark_path
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Counted batches are small, but a year of files has many: they are counted together now and then.
_PARTS_MAX = 64
# Two batches ahead keep the reader busy; Arrow's default of 16 costs memory for nothing here.
_BATCHES_AHEAD = 2
_NAMED = 3

Measure = tuple[str, str]
"""A column and what is taken of it: ``min``, ``max`` or ``sum``."""


def open_table(scope: RunScope, table: str, *, of_any_version: bool = False) -> ds.Dataset:
    """Return this scope's rows of ``table`` to be read in portions; no rows if none exist.

    Raises BadInputError where they were removed because of their age, or have another version of
    the schema: unless ``of_any_version`` says that columns may be null which they lack.
    """
    schema, scope = TABLES[table], scope.held()
    folder = whole_folder(scope, table)
    if not folder.is_dir():
        check_not_pruned(scope, table)
        return ds.dataset(schema.empty_table())
    if not of_any_version:
        check_version(scope, table)
    return parquet_dataset(folder, schema)


def whole_folder(scope: RunScope, table: str) -> Path:
    """Return the folder of this scope's rows of ``table``, whose files are as they were written.

    Raises BadInputError where one is missing, was added, or differs, as far as that is known.
    """
    scope = scope.held()
    folder, recorded = scope.partition_dir(table), scope.recorded(table)
    if recorded is None:
        return folder
    found = [f"{name} ({HOW_DIFFERENT[how]})" for name, how in differences(folder, recorded)]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise BadInputError(
            f"{_named(scope, table)} is damaged: expected the files in {folder} that its run "
            f"recorded, found {', '.join(found[:_NAMED])}{more}. {WHAT_OF_DAMAGE}"
        )
    return folder


def read_table(
    scope: RunScope,
    table: str,
    columns: Sequence[str] | None = None,
    where: ds.Expression | None = None,
    *,
    of_any_version: bool = False,
) -> pa.Table:
    """Return ``columns`` (None: all) of this scope's rows of ``table`` that ``where`` keeps.

    They have the contract's schema. The choice happens while the files are read: a day's ``rates``
    or ``decisions`` may be larger than memory, what a report needs of them is not. See
    :func:`open_table` for what it raises.
    """
    schema = TABLES[table]
    wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns])
    rows = open_table(scope, table, of_any_version=of_any_version)
    with damage_told(_named(scope, table)):
        return rows.to_table(columns=wanted.names, filter=where).cast(wanted)


def read_batches(
    scope: RunScope,
    table: str,
    columns: Sequence[str] | Mapping[str, ds.Expression],
    where: ds.Expression | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield ``columns`` (names, or name → expression) of the rows that ``where`` keeps."""
    chosen = dict(columns) if isinstance(columns, Mapping) else list(columns)
    scanner = open_table(scope, table).scanner(
        columns=chosen, filter=where, batch_readahead=_BATCHES_AHEAD, fragment_readahead=1
    )
    with damage_told(_named(scope, table)):
        yield from (batch for batch in scanner.to_batches() if batch.num_rows)


def sensor_filter(sensors: Iterable[SensorKey]) -> ds.Expression:
    """Return the condition that keeps the rows of ``sensors``; of none, no row."""
    rows_of = (
        reduce(and_, (ds.field(name) == part for name, part in sensor._asdict().items()))
        for sensor in sensors
    )
    return reduce(or_, rows_of, ds.scalar(False))


def count_rows(
    batches: Iterator[pa.RecordBatch], keys: Sequence[str], measures: Sequence[Measure]
) -> pa.Table | None:
    """Return the rows of ``batches`` counted by ``keys``; None where there are none.

    Columns: the keys, ``rows``, and for each measure ``<column>_<min, max or sum>``. No more than
    a few batches are in memory at a time.
    """
    once = [([], "count_all"), *measures]
    again = [("rows", "sum"), *((f"{column}_{taken}", taken) for column, taken in measures)]
    names = [*keys, "rows", *(f"{column}_{taken}" for column, taken in measures)]
    parts: list[pa.Table] = []
    for batch in batches:
        counted = pa.Table.from_batches([batch]).group_by(list(keys)).aggregate(once)
        parts.append(counted.rename_columns(names))
        if len(parts) >= _PARTS_MAX:
            parts = [_together(parts, keys, again, names)]
    return _together(parts, keys, again, names) if parts else None


def _together(
    parts: list[pa.Table], keys: Sequence[str], again: list[Measure], names: list[str]
) -> pa.Table:
    counted = pa.concat_tables(parts).group_by(list(keys)).aggregate(again)
    return counted.rename_columns(names)


def read_frame(spark: SparkSession, table: str, scope: RunScope) -> DataFrame:
    """Return this scope's rows of ``table``; no rows where the partition does not exist."""
    # Pages and commands that only read with Arrow do not wait for this import.
    from pyspark.sql.pandas.types import from_arrow_schema

    # Parquet read back by Spark is nullable anyway; the suites check the required columns.
    schema = from_arrow_schema(pa.schema([f.with_nullable(True) for f in TABLES[table]]))
    scope = scope.held()
    folder = whole_folder(scope, table)
    if not folder.is_dir():
        check_not_pruned(scope, table)
        return spark.createDataFrame([], schema=schema)
    check_version(scope, table)
    return spark.read.schema(schema).parquet(spark_path(folder))


def made_by(scope: RunScope, table: str) -> MadeBy | None:
    """Return the version of its schema, and the program, that wrote this scope's ``table``.

    None where it has no file. The run says it, else the file itself.
    """
    said = {} if table in APPENDED else scope.made()
    if table in said:
        return said[table]
    # Hidden ones are what a stopped machine left half written.
    first = min(scope.partition_dir(table).glob("[!.]*.parquet"), default=None)
    if first is None:
        return None
    with parquet_file(first) as file:
        return made_by_of_file(file.metadata)


def program_of(scope: RunScope) -> str | None:
    """Return the version of the program that decided a day, as "0.1.0"; None: not known."""
    made = made_by(scope, "decisions")
    return None if made is None else made.program


def older_tables(scope: RunScope) -> dict[str, MadeBy]:
    """Return the tables of a day that an older version of this program wrote otherwise."""
    scope = scope.pinned()
    found = {table: made_by(scope, table) for table in TABLES}
    return {
        table: made
        for table, made in found.items()
        if made is not None and made.schema < SCHEMA_VERSIONS[table]
    }


def check_version(scope: RunScope, table: str) -> None:
    """Raise BadInputError where a table has another version of its schema than this program."""
    made, expected = made_by(scope, table), SCHEMA_VERSIONS[table]
    if made is None or made.schema == expected:
        return
    raise BadInputError(other_version(_named(scope, table), made, expected, str(scope.warehouse)))


def _named(scope: RunScope, table: str) -> str:
    return f"The table {table} of {scope.cluster} {scope.day}"


def check_not_pruned(scope: RunScope, table: str) -> None:
    """Raise BadInputError where a table of the day was removed because of its age."""
    kept_days = None if table in APPENDED else scope.pruned().get(table)
    if kept_days is not None:
        raise BadInputError(
            f"The table {table} of {scope.cluster} {scope.day} was removed by 'quota-audit prune', "
            f"which kept {kept_days} days of it. Audit the day again, where its logs are still in "
            "the archive."
        )
