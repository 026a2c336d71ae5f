"""Tables read again and again: the files of a day and what their footers say are kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.warehouse.read import open_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import is_in_bucket
from spark_jobs.warehouse.tables import TABLES

KEPT_MAX = 256
"""Of partitions: the footers of one with a million rows take some 100 kB."""


def kept_table(scope: RunScope, table: str) -> ds.Dataset:
    """Return this scope's rows of ``table``, as ``open_table`` does.

    The file lists and footers of the last KEPT_MAX partitions stay in memory, each until its
    partition is written again.
    """
    stamp = stamp_of(scope.partition_dir(table))
    return open_table(scope, table) if stamp is None else _kept(scope, table, stamp)


def read_kept(
    scopes: Sequence[RunScope], table: str, columns: list[str], where: ds.Expression
) -> pa.Table:
    """Return ``columns`` of the rows of some days that ``where`` keeps, read side by side."""
    schema = pa.schema([TABLES[table].field(c) for c in columns])
    if not scopes:
        return schema.empty_table()
    days = ds.dataset([kept_table(scope, table) for scope in scopes])
    return days.to_table(columns=columns, filter=where).cast(schema)


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return a stamp that changes when ``path`` is written again; None where nothing is there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    # Objects in a bucket have no inode; the folder of a version has a name of its own.
    return hash(path) if is_in_bucket(path) else found.st_ino, found.st_mtime_ns


@lru_cache(maxsize=KEPT_MAX)
def _kept(scope: RunScope, table: str, _stamp: tuple[int, int]) -> ds.Dataset:
    return open_table(scope, table)
