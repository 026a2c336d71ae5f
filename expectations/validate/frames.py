"""The rows that are checked, as a pandas frame or a Spark one, alike in names and values.

Only what is stored is read: a column that the files lack is lacking in the frame, and a missing
value stays one (``ArrowDtype``: an integer column with nulls stays an integer column). A list
column is seen as its length. ``decisions`` also get the record interval of their request.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd  # noqa: TID251 - this room is where pandas belongs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.errors import BadInputError, CheckBrokenError
from spark_jobs.warehouse.parquet import parquet_dataset
from spark_jobs.warehouse.read import whole_folder
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import spark_path
from spark_jobs.warehouse.tables import TABLES

_LINE = ["source_file", "source_line"]
_INTERVAL = ["recorded_earliest_ms", "recorded_latest_ms"]


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What a partition of a table holds by its Parquet footers; ``columns`` are in every file."""

    table: str
    folder: Path
    rows: int
    columns: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """Return the contract's types of the stored columns, all nullable as files are."""
        fields = (TABLES[self.table].field(name).with_nullable(True) for name in self.columns)
        return pa.schema(fields)


def stored_table(scope: RunScope, table: str) -> StoredTable:
    """Return the row count and columns stored of ``table``; a missing partition has no rows.

    Raises CheckBrokenError where a file is not readable Parquet.
    """
    folder = scope.partition_dir(table)
    contract = tuple(TABLES[table].names)
    if not folder.is_dir():
        return StoredTable(table, folder, 0, contract)
    try:
        stored = parquet_dataset(whole_folder(scope, table))
        in_files = [set(f.physical_schema.names) for f in stored.get_fragments()]
        rows = stored.count_rows()
    except (BadInputError, OSError, pa.ArrowException) as error:
        raise CheckBrokenError(
            f"The checks of {table} are broken: its partition cannot be read as Parquet ({error}). "
            f"Write it again, or remove {folder}."
        ) from error
    columns = tuple(name for name in contract if all(name in names for names in in_files))
    return StoredTable(table, folder, rows, columns)


def sum_of(scope: RunScope, table: str, column: str) -> int:
    """Return the sum of an integer column of ``table``; 0 where there are no rows or no column."""
    stored = stored_table(scope, table)
    if column not in stored.columns:
        return 0
    return pc.sum(_read(stored, [column])[column]).as_py() or 0


def pandas_frame(scope: RunScope, stored: StoredTable) -> pd.DataFrame:
    """Return the rows of a table as a pandas frame of Arrow types."""
    rows = _read(stored, list(stored.columns))
    for index, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            rows = rows.set_column(index, field.name, pc.list_value_length(rows[field.name]))
    if _wants_interval(stored):
        rows = _with_interval(rows, stored_table(scope, "requests"))
    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def spark_frame(spark: SparkSession, scope: RunScope, stored: StoredTable) -> DataFrame:
    """Return the rows of a table as a Spark frame."""
    rows = _scan(spark, stored).select(
        *(
            F.when(F.col(f.name).isNotNull(), F.size(f.name)).alias(f.name)
            if pa.types.is_list(f.type)
            else F.col(f.name)
            for f in stored.schema()
        )
    )
    if not _wants_interval(stored):
        return rows
    requests = _scan(spark, stored_table(scope, "requests"))
    intervals = requests.groupBy(*_LINE).agg(
        F.min(_INTERVAL[0]).alias(f"request_{_INTERVAL[0]}"),
        F.max(_INTERVAL[1]).alias(f"request_{_INTERVAL[1]}"),
    )
    return rows.join(intervals, on=_LINE, how="left")


def _scan(spark: SparkSession, stored: StoredTable) -> DataFrame:
    schema = from_arrow_schema(stored.schema())
    if stored.rows == 0:
        return spark.createDataFrame([], schema=schema)
    return spark.read.schema(schema).parquet(spark_path(stored.folder))


def _read(stored: StoredTable, columns: list[str]) -> pa.Table:
    schema = stored.schema()
    if stored.rows == 0:
        return pa.schema([schema.field(name) for name in columns]).empty_table()
    try:
        return parquet_dataset(stored.folder, schema).to_table(columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise CheckBrokenError(
            f"The checks of {stored.table} are broken: a column has another type than the "
            f"contract's ({error}). Write {stored.folder} again with its schema."
        ) from error


def _wants_interval(stored: StoredTable) -> bool:
    return stored.table == "decisions" and set(_LINE) <= set(stored.columns)


def _with_interval(decisions: pa.Table, requests: StoredTable) -> pa.Table:
    _expect_columns(requests, [*_LINE, *_INTERVAL])
    read = _read(requests, [*_LINE, *_INTERVAL])
    earliest, latest = _INTERVAL
    intervals = read.group_by(_LINE).aggregate([(earliest, "min"), (latest, "max")])
    intervals = intervals.rename_columns(
        {f"{earliest}_min": f"request_{earliest}", f"{latest}_max": f"request_{latest}"}
    )
    # A hash join loses the order of rows, which decides the sample that a failure names.
    position = pa.array(range(decisions.num_rows), pa.int64())
    joined = decisions.append_column("position", position).join(intervals, keys=_LINE)
    return joined.sort_by("position").drop_columns("position")


def _expect_columns(stored: StoredTable, columns: list[str]) -> None:
    missing = [name for name in columns if name not in stored.columns]
    if missing:
        raise CheckBrokenError(
            f"The checks of decisions are broken: {stored.table} in {stored.folder} lacks "
            f"{', '.join(missing)}. Ingest the day again."
        )
