"""Digests of tables: the same rows give the same digest, in whatever order they were written."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import typer

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import TABLES, partition_columns


def table_digest(rows: pa.Table) -> str:
    """Return the SHA-256 of the rows in total order (by the text of all their columns)."""
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows.to_pylist())
    total = hashlib.sha256()
    for line in lines:
        total.update(line.encode() + b"\n")
    return total.hexdigest()


def print_digests(warehouse: Path, cluster: str, day: dt.date | None) -> None:
    """Print ``digest rows table [day]`` for each table of the days asked for."""
    days = [day] if day else days_of(warehouse, cluster)
    if not days:
        raise BadInputError(f"{warehouse} has no audited day of cluster {cluster!r}.")
    for table in TABLES:
        for one_day in days if "date" in partition_columns(table) else days[-1:]:
            rows = read_table(RunScope(warehouse, cluster, one_day), table)
            when = one_day if "date" in partition_columns(table) else ""
            typer.echo(f"{table_digest(rows)} {rows.num_rows:>9} {table} {when}".rstrip())
