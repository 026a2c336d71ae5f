"""Writing tables of a day: as a draft that readers do not see, or published at once."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.warehouse.parquet import file_keys, made_by_now, parquet_file, write_parquet
from spark_jobs.warehouse.runs import (
    close_draft,
    draft_of,
    forget,
    kept_runs,
    note_carried,
    open_draft,
    publish,
    published_run,
    run_record,
    versions_of,
    write_run,
)
from spark_jobs.warehouse.scope import APPENDED, RunScope, days_of
from spark_jobs.warehouse.storage import (
    is_in_bucket,
    move_files,
    remove_folder,
    spark_path,
)
from spark_jobs.warehouse.tables import TABLES, partition_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_IN_GROUP = 65_536
"""The least that a reader of one sensor has to read of a file that is in order of sensors."""
UPKEEP_OWNERS = frozenset({f"quota-audit {name}" for name in ("migrate", "prune", "compact")})
"""Whose drafts are no audits."""
Part = tuple[pa.Table, int | None]
"""Rows of a file and the most of them that a row group has (None: Arrow's default), which is the
least that a reader of few has to read."""
VERSIONED = tuple(table for table in TABLES if table not in APPENDED)


def begin_draft(scope: RunScope, run: str) -> RunScope:
    """Begin to make ``run`` of a day from nothing, and return the day as that run has it.

    A draft of an earlier run that did not end is given up.
    """
    write_run(scope.runs, run, {})
    open_draft(scope.runs, run, _owner())
    return replace(scope, run=run)


def continued_draft(scope: RunScope) -> RunScope:
    """Return the day as the open draft has it, or as a new one that begins with what is published.

    Raises BadInputError where the draft is somebody else's.
    """
    return drafted_for(scope, _owner())


def drafted_for(scope: RunScope, owner: str | None) -> RunScope:
    """Return the day as the draft of ``owner`` has it; see :func:`continued_draft`."""
    draft = draft_of(scope.runs)
    if draft is None:
        run = new_run()
        write_run(scope.runs, run, _published_tables(scope), like=published_run(scope.runs))
        open_draft(scope.runs, run, owner)
        return replace(scope, run=run)
    run, other = draft
    if other != owner:
        raise BadInputError(
            f"{scope.cluster} {scope.day} is being audited by {_named(other)}, and this is "
            f"{_named(owner)}. Wait until that has published the day; or, if it will not, "
            "begin anew with 'quota-audit ingest'."
        )
    return replace(scope, run=run)


def draft_or_published(scope: RunScope) -> RunScope:
    """Return the day as one's own open draft has it, or as published where there is none."""
    draft = draft_of(scope.runs)
    return replace(scope, run=draft[0]) if draft and draft[1] == _owner() else scope


def new_run() -> str:
    """Return an id that no other run has."""
    return uuid.uuid4().hex


def check_draft(scope: RunScope) -> None:
    """Raise AuditFailedError where the run of ``scope`` is not the one that is being made."""
    draft = draft_of(scope.runs)
    if draft is None or draft[0] != scope.run:
        raise AuditFailedError(
            f"Another run of {scope.cluster} {scope.day} has begun, so this one stops: nothing "
            "that it made is published. Let one of them run at a time."
        )


def publish_draft(scope: RunScope) -> RunScope:
    """Let readers see all tables of the run of ``scope``; return the day as published.

    Nothing happens where it has no run. Raises BadInputError, and publishes nothing, where a file
    of the run is damaged.
    """
    if scope.run is None:
        return scope
    check_draft(scope)
    _check_files(scope)
    publish(scope.runs, scope.run)
    close_draft(scope.runs)
    published = replace(scope, run=None)
    _tidy(published, VERSIONED)
    return published


def forget_previous(scope: RunScope) -> None:
    """Remove what the run before wrote, as far as the published one does not name it too.

    A reader that began before the last publishing may find its files gone.
    """
    forget(scope.runs)
    _tidy(scope, VERSIONED)


def write_table(
    rows: pa.Table | DataFrame | Sequence[Part] | None, table: str, scope: RunScope
) -> None:
    """Replace this scope's partition of ``table`` by ``rows``; None leaves no partition.

    They are Arrow's or Spark's, or parts for a file each. No rows leave an empty partition. The
    new files are complete beside the old ones before they take their place, so a reader sees the
    old partition or the new one.
    """
    if rows is None:
        take_version(None, table, scope)
        return
    folder = new_version(table, scope)
    try:
        if isinstance(rows, pa.Table):
            _write_parts([(rows, None)], table, folder)
        elif isinstance(rows, Sequence):
            _write_parts(rows, table, folder)
        else:
            write_frame(rows, table, folder)
        take_version(folder, table, scope)
    except BaseException:
        remove_folder(folder)
        raise


def write_frame(rows: DataFrame, table: str, folder: Path) -> None:
    """Add Spark's ``rows``, which have the contract's columns, to the files in ``folder``.

    A file's row groups have ROWS_IN_GROUP rows at most.
    """
    first, *others = TABLES[table].names
    # Spark writes what the first column carries: with which version the file was written.
    said = rows[first].alias(first, metadata=file_keys(table))
    writer = rows.select(said, *others).write.mode("append")
    writer.option("parquet.block.row.count.limit", ROWS_IN_GROUP).parquet(spark_path(folder))


def _write_parts(parts: Sequence[Part], table: str, folder: Path) -> None:
    contracts = [(rows.cast(TABLES[table]), in_group) for rows, in_group in parts]
    folder.mkdir(parents=True)
    for number, (rows, in_group) in enumerate(contracts):
        write_parquet(rows, table, folder / f"part-{number}.parquet", in_group)


def put_files(
    files: Sequence[Path],
    table: str,
    scope: RunScope,
    beside: Mapping[str, Sequence[Path]] | None = None,
) -> None:
    """Make finished files (none: no partition) this day's rows of ``table``.

    ``beside`` are files for folders of these names next to them, which are no rows of the table.
    Outside of a run they are published at once. All are on one file system, or in one bucket.
    Raises AuditFailedError where another run of the day has begun.
    """
    version = None
    if files:
        version = new_version(table, scope)
        version.mkdir(parents=True)
        move_files((file, version / file.name) for file in files)
        for name, others in (beside or {}).items():
            if others:
                (version / name).mkdir()
                move_files((file, version / name / file.name) for file in others)
    take_version(version, table, scope)


def new_version(table: str, scope: RunScope) -> Path:
    """Return a folder for rows of ``table``, which nobody reads before ``take_version``."""
    return scope.runs / table / uuid.uuid4().hex


def take_version(version: Path | None, table: str, scope: RunScope) -> None:
    """Make a folder of :func:`new_version` this day's rows of ``table``; see ``put_files``."""
    run = scope.run or new_run()
    if scope.run is None:
        tables = _published_tables(scope)
    else:
        check_draft(scope)
        tables = dict((run_record(scope.runs, run) or {"tables": {}})["tables"])
    tables.pop(table, None)
    made_by = {}
    if version is not None:
        tables[table] = version.relative_to(scope.warehouse).as_posix()
        made_by[table] = asdict(made_by_now(table))
    write_run(scope.runs, run, tables, like=published_run(scope.runs), made_by=made_by)
    if scope.run is None:
        publish(scope.runs, run)
        _tidy(scope, [table])


def put_carried(before: str | None, after: str, scope: RunScope) -> None:
    """Say with which states the replay of a day began (None: with none) and with which it ended."""
    run = scope.run or published_run(scope.runs)
    assert run is not None, "a replay has written tables"
    note_carried(scope.runs, run, before, after)


def _check_files(scope: RunScope) -> None:
    """Open each file of the run: not all of its tables were read again by a step."""
    for folder in (scope.warehouse / table for table in (scope.tables() or {}).values()):
        for path in (*folder.glob("*.parquet"), *folder.glob("*/*.parquet")):
            parquet_file(path).close()


def _owner() -> str | None:
    """Return the Airflow run that this process is a step of, which Airflow tells its tasks."""
    return os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")


def _named(owner: str | None) -> str:
    if owner is None:
        return "a run on the command line"
    return f"'{owner}'" if owner in UPKEEP_OWNERS else f"the Airflow run {owner}"


def _published_tables(scope: RunScope) -> dict[str, str]:
    """Return the folders of the published tables, also of those written before there were runs."""
    published = replace(scope, run=None).held()
    folders = {table: published.partition_dir(table) for table in VERSIONED}
    return {
        table: folder.relative_to(scope.warehouse).as_posix()
        for table, folder in folders.items()
        if folder.is_dir()
    }


def _tidy(scope: RunScope, tables: Iterable[str]) -> None:
    """Show other tools what is published, and remove what no run needs any more."""
    scope = replace(scope, run=None).held()
    for table in tables:
        _link(scope, table)
    kept = kept_runs(scope.runs)
    needed = versions_of(scope.runs, kept)
    if draft_of(scope.runs) is None:  # else a version may be in the making that no run names yet
        for table in VERSIONED:
            for version in (scope.runs / table).glob("*"):
                if version.relative_to(scope.warehouse).as_posix() not in needed:
                    remove_folder(version)
    for file in scope.runs.glob("run-*.json"):
        if file.stem.removeprefix("run-") not in kept:
            file.unlink(missing_ok=True)


def _link(scope: RunScope, table: str) -> None:
    """Let the plain folder of a table be a link to the published version, where there is one."""
    if is_in_bucket(scope.warehouse):  # there are no links: who reads it asks the run's file
        return
    if "date" not in partition_columns(table) and scope.day != _last_day(scope):
        return
    plain = scope.plain_dir(table)
    version = (scope.tables() or {}).get(table)
    if version is None:
        _remove(plain)
        return
    target = scope.warehouse / version
    if target == plain:
        return
    if not plain.is_symlink():
        _remove(plain)
    plain.parent.mkdir(parents=True, exist_ok=True)
    link = plain.with_name(f".{plain.name}.{uuid.uuid4().hex}")
    link.symlink_to(os.path.relpath(target, plain.parent))
    link.replace(plain)


def _remove(plain: Path) -> None:
    if plain.is_dir() and not plain.is_symlink():  # written before there were runs
        shutil.rmtree(plain)
    else:
        plain.unlink(missing_ok=True)


def _last_day(scope: RunScope) -> object:
    days = days_of(scope.warehouse, scope.cluster, "quota_changes")
    return days[-1] if days else scope.day
