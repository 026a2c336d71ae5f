"""Looking for what is wrong in a warehouse: what was found, what it means, and what to do.

Nothing is changed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from spark_jobs.errors import BadInputError
from spark_jobs.settings import IngestSettings
from spark_jobs.upkeep.ailment import Ailment, quoted
from spark_jobs.upkeep.examined_days import broken_chain, gaps, is_sound, wrong_clocks
from spark_jobs.upkeep.prune_warehouse import bytes_below
from spark_jobs.warehouse.days import newest_day
from spark_jobs.warehouse.links import link_target
from spark_jobs.warehouse.parquet import MadeBy, made_by_of_file, parquet_file
from spark_jobs.warehouse.recorded_files import HOW_DIFFERENT, differences
from spark_jobs.warehouse.runs import (
    CURRENT,
    PUBLISHED,
    days_below,
    draft_of,
    published_run,
    run_record,
    shown_folder,
    versions_of,
)
from spark_jobs.warehouse.scope import RunScope, clusters_of_warehouse
from spark_jobs.warehouse.storage import is_in_bucket
from spark_jobs.warehouse.tables import SCHEMA_VERSIONS, TABLES, partition_columns
from spark_jobs.warehouse.write import UPKEEP_OWNERS, VERSIONED, owner_named
from spark_jobs.wording.numbers import size

_NO_AUDIT = "while no audit runs"


@dataclass(frozen=True, slots=True)
class Examination:
    """How many audited days were looked at, and what looks wrong.

    Of ``unrecorded_days`` no run says what its files were like when they were written.
    """

    days: int
    ailments: Sequence[Ailment]
    unrecorded_days: int = 0

    def summary(self) -> str:
        """Return a sentence with the number of things that look wrong."""
        of_days = f"{self.days} audited day{'' if self.days == 1 else 's'}"
        things = {0: "nothing looks", 1: "1 thing looks"}
        number = len(self.ailments)
        text = f"{of_days}: {things.get(number, f'{number} things look')} wrong"
        if self.unrecorded_days:
            text += (
                f"; {self.unrecorded_days} of them an earlier version wrote: whether their files "
                "are as they were written cannot be told"
            )
        return text


def examine(
    warehouse: Path, *, is_quick: bool = False, now: dt.datetime | None = None
) -> Examination:
    """Return the ailments of ``warehouse``, day by day, then in all of it.

    ``is_quick`` leaves out to read every byte of the files. Days are of the future seen from
    ``now`` (None: the clock). Raises BadInputError where there is no warehouse.
    """
    now = now or dt.datetime.now(dt.UTC)
    clusters = clusters_of_warehouse(warehouse)
    if not clusters:
        raise BadInputError(f"{warehouse} holds no tables: expected a warehouse of this program.")
    found: list[Ailment] = []
    largest = total = unrecorded = 0
    for cluster in clusters:
        known = _days_at_all(warehouse, cluster)
        for day in known:
            found += _of_day(RunScope(warehouse, cluster, day), reads_all=not is_quick)
        readable = [day for day in known if is_sound(RunScope(warehouse, cluster, day))]
        total += len(readable)
        clocks = list(wrong_clocks(warehouse, cluster, known, now))
        found += clocks
        odd = {one.where for one in clocks}
        found += gaps(warehouse, cluster, [day for day in known if f"{cluster} {day}" not in odd])
        found += _of_undated_links(warehouse, cluster, known, now)
        for day in readable:
            found += broken_chain(RunScope(warehouse, cluster, day))
            largest = max(largest, _bytes_of_day(RunScope(warehouse, cluster, day)))
            unrecorded += not _is_recorded(RunScope(warehouse, cluster, day))
    if not is_in_bucket(warehouse):
        found += _left_over(warehouse)
        found += _room(warehouse, largest)
    return Examination(total, tuple(found), unrecorded)


def _days_at_all(warehouse: Path, cluster: str) -> list[dt.date]:
    folders = (warehouse / kind / f"cluster={cluster}" for kind in ("runs", "files"))
    return sorted({day for folder in folders for day in days_below(folder)})


def _is_recorded(scope: RunScope) -> bool:
    """Return True if the run says what the files of all its tables were like."""
    held = scope.held()
    tables = held.tables()
    # Of files for people a run records none.
    return tables is not None and all(held.recorded(t) is not None for t in tables if t in TABLES)


def _of_day(scope: RunScope, *, reads_all: bool) -> Iterator[Ailment]:
    try:
        yield from _of_pointers(scope)
        tables = scope.tables()
    except BadInputError as error:
        yield Ailment(
            "broken_pointer", _below(scope, scope.runs),
            f"A file that says what is published cannot be read ({error})",
            "Nothing of the day can be read", _audit_again(scope),
        )  # fmt: skip
        return
    if tables is None and published_run(scope.runs) is not None:
        return
    pinned = scope.pinned()
    made = pinned.made()
    for table in TABLES:
        yield from _of_table(pinned, table, made.get(table), reads_all=reads_all)


def _of_pointers(scope: RunScope) -> Iterator[Ailment]:
    run, tables = published_run(scope.runs), scope.tables()
    if run is not None and tables is None:
        yield Ailment(
            "missing_run", _below(scope, scope.runs / PUBLISHED),
            f"The run {run} is published, and its file is missing",
            "Nothing of the day can be read", _audit_again(scope),
        )  # fmt: skip
        return
    shown = _lost_folder(scope) if run is None else None
    if shown is not None:
        current = scope.runs / CURRENT
        yield Ailment(
            "missing_pointer", _below(scope, current),
            f"No run is published, and {shown.name} holds what was",
            "Commands find no audit of the day, although nothing of it is lost",
            f"ln -sfn {shown.name} {quoted(current)}",
        )  # fmt: skip
        return
    linked = _linked_run(scope) if run is None else None
    if linked is not None:
        pointer = scope.runs / PUBLISHED
        yield Ailment(
            "missing_pointer", _below(scope, pointer),
            f"No run is published, and links show the tables of the run {linked}",
            "Commands find no audit of the day, although nothing of it is lost",
            f"""printf '{{"run": "{linked}", "previous": null}}' > {quoted(pointer)}""",
        )  # fmt: skip
        return
    for table, place in (tables or {}).items():
        if not (scope.warehouse / place).is_dir():
            yield Ailment(
                "missing_version", place, f"{table} is published from here, and nothing is there",
                "The table cannot be read, or reads as empty", _audit_again(scope),
            )  # fmt: skip
        elif "date" in partition_columns(table) and not is_in_bucket(scope.warehouse):
            yield from _of_link(scope, table, place)
    draft = draft_of(scope.runs)
    if draft is None:
        yield from _orphans(scope)
        return
    owner = draft[1]
    yield Ailment(
        "unfinished", _below(scope, scope.runs),
        f"A run by {owner_named(owner)} has begun and is not published",
        "It is going on, or it ended before it was done; readers see the run before",
        f"if it does not run: {owner.name} {quoted(scope.warehouse)} --apply"
        if owner.name in UPKEEP_OWNERS
        else f"if it does not run: {_audit_again(scope)}",
    )  # fmt: skip


def _of_link(scope: RunScope, table: str, place: str) -> Iterator[Ailment]:
    plain = scope.plain_dir(table)
    if plain == scope.warehouse / place:
        return
    if not _is_link_to(plain, scope.warehouse / place):
        yield Ailment(
            "wrong_link", _below(scope, plain),
            "It is no link to what is published" if plain.is_symlink() else "The link is missing",
            "Other tools, as DuckDB or pandas, see something else than this program",
            f"ln -sfn {link_target(scope, table)} {quoted(plain)}",
        )  # fmt: skip


def _of_undated_links(
    warehouse: Path, cluster: str, days: Sequence[dt.date], now: dt.datetime
) -> Iterator[Ailment]:
    """Yield what is wrong with links of tables of all days: the newest day's is what they show."""
    if is_in_bucket(warehouse) or not days:
        return
    latest = IngestSettings().latest_day(now)
    newest = RunScope(warehouse, cluster, newest_day(days, latest))
    if is_sound(newest):
        for table, place in (newest.tables() or {}).items():
            if "date" not in partition_columns(table):
                yield from _of_link(newest, table, place)


def _runs_of(scope: RunScope) -> list[str]:
    return sorted(file.stem.removeprefix("run-") for file in scope.runs.glob("run-*.json"))


def _lost_folder(scope: RunScope) -> Path | None:
    """Return the folder that ``current`` led to, where that link is gone."""
    shown = [path.parent for path in scope.runs.glob(f"shown-*/{PUBLISHED}")]
    return shown[0] if len(shown) == 1 and not (scope.runs / CURRENT).exists() else None


def _linked_run(scope: RunScope) -> str | None:
    """Return the run whose tables the plain folders show; None where they show none."""
    for run in _runs_of(scope):
        places = (run_record(scope.runs, run) or {"tables": {}})["tables"]
        for table, place in places.items():
            is_daily = "date" in partition_columns(table)
            if is_daily and _is_link_to(scope.plain_dir(table), scope.warehouse / place):
                return run
    return None


def _is_link_to(plain: Path, version: Path) -> bool:
    return plain.is_symlink() and plain.resolve() == version.resolve()


def _orphans(scope: RunScope) -> Iterator[Ailment]:
    # Also what a run that is no longer kept names: a reader or a link may be at it.
    needed = versions_of(scope.runs, _runs_of(scope))
    for table in VERSIONED:
        for version in sorted((scope.runs / table).glob("*")):
            place = _below(scope, version)
            if place not in needed:
                bytes_there = bytes_below(version)
                yield Ailment(
                    "orphan", place, f"No run names it: {size(bytes_there)}",
                    "A run that ended wrote it. The next audit of the day removes it",
                    f"{_NO_AUDIT}: rm -r {quoted(version)}", bytes_there,
                )  # fmt: skip


def _of_table(
    scope: RunScope, table: str, made: MadeBy | None, *, reads_all: bool
) -> Iterator[Ailment]:
    """Yield the ailments of a table's files; ``made`` is what the run says of it."""
    folder = scope.partition_dir(table)
    told = set()
    for path in (*sorted(folder.glob("*.parquet")), *sorted(folder.glob("*/*.parquet"))):
        try:
            with parquet_file(path) as file:
                names, said = file.schema_arrow.names, made_by_of_file(file.metadata)
        except (BadInputError, OSError, pa.ArrowException) as error:
            told.add(path)
            yield Ailment(
                "unreadable", _below(scope, path), f"It cannot be read ({error})",
                f"{table} of the day cannot be read", _audit_again(scope),
            )  # fmt: skip
            continue
        version = said.schema if made is None else made.schema
        if version != SCHEMA_VERSIONS[table]:
            yield _other_version(scope, table, version)
            return
        missing = [f.name for f in TABLES[table] if f.name not in names]
        if missing or (said.program is not None and said.schema != version):
            told.add(path)
            yield Ailment(
                "wrong_columns", _below(scope, path),
                f"Columns are missing: {', '.join(missing)}" if missing
                else f"The file says schema version {said.schema}, its run {version}",
                f"It was not written as {table} of version {version}", _audit_again(scope),
            )  # fmt: skip
    recorded = scope.recorded(table)
    if recorded is None or not folder.is_dir():
        return
    for name, how in differences(folder, recorded, reads_all=reads_all):
        if folder / name not in told:
            yield Ailment(
                str(how), _below(scope, folder / name),
                f"The file {HOW_DIFFERENT[how]}, as its run tells",
                f"Rows of {table} are lost, damaged or of something else", _audit_again(scope),
            )  # fmt: skip


def _other_version(scope: RunScope, table: str, version: int) -> Ailment:
    expected = SCHEMA_VERSIONS[table]
    is_older = version < expected
    return Ailment(
        "older_version" if is_older else "newer_version",
        f"{table} of {scope.cluster} {scope.day}",
        f"It has version {version} of its schema; this program reads {expected}",
        "It is not read before it is migrated" if is_older else "This program cannot read it",
        f"quota-audit migrate {quoted(scope.warehouse)} --apply"
        if is_older
        else "upgrade this program",
    )


def _left_over(warehouse: Path) -> Iterator[Ailment]:
    places = (*warehouse.glob(".*"), *warehouse.glob("runs/*/*/.*"), *warehouse.glob("*/*/.date=*"))
    hidden = [*places, *warehouse.glob("reports/*/*/.*"), *warehouse.glob("applied_changes/*/*/.*")]
    for path in sorted([*hidden, *_shown_in_vain(warehouse)]):
        files = [path, *path.rglob("*")] if path.is_dir() else [path]
        there = sum(file.lstat().st_size for file in files if not file.is_dir())
        yield Ailment(
            "left_over", path.relative_to(warehouse).as_posix(),
            f"A step began it and did not end{f': {size(there)}' if there else ''}",
            "No reader sees it, and nobody will go on with it",
            f"{_NO_AUDIT}: rm -r {quoted(path)}", there,
        )  # fmt: skip


def _shown_in_vain(warehouse: Path) -> Iterator[Path]:
    """Yield the folders that ``current`` was to lead to, or led to, when a process ended."""
    for folder in warehouse.glob("runs/*/*/shown-*"):
        if shown_folder(folder.parent) not in (None, folder.resolve()):
            yield folder


def _room(warehouse: Path, largest_day: int) -> Iterator[Ailment]:
    free = shutil.disk_usage(warehouse).free
    if free < 2 * largest_day:
        yield Ailment(
            "little_space", ".", f"{size(free)} are free, the largest day has {size(largest_day)}",
            "A day is written beside the one before, and with as much of intermediate results",
            f"quota-audit prune {quoted(warehouse)}",
        )  # fmt: skip
    for folder in (warehouse, *sorted(warehouse.glob("*/")), *sorted(warehouse.glob("runs/*/*/"))):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            yield Ailment(
                "not_permitted", folder.relative_to(warehouse).as_posix(),
                "This user may not read, write and enter it",
                "An audit by this user fails here",
                f"as its owner, or as root: chown -R $(id -u) {quoted(folder)}",
            )  # fmt: skip


def _bytes_of_day(scope: RunScope) -> int:
    folders = {scope.partition_dir(table) for table in TABLES}
    return sum(bytes_below(folder) for folder in folders)


def _audit_again(scope: RunScope) -> str:
    return (
        f"quota-audit run ARCHIVE --warehouse {quoted(scope.warehouse)} "
        f"--cluster {scope.cluster} --day {scope.day}"
    )


def _below(scope: RunScope, path: Path) -> str:
    return path.relative_to(scope.warehouse).as_posix()


def examination_json(found: Examination) -> str:
    """Return the examination as one JSON object."""
    told = {
        "days": found.days,
        "unrecorded_days": found.unrecorded_days,
        "found": [asdict(one) for one in found.ailments],
    }
    return json.dumps(told, indent=1)
