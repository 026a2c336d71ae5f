"""Writing tables of a day: as a draft that readers do not see, or published at once."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.warehouse.links import link_ahead, link_published
from spark_jobs.warehouse.parquet import file_keys, made_by_now, write_parquet
from spark_jobs.warehouse.pipeline import AUDIT_STAGES, WRITTEN_BY
from spark_jobs.warehouse.read import whole_folder
from spark_jobs.warehouse.recorded_files import recorded_files
from spark_jobs.warehouse.runs import (
    RunOwner,
    close_draft,
    draft_of,
    forget,
    kept_runs,
    not_written,
    note_carried,
    note_validated,
    open_draft,
    publish,
    published_run,
    run_record,
    versions_of,
    write_run,
)
from spark_jobs.warehouse.scope import APPENDED, OUTPUTS, RunScope
from spark_jobs.warehouse.storage import (
    copy_folder,
    move_files,
    remove_folder,
    spark_path,
)
from spark_jobs.warehouse.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_IN_GROUP = 65_536
"""The least that a reader of one sensor has to read of a file that is in order of sensors."""
UPKEEP_OWNERS = frozenset({f"quota-audit {name}" for name in ("migrate", "prune", "compact")})
"""Whose drafts are no audits."""
Part = tuple[pa.Table, int | None]
"""Rows of a file and the most of them that a row group has (None: Arrow's default), which is the
least that a reader of few has to read."""
*_, _LAST_STAGE = AUDIT_STAGES
VERSIONED = (*(table for table in TABLES if table not in APPENDED), *OUTPUTS)
"""What a run has a version of."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to begin; ``takes_over`` ends one that another process is still making."""

    id: str
    owner: RunOwner
    takes_over: bool = False


def new_run(owner: RunOwner | None = None, *, take_over: bool = False) -> NewRun:
    """Return a run with an id that no other has, by default of whom this process is a step of."""
    return NewRun(uuid.uuid4().hex, owner or _owner(), take_over)


def begin_draft(scope: RunScope, run: NewRun) -> RunScope:
    """Begin to make ``run`` of a day from nothing, and return the day as that run has it.

    A draft of an earlier run that did not end is given up. Raises BadInputError where a process
    that still runs on this host makes it, unless ``run`` takes over.
    """
    draft = draft_of(scope.runs)
    if draft and draft[1] != run.owner and draft[1].is_running() and not run.takes_over:
        raise BadInputError(_of_another(scope, draft[1], run.owner))
    write_run(scope.runs, run.id, {})
    open_draft(scope.runs, run.id, run.owner)
    return replace(scope, run=run.id)


def continued_draft(scope: RunScope, *, take_over: bool = False) -> RunScope:
    """Return the day as the open draft has it, or as a new one that begins with what is published.

    Raises BadInputError where the draft is somebody else's, and is not to be taken over.
    """
    return drafted_for(scope, _owner(), take_over=take_over)


def drafted_for(scope: RunScope, owner: RunOwner, *, take_over: bool = False) -> RunScope:
    """Return the day as the draft of ``owner`` has it; see :func:`continued_draft`."""
    draft = draft_of(scope.runs)
    run = uuid.uuid4().hex
    if draft is None:
        tables = _published_tables(scope)
        # What the published day has no table of has no rows.
        absent = [table for table in WRITTEN_BY if table not in tables]
        write_run(scope.runs, run, tables, like=published_run(scope.runs), absent=absent)
    elif draft[1] == owner:
        return replace(scope, run=draft[0])
    elif take_over:
        # With another id, who made it until now has to stop.
        tables = (run_record(scope.runs, draft[0]) or {"tables": {}})["tables"]
        write_run(scope.runs, run, tables, like=draft[0])
    else:
        raise BadInputError(_of_another(scope, draft[1], owner))
    open_draft(scope.runs, run, owner)
    return replace(scope, run=run)


def draft_or_published(scope: RunScope, *, take_over: bool = False) -> RunScope:
    """Return the day as one's own open draft has it, or as published where there is none."""
    draft = draft_of(scope.runs)
    if draft and (take_over or draft[1] == _owner()):
        return continued_draft(scope, take_over=take_over)
    return scope


def draft_to_publish(scope: RunScope, *, take_over: bool = False) -> RunScope:
    """Return the day as one's own open draft has it, or as published where there is no draft.

    Raises BadInputError where another run is being made, or there is nothing to publish.
    """
    if draft_of(scope.runs) is not None:
        return continued_draft(scope, take_over=take_over)
    if not scope.partition_dir("files").is_dir():
        raise BadInputError(
            f"{scope.cluster} {scope.day} is not in {scope.warehouse}, so there is nothing to "
            "publish. Begin with 'quota-audit run' or 'quota-audit ingest'."
        )
    return scope


def check_draft(scope: RunScope) -> None:
    """Raise AuditFailedError where the run of ``scope`` is not the one that is being made."""
    draft = draft_of(scope.runs)
    if draft is None or draft[0] != scope.run:
        raise AuditFailedError(
            f"Another run of {scope.cluster} {scope.day} has begun, so this one stops: nothing "
            "that it made is published. Let one of them run at a time."
        )


def check_whole(scope: RunScope) -> None:
    """Raise BadInputError where the run of ``scope`` lacks a table, or was not validated at last.

    The message names what is missing, and the commands that make it.
    """
    assert scope.run is not None, "what is published is whole"
    record = run_record(scope.runs, scope.run) or {}
    missing = not_written(record)
    if missing:
        commands = ", ".join(f"'quota-audit {name}'" for name in dict.fromkeys(missing.values()))
        raise BadInputError(
            f"{scope.cluster} {scope.day} is not published: its run has no {', '.join(missing)}. "
            f"Run {commands} first, or all steps with 'quota-audit run'."
        )
    if _LAST_STAGE not in record.get("validated", ()):
        raise BadInputError(
            f"{scope.cluster} {scope.day} is not published: the tables of its run, as they are "
            f"now, have not passed 'quota-audit validate {_LAST_STAGE}'. Run that first."
        )


def put_validated(stage: str, scope: RunScope) -> None:
    """Say in the run of ``scope``, where it has one, that its tables of ``stage`` passed."""
    if scope.run is not None:
        note_validated(scope.runs, scope.run, stage)


def publish_draft(scope: RunScope) -> RunScope:
    """Let readers see all tables of the run of ``scope``; return the day as published.

    Nothing happens where it has no run. Raises BadInputError, and publishes nothing, where a file
    of the run is damaged.
    """
    if scope.run is None:
        return scope
    check_draft(scope)
    _check_files(scope)
    _publish(scope, scope.run)
    close_draft(scope.runs)
    return replace(scope, run=None)


def forget_previous(scope: RunScope) -> None:
    """Remove what the run before wrote, as far as the published one does not name it too.

    A reader that began before the last publishing may find its files gone.
    """
    forget(scope.runs)
    _tidy(scope)


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


@contextmanager
def new_output(kind: str, scope: RunScope) -> Iterator[Path]:
    """Yield a folder with what the day has of the files of ``kind``, to be changed.

    It takes their place when it is left; outside of a run it is published then.
    """
    # A copy of the scope holds no record: an output of the same run may have been taken since.
    folder, before = new_version(kind, scope), replace(scope).output_dir(kind)
    try:
        copy_folder(before, folder)
        yield folder
        take_version(folder, kind, scope)
    except BaseException:
        remove_folder(folder)
        raise


def take_version(version: Path | None, table: str, scope: RunScope) -> None:
    """Make a folder of :func:`new_version` this day's rows of ``table``; see ``put_files``."""
    run = scope.run or uuid.uuid4().hex
    if scope.run is None:
        tables = _published_tables(scope)
    else:
        check_draft(scope)
        tables = dict((run_record(scope.runs, run) or {"tables": {}})["tables"])
    tables.pop(table, None)
    made_by, files = {}, {}
    if version is not None:
        tables[table] = version.relative_to(scope.warehouse).as_posix()
        if table in TABLES:
            made_by[table] = asdict(made_by_now(table))
            files[table] = {name: asdict(one) for name, one in recorded_files(version).items()}
    absent = [table] if version is None else []
    like = published_run(scope.runs)
    write_run(scope.runs, run, tables, like=like, made_by=made_by, files=files, absent=absent)
    if scope.run is None:
        _publish(scope, run)


def put_carried(before: str | None, after: str, scope: RunScope) -> None:
    """Say with which states the replay of a day began (None: with none) and with which it ended."""
    run = scope.run or published_run(scope.runs)
    assert run is not None, "a replay has written tables"
    note_carried(scope.runs, run, before, after)


def _check_files(scope: RunScope) -> None:
    """Compare the files of the run: not all of its tables were read again by a step."""
    held = scope.held()
    for table in held.tables() or {}:
        whole_folder(held, table)


def _owner() -> RunOwner:
    """Return the Airflow run that this process is a step of, which Airflow tells its tasks."""
    return RunOwner(os.environ.get("AIRFLOW_CTX_DAG_RUN_ID", ""))


def owner_named(owner: RunOwner) -> str:
    """Return half a sentence that says who ``owner`` is, and whether it still runs if known."""
    if not owner.name:
        return "single steps on the command line"
    if owner.host:
        is_running = owner.is_running()
        state = "still running" if is_running else "ended" if is_running is False else "not here"
        return f"'{owner.name}' (process {owner.pid} of {owner.host}, {state})"
    return f"'{owner.name}'" if owner.name in UPKEEP_OWNERS else f"the Airflow run {owner.name}"


def _of_another(scope: RunScope, other: RunOwner, own: RunOwner) -> str:
    takes_over = "" if own.name in UPKEEP_OWNERS else ", or go on with what it made: --take-over"
    return (
        f"{scope.cluster} {scope.day} is being audited by {owner_named(other)}, and this is "
        f"{owner_named(own)}. Wait until that has published the day; or, if it will not, begin "
        f"anew with 'quota-audit run' or 'quota-audit ingest'{takes_over}."
    )


def _published_tables(scope: RunScope) -> dict[str, str]:
    """Return the folders of the published tables, also of those written before there were runs."""
    published = replace(scope, run=None).held()
    folders = {table: published.partition_dir(table) for table in VERSIONED}
    return {
        table: folder.relative_to(scope.warehouse).as_posix()
        for table, folder in folders.items()
        if folder.is_dir()
    }


def _publish(scope: RunScope, run: str) -> None:
    """Let readers see ``run``, also in other tools, and remove what no run needs any more."""
    link_ahead(replace(scope, run=run).held())
    publish(scope.runs, run)
    _tidy(scope)


def _tidy(scope: RunScope) -> None:
    link_published(replace(scope, run=None).held(), VERSIONED)
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
