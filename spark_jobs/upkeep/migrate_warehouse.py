"""Bringing an older warehouse to this version's schemas, a day at a time.

Readers see a day's tables of before or all of the new ones. A migration that was ended goes on when
it is started again: it has a draft of each day, as an audit has. It computes nothing that only the
logs can tell; who has them may audit the day again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spark_jobs.apply.applied_changes import TABLE as APPLICATIONS
from spark_jobs.apply.applied_changes import only_one_run
from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.parquet import MadeBy, parquet_file, write_parquet
from spark_jobs.warehouse.read import older_tables, whole_folder
from spark_jobs.warehouse.runs import RunOwner
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.tables import (
    APPLIED_CHANGES,
    BROKERS,
    DECISIONS,
    FILES,
    QUOTA_STATE,
    SCHEMA_VERSIONS,
    TOPIC_INVENTORY,
)
from spark_jobs.warehouse.write import drafted_for, new_version, publish_draft, take_version

OWNER = RunOwner("quota-audit migrate")


@dataclass(frozen=True, slots=True)
class OlderDay:
    """A day with tables of an older version."""

    cluster: str
    day: dt.date
    tables: Mapping[str, MadeBy]

    def sentence(self) -> str:
        """Return the day and its tables, each from which version to which."""
        steps = (f"{t} {made.schema} → {SCHEMA_VERSIONS[t]}" for t, made in self.tables.items())
        return f"{self.cluster} {self.day}: {', '.join(steps)}"


def older_days(warehouse: Path) -> list[OlderDay]:
    """Return the days of all clusters that have to be migrated: published, or of applications."""
    found = []
    for cluster in clusters_of_warehouse(warehouse):
        audited, applied = (days_of(warehouse, cluster, t) for t in ("files", APPLICATIONS))
        for day in sorted({*audited, *applied}):
            tables = older_tables(RunScope(warehouse, cluster, day))
            if tables:
                found.append(OlderDay(cluster, day, tables))
    return found


def migrate_days(
    warehouse: Path, days: list[OlderDay], said: Callable[[str], object] = lambda _: None
) -> None:
    """Migrate ``days``; tell of each that is done.

    Raises BadInputError where a day is being audited, or is older than can be migrated: the days
    before it are migrated then, itself and those after it are as they were.
    """
    for one in days:
        _migrate(RunScope(warehouse, one.cluster, one.day))
        said(one.sentence())


def _migrate(scope: RunScope) -> None:
    older = older_tables(scope)
    if (made := older.pop(APPLICATIONS, None)) is not None:
        _migrate_applications(scope, made.schema)
    if not older:
        return
    draft = drafted_for(scope, OWNER)
    for table, made in older.items():
        folder, target = whole_folder(draft, table), new_version(table, draft)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.glob("*.parquet")):
            _migrate_file(file, target / file.name, table, made.schema, scope)
        take_version(target, table, draft)
    publish_draft(draft)


def _migrate_applications(scope: RunScope, version: int) -> None:
    """Replace the files of applications one by one: they belong to no run.

    The day's version is that of its first file, which is replaced last: a migration that was ended
    finds the day again.
    """
    with only_one_run(scope.warehouse, scope.cluster):
        for file in sorted(scope.partition_dir(APPLICATIONS).glob("[!.]*.parquet"), reverse=True):
            # Readers pass over names with a dot in front.
            staged = file.with_name(f".{file.name}")
            _migrate_file(file, staged, APPLICATIONS, version, scope)
            staged.replace(file)


def _migrate_file(file: Path, target: Path, table: str, version: int, scope: RunScope) -> None:
    with parquet_file(file) as opened:
        rows = opened.read()
    try:
        rows = migrated(rows, table, version)
    except BadInputError as error:
        raise BadInputError(f"{table} of {scope.cluster} {scope.day}: {error}") from error
    write_parquet(rows, table, target)


Migration = Callable[[pa.Table], pa.Table]


def _applied_changes_2(rows: pa.Table) -> pa.Table:
    """``asked_by``, ``plan``: null, nobody wrote them down."""
    return with_columns_of(rows, APPLIED_CHANGES)


def _brokers_2(rows: pa.Table) -> pa.Table:
    """``throttle_max_ms``, ``newer_than_known``: null, the older version knew neither."""
    return with_columns_of(rows, BROKERS)


def _decisions_2(rows: pa.Table) -> pa.Table:
    """``answered_bytes``: null, nobody wrote down what throttled fetches were given in the end."""
    return with_columns_of(rows, DECISIONS)


def _files_2(rows: pa.Table) -> pa.Table:
    """``modified_ns``, ``day_digest``, ``days``: null, so `due` looks at the file again."""
    return with_columns_of(rows, FILES)


def _quota_state_2(rows: pa.Table) -> pa.Table:
    """``resumes_from``: null, the next day begins with the sensor as it was at the day's end.

    Also where it lacks ``bucket``, which bandwidth quotas have not; ``intervals``: null, nothing
    is known of what a request quota's samples hold.
    """
    return with_columns_of(rows, QUOTA_STATE)


def _topic_inventory_2(rows: pa.Table) -> pa.Table:
    """``partitions_handed_on``: those at the day's end, which is what an older version handed on.

    Mutations of the last hour are read again: each sets what it says, so their end is the same.
    """
    handed_on = "partitions_handed_on"
    if handed_on not in rows.schema.names:
        rows = rows.append_column(handed_on, rows["partitions"])
    return with_columns_of(rows, TOPIC_INVENTORY)


MIGRATIONS: dict[tuple[str, int], Migration] = {
    ("applied_changes", 1): _applied_changes_2,
    ("brokers", 1): _brokers_2,
    ("decisions", 1): _decisions_2,
    ("files", 1): _files_2,
    ("quota_state", 1): _quota_state_2,
    ("topic_inventory", 1): _topic_inventory_2,
}
"""By table and the version that it makes the next of."""


def migrated(rows: pa.Table, table: str, version: int) -> pa.Table:
    """Return ``rows`` of ``table`` in this ``version`` of its schema as rows of the current one.

    Raises BadInputError where they are older than can be migrated.
    """
    for older in range(version, SCHEMA_VERSIONS[table]):
        rows = MIGRATIONS[table, older](rows)
    return rows


def with_columns_of(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows`` with the columns of ``schema``, fields of structs included, and no others.

    Raises BadInputError where a column is missing that must have a value.
    """
    missing = [f.name for f in schema if not f.nullable and f.name not in rows.schema.names]
    if missing:
        raise BadInputError(
            f"columns are missing that nothing can stand for: {', '.join(missing)}. The table is "
            "older than can be migrated: audit its day again."
        )
    columns = [
        _as_type(rows[field.name].combine_chunks(), field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(wanted):
        known = {field.name for field in values.type}
        fields = [
            _as_type(pa.compute.struct_field(values, child.name), child.type)
            if child.name in known
            else pa.nulls(len(values), child.type)
            for child in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=values.is_null())
    return values.cast(wanted)
