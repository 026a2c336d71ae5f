"""Published tables read column by column, in batches, rows chosen while reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.warehouse import RunScope, open_table

# Counted batches are small, but a year of files has many: they are counted together now and then.
_PARTS_MAX = 64
# Two batches ahead keep the reader busy; Arrow's default of 16 costs memory for nothing here.
_BATCHES_AHEAD = 2

Measure = tuple[str, str]
"""A column and what is taken of it: ``min``, ``max`` or ``sum``."""


def read_rows(
    scope: RunScope, table: str, columns: list[str], where: ds.Expression | None = None
) -> pa.Table:
    """Return ``columns`` of this scope's rows of ``table`` that ``where`` keeps.

    The choice happens while the files are read: a day's ``rates`` or ``decisions`` may be larger
    than memory, what a report needs of them is not.
    """
    schema = pa.schema([TABLES[table].field(c) for c in columns])
    return open_table(scope, table).to_table(columns=columns, filter=where).cast(schema)


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
    yield from (batch for batch in scanner.to_batches() if batch.num_rows)


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
