"""The commands around an audit: can it be made, given away, and how its tables are kept."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.cli.options import (
    ArchiveFolder,
    AsJson,
    BrokerVersion,
    Cluster,
    ClusterName,
    IgnoreProperties,
    IgnoreServerLogs,
    Listener,
    OptionalDay,
    Prefix,
    Snapshot,
    Timezone,
    Warehouse,
    WarehouseFolder,
    day_option,
    ingest_options,
    option,
)
from spark_jobs.errors import BadInputError

if TYPE_CHECKING:
    from spark_jobs.anonymize.anonymize_archive import CopiedArchive

_FILE_WIDTH = 100
NOTHING_TO_AUDIT = 3
"""Exit code where nothing of an archive can be audited as it is."""

_Apply = Annotated[bool, option("--apply", "Do it; else only say what would be done.")]
_DONE_BY_APPLY = "Nothing is changed yet: add --apply."


def check(
    archive: ArchiveFolder,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    broker_version: BrokerVersion = None,
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
    ignore_server_logs: IgnoreServerLogs = False,
    ignore_server_properties: IgnoreProperties = False,
    reads_all: Annotated[
        bool,
        option(
            "--all",
            "Look at every line [default: of large archives a part of each file, 256 MB in all].",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether an archive can be audited, and what is missing.

    Also says what an audit would take. Writes nothing and starts no Spark. Exits with 3 where
    nothing can be audited.
    """
    from spark_jobs.check.check_archive import check_archive
    from spark_jobs.check.page import page_lines
    from spark_jobs.check.result import as_json as check_object
    from spark_jobs.ingest.archive import choose_cluster, ignored_files, list_archive

    options = ingest_options(
        timezone, broker_version, listener, prefix, snapshot, ignore_server_logs,
        ignore_server_properties,
    )  # fmt: skip
    found = list_archive(archive, choose_cluster(archive, cluster))
    ignored = ignored_files(archive, found.cluster)
    result = check_archive(found, str(archive), ignored, options, reads_all=reads_all)
    if as_json:
        typer.echo(json.dumps(check_object(result)))
    else:
        # A file is the same whoever wrote it, and from whichever window.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _FILE_WIDTH
        for line in page_lines(result, width):
            typer.echo(line)
    if not result.can_be_audited:
        raise typer.Exit(NOTHING_TO_AUDIT)


def anonymize(
    archive: ArchiveFolder,
    out: Annotated[
        Path, typer.Argument(help="Folder of the copy; not there yet, or empty.", metavar="OUT")
    ],
    key_file: Annotated[
        Path | None,
        option(
            "--key-file FILE",
            "File of the secret key, made where it is not there: copies with the same key "
            "have the same pseudonyms [default: QUOTA_AUDIT_ANONYMIZE_KEY, else a random key that "
            "is kept nowhere].",
            dir_okay=False,
        ),
    ] = None,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
) -> None:
    """Copy an archive with every name replaced by a pseudonym.

    An audit of the copy decides the same.
    """
    from spark_jobs.anonymize.anonymize_archive import (
        CopyOptions,
        anonymize_archive,
        anonymize_key,
        check_apart,
    )

    read = ingest_options(timezone, None, listener, prefix, snapshot, False, False)
    check_apart(archive, out)
    if key_file is not None and key_file.resolve().is_relative_to(out.resolve()):
        raise BadInputError(f"{key_file} lies in {out}, which is to be given away.")
    options = CopyOptions(
        timezone=read.timezone,
        prefix=read.prefix,
        listeners=read.listener_brokers,
        snapshots=read.snapshots,
        cluster=cluster,
    )
    for said in account(anonymize_archive(archive, out, anonymize_key(key_file), options), out):
        typer.echo(said)


def account(copied: CopiedArchive, out: Path) -> Iterator[str]:
    """Yield the lines that tell of a copy: what was replaced, what was left out, and why."""
    from spark_jobs.ingest.file_report import warnings_of

    reports = copied.reports
    kinds = Counter(report.kind for report in reports)
    files = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    lines, requests = (sum(r.lines for r in reports), sum(r.requests for r in reports))
    yield f"{out}: {len(reports)} files ({files}), {lines:,} lines, {requests:,} of them requests"
    yield from _counted("replaced by pseudonyms:", _summed(r.replaced for r in reports))
    left_out = _summed(r.blanked for r in reports)
    bodies = sum(r.bodies_left_out for r in reports)
    left_out["messages of requests that no quota weighs, but for throttle times"] = bodies
    left_out["files that no audit reads"] = copied.files_left_out
    yield from _counted("left out (a line stays a line, of the same kind):", left_out)
    for warning in warnings_of([report.file for report in reports]):
        yield f"warning: {warning}"
    if copied.audit_options:
        yield f"audit it with: {' '.join(copied.audit_options)}"


def _summed(counts: Iterable[Mapping[Any, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update({str(what): number for what, number in count.items()})
    return total


def _counted(title: str, counts: Counter[str]) -> Iterator[str]:
    found = [(what, count) for what, count in sorted(counts.items()) if count]
    yield title
    yield from (f"  {count:>12,}  {what}" for what, count in found)
    if not found:
        yield "  nothing"


def doctor(
    warehouse: WarehouseFolder,
    is_quick: Annotated[
        bool,
        option(
            "--quick", "Compare names, sizes and footers of files, and do not read all of them."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what looks wrong in a warehouse and what to do.

    Also says what it means. Exits with 1 if anything looks wrong. Nothing is changed.
    """
    from spark_jobs.upkeep.doctor import examination_json, examine
    from spark_jobs.wording.visible_text import visible

    found = examine(warehouse.absolute(), is_quick=is_quick)
    if as_json:
        typer.echo(examination_json(found))
    else:
        for one in found.ailments:
            typer.echo("\n".join(visible(line) for line in one.text().split("\n")))
        typer.echo(found.summary())
    if found.ailments:
        raise typer.Exit(1)


def migrate(warehouse: WarehouseFolder, applies: _Apply = False) -> None:
    """Bring tables of an older version to the schemas of this one.

    A day at a time; says what would be done, without --apply.
    """
    from spark_jobs.upkeep.migrate_warehouse import migrate_days, older_days

    days = older_days(warehouse.absolute())
    if not days:
        typer.echo("Every table has the schema version of this program.")
    elif applies:
        migrate_days(warehouse.absolute(), days, lambda said: typer.echo(f"migrated {said}"))
    else:
        for one in days:
            typer.echo(one.sentence())
        typer.echo(_DONE_BY_APPLY)


def prune(
    warehouse: WarehouseFolder,
    keep: Annotated[
        list[str] | None,
        option(
            "--keep TABLE=DAYS",
            "Days to keep of a table, as requests=14; wins over QUOTA_AUDIT_RETENTION_DAYS. "
            "Repeatable.",
        ),
    ] = None,
    applies: _Apply = False,
) -> None:
    """Remove large tables of old days.

    Findings, states and what later days need stay.
    """
    from spark_jobs.settings import RetentionSettings
    from spark_jobs.upkeep.prune_warehouse import OldDay, kept_days, old_tables, prune_days
    from spark_jobs.wording.numbers import size

    kept = kept_days(RetentionSettings().days, keep or ())
    days = old_tables(warehouse.absolute(), kept)

    def say(one: OldDay) -> None:
        parts = ", ".join(f"{table} {size(there)}" for table, there in one.bytes_of.items())
        typer.echo(f"{'removed ' if applies else ''}{one.cluster} {one.day}: {parts}")

    if applies:
        prune_days(warehouse.absolute(), days, kept, say)
    else:
        for one in days:
            say(one)
    total = sum(sum(one.bytes_of.values()) for one in days)
    typer.echo(f"{_days(len(days))}, {size(total)}")
    if days and not applies:
        typer.echo(_DONE_BY_APPLY)


def compact(
    warehouse: WarehouseFolder,
    before: Annotated[
        dt.datetime | None,
        day_option("--before", "Only days before this one [default: all]."),
    ] = None,
    applies: _Apply = False,
) -> None:
    """Merge the files of a day's tables: one for each broker."""
    from spark_jobs.upkeep.compact_warehouse import ScatteredDay, compact_days, scattered_days

    days = scattered_days(warehouse.absolute(), before and before.date())

    def say(one: ScatteredDay) -> None:
        parts = (f"{table} {many} → {few} files" for table, (many, few) in one.files.items())
        typer.echo(f"{'merged ' if applies else ''}{one.cluster} {one.day}: {', '.join(parts)}")

    if applies:
        compact_days(warehouse.absolute(), days, say)
    else:
        for one in days:
            say(one)
    many, few = (sum(n[i] for one in days for n in one.files.values()) for i in (0, 1))
    typer.echo(f"{_days(len(days))}, {many} → {few} files")
    if days and not applies:
        typer.echo(_DONE_BY_APPLY)


def digest(warehouse: Warehouse, day: OptionalDay = None, cluster: ClusterName = "default") -> None:
    """Print a digest of each table: equal tables, equal digests.

    A digest is of the rows in total order.
    """
    from spark_jobs.upkeep.digest_tables import print_digests

    print_digests(warehouse.absolute(), cluster, day.date() if day else None)


def _days(number: int) -> str:
    return f"{number} day{'' if number == 1 else 's'}"
