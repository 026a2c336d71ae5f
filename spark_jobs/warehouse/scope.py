"""Where everything of a day lives: its tables as one run has them, and files for people."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.days import later_day, newest_day
from spark_jobs.warehouse.parquet import MadeBy
from spark_jobs.warehouse.recorded_files import RecordedFile
from spark_jobs.warehouse.runs import (
    RUNS,
    Record,
    days_below,
    days_with_runs,
    draft_of,
    published_run,
    run_record,
    runs_folder,
)
from spark_jobs.warehouse.storage import CLUSTER_PATTERN, is_in_bucket
from spark_jobs.warehouse.tables import TABLES, partition_columns

APPENDED = frozenset({"applied_changes"})
"""Tables that grow by a file at a time and belong to no run."""
OUTPUTS = ("reports", "data_quality", "data_docs")
"""Files for people, of which a run has a folder each, as it has of tables."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """One audited day of one cluster in a warehouse: what every step after ingest works on.

    ``run`` is the run whose tables are meant; None: whichever is published when they are asked
    for. Raises BadInputError where the cluster's name is none.
    """

    warehouse: Path
    cluster: str
    day: dt.date
    run: str | None = None
    _held: Record | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_cluster(self.cluster)

    @property
    def day_before(self) -> RunScope:
        """Return the same cluster a day earlier, whose states and inventory the day begins with."""
        return self.on(self.day - dt.timedelta(days=1))

    @property
    def day_after(self) -> RunScope | None:
        """Return the same cluster a day later, whose begin tells of the day's last throttles.

        None after the calendar's last day.
        """
        after = later_day(self.day, 1)
        return None if after == self.day else self.on(after)

    def on(self, day: dt.date) -> RunScope:
        """Return another day as this run has it; as published where the run did not write it."""
        other = replace(self, day=day)
        if self.run is None or run_record(other.runs, self.run) is None:
            other = replace(other, run=None)
        return other if self._held is None else other.held()

    @property
    def runs(self) -> Path:
        """Return the folder of the day's runs."""
        return runs_folder(self.warehouse, self.cluster) / f"date={self.day}"

    def held(self) -> RunScope:
        """Return this scope for who only reads: what its run says is read now, and never again."""
        if self._held is not None:
            return self
        found = replace(self)
        object.__setattr__(found, "_held", self._record())
        return found

    def pinned(self) -> RunScope:
        """Return this day as published now: a later run does not change what it reads."""
        if self.run is not None:
            return self.held()
        return replace(self, run=published_run(self.runs)).held()

    def newest(self) -> RunScope:
        """Return this day as the run has it that is being made; as published where none is."""
        draft = draft_of(self.runs)
        return (replace(self, run=draft[0]) if draft else self).pinned()

    def _record(self) -> Record | None:
        if self._held is not None:
            return self._held
        run = self.run or published_run(self.runs)
        return None if run is None else run_record(self.runs, run)

    def tables(self) -> dict[str, str] | None:
        """Return each table's folder below the warehouse; None where no run says so."""
        record = self._record()
        return None if record is None else dict(record["tables"])

    def carried(self) -> dict[str, str | None] | None:
        """Return digests of the states the day's replay began with and ended with, if known."""
        return (self._record() or {}).get("carried")

    def made(self) -> dict[str, MadeBy]:
        """Return the schema version and program of each table, where a run says them."""
        said = (self._record() or {}).get("made_by", {})
        return {table: MadeBy(int(one["schema"]), one["program"]) for table, one in said.items()}

    def recorded(self, table: str) -> dict[str, RecordedFile] | None:
        """Return the records of the files of ``table``, by name; None where the run has none."""
        said = (self._record() or {}).get("files", {}).get(table)
        return None if said is None else {name: RecordedFile(**one) for name, one in said.items()}

    def pruned(self) -> dict[str, str]:
        """Return the tables removed because of their age, and how many days of each were kept."""
        return dict((self._record() or {}).get("pruned", {}))

    def partition_dir(self, table: str) -> Path:
        """Return the folder of this scope's rows of ``table``; it is not there without a partition.

        Warehouses of earlier versions have no runs: their only folder of a day is the plain one.
        """
        tables = None if table in APPENDED else self.tables()
        if tables is not None and table in tables:
            return self.warehouse / tables[table]
        return self.plain_dir(table) if self.run is None else self.runs / "absent" / table

    def plain_dir(self, table: str) -> Path:
        """Return the folder in which other tools find what is published of ``table``."""
        folder = self.warehouse / table / f"cluster={self.cluster}"
        return folder / f"date={self.day}" if "date" in partition_columns(table) else folder

    def output_dir(self, kind: str) -> Path:
        """Return the folder of the run's files for people, of a kind of OUTPUTS, there or not."""
        tables = self.tables() or {}
        if kind in tables:
            return self.warehouse / tables[kind]
        # Earlier versions kept the files of what is published in the plain folder.
        is_published = self.run is None or self.run == published_run(self.runs)
        return self.plain_dir(kind) if is_published else self.runs / "absent" / kind

    def shown_dir(self, kind: str) -> Path:
        """Return the folder in which people find the published files of ``kind``."""
        return (self.output_dir if is_in_bucket(self.warehouse) else self.plain_dir)(kind)


def checked_cluster(name: str) -> str:
    """Return ``name``; raises BadInputError where it could leave its folder, or is none."""
    if not re.fullmatch(CLUSTER_PATTERN, name):
        raise BadInputError(
            f"{name[:120]!r} is no name of a cluster: expected up to 100 of the characters A-Z, "
            "a-z, 0-9, '.', '_' and '-', the first a letter or digit, as in east-1. Choose another "
            "with --cluster, or rename the archive's folder cluster=<name>."
        )
    return name


def clusters_of_warehouse(warehouse: Path) -> list[str]:
    """Return the clusters that a warehouse has tables of, in order."""
    kinds = (warehouse / kind for kind in (RUNS, *TABLES))
    return sorted({one.name.partition("=")[2] for kind in kinds for one in kind.glob("cluster=*")})


def days_of(warehouse: Path, cluster: str, table: str = "files") -> list[dt.date]:
    """Return the days of ``cluster`` that ``table`` has a partition for, in order."""
    folder = warehouse / table / f"cluster={checked_cluster(cluster)}"
    known = {*days_below(folder), *days_with_runs(warehouse, cluster)}
    return sorted(
        day for day in known if RunScope(warehouse, cluster, day).partition_dir(table).is_dir()
    )


def folders_shown(warehouse: Path, kind: str) -> Iterator[tuple[str, dt.date, Path]]:
    """Yield cluster, day and folder of each day of which files of ``kind`` may be published."""
    for of_cluster in (warehouse / (RUNS if is_in_bucket(warehouse) else kind)).glob("cluster=*"):
        cluster = of_cluster.name.removeprefix("cluster=")
        if re.fullmatch(CLUSTER_PATTERN, cluster):
            for day in days_below(of_cluster):
                # With the link followed now, a reader of several files sees those of one run.
                folder = RunScope(warehouse, cluster, day).shown_dir(kind).resolve()
                if folder.is_relative_to(warehouse.resolve()):
                    yield cluster, day, folder


def scopes_of_days(scope: RunScope) -> list[RunScope]:
    """Return all ingested days of the cluster as the run of ``scope`` has them, oldest first."""
    days = set(days_of(scope.warehouse, scope.cluster))
    if scope.run is not None:
        days |= set(days_with_runs(scope.warehouse, scope.cluster))
    scopes = [scope.on(day) for day in sorted(days)]
    return [one for one in scopes if one.partition_dir("files").is_dir()]


def recommended_day(
    warehouse: Path, cluster: str, day: dt.date | None, latest: dt.date
) -> RunScope:
    """Return the scope of ``day``, or (None) of the newest, up to ``latest``, that has some.

    Raises BadInputError where the warehouse has no recommendations of that day.
    """
    days = days_of(warehouse, cluster, "recommendations")
    if not days or day not in (None, *days):
        when = f" for {day}" if day else ""
        there = ", ".join(map(str, days)) or "none"
        raise BadInputError(
            f"{warehouse} holds no recommendations of the cluster {cluster!r}{when}; the days "
            f"there are: {there}. Run 'quota-audit run' on an archive first, or give another --day."
        )
    return RunScope(warehouse, cluster, day or newest_day(days, latest)).held()
