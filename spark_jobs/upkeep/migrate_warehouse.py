"""Bringing an older warehouse to this version's schemas, a day at a time.

Readers see a day's tables of before or all of the new ones. A migration that was ended goes on when
it is started again: it has a draft of each day, as an audit has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.apply.applied_changes import TABLE as APPLICATIONS
from spark_jobs.errors import BadInputError
from spark_jobs.upkeep.migrations import migrated
from spark_jobs.warehouse.parquet import MadeBy, parquet_file, write_parquet
from spark_jobs.warehouse.read import older_tables
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS
from spark_jobs.warehouse.write import drafted_for, new_version, publish_draft, take_version

OWNER = "quota-audit migrate"


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
    """Return the published days of all clusters that have to be migrated."""
    found = []
    for cluster in clusters_of_warehouse(warehouse):
        for day in days_of(warehouse, cluster):
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
    draft = drafted_for(scope, OWNER)
    for table, made in older_tables(draft).items():
        assert table != APPLICATIONS, "its files belong to no run, and have one version"
        folder, target = draft.partition_dir(table), new_version(table, draft)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.glob("*.parquet")):
            _migrate_file(file, target / file.name, table, made.schema, scope)
        take_version(target, table, draft)
    publish_draft(draft)


def _migrate_file(file: Path, target: Path, table: str, version: int, scope: RunScope) -> None:
    with parquet_file(file) as opened:
        rows = opened.read()
    try:
        rows = migrated(rows, table, version)
    except BadInputError as error:
        raise BadInputError(f"{table} of {scope.cluster} {scope.day}: {error}") from error
    write_parquet(rows, table, target)
