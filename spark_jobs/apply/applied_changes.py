"""The table ``applied_changes`` on disk: a file for each application, one run at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.apply.changes.history import RecordedApplication, recorded_applications
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.parquet import write_parquet
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.storage import is_in_bucket, sync
from spark_jobs.warehouse.tables import TABLES

TABLE = "applied_changes"


def record_application(scope: RunScope, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the rows of one application, or replace what was written of it; return the file.

    ``scope.day`` is the UTC day on which the application started. Other applications' files are
    left alone; a reader, or a machine that fails, sees the rows before or after, never half.
    """
    table = pa.Table.from_pylist([dict(row) for row in rows], TABLES[TABLE])
    folder = scope.partition_dir(TABLE)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"application-{rows[0]['application_id']}.parquet"
    # Readers pass over names with a dot in front.
    staged = folder / f".{target.name}"
    write_parquet(table, TABLE, staged)
    sync(staged)
    staged.rename(target)
    sync(folder)
    return target


def read_applications(warehouse: Path, cluster: str) -> list[RecordedApplication]:
    """Return everything that was applied to a cluster, oldest first."""
    return recorded_applications(applied_rows(warehouse, cluster))


def applied_rows(warehouse: Path, cluster: str) -> list[dict[str, Any]]:
    """Return the rows of all days of a cluster."""
    scopes = [RunScope(warehouse, cluster, day) for day in days_of(warehouse, cluster, TABLE)]
    # A rollback waits for no migration: what an older version did not note is null.
    tables = (read_table(scope, TABLE, of_any_version=True) for scope in scopes)
    return [row for table in tables for row in table.to_pylist()]


@contextmanager
def only_one_run(warehouse: Path, cluster: str) -> Iterator[None]:
    """Keep other runs that change the same cluster out; raises BadInputError where one goes on.

    The lock ends with the process that holds it, however that ends.
    """
    if is_in_bucket(warehouse):
        raise BadInputError(
            f"{warehouse} is in a bucket, where no lock keeps two runs from changing {cluster!r} "
            "at once: apply and rollback need a warehouse on a file system. 'quota-audit render' "
            "prints the changes."
        )
    folder = warehouse / TABLE / f"cluster={cluster}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInputError(
                f"Another apply or rollback of the cluster {cluster!r} is running on {warehouse}: "
                "wait until it has ended."
            ) from error
        yield
