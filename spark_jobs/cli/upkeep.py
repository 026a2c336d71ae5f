"""The commands that look after a warehouse: migrate, prune, compact, doctor."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from spark_jobs.cli.options import AsJson, WarehouseFolder, day_option, option

_Apply = Annotated[bool, option("--apply", "Do it; else only say what would be done.")]
_DONE_BY_APPLY = "Nothing is changed yet: add --apply."


def _days(number: int) -> str:
    return f"{number} day{'' if number == 1 else 's'}"


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


def doctor(warehouse: WarehouseFolder, as_json: AsJson = False) -> None:
    """Say what looks wrong in a warehouse and what to do.

    Also says what it means. Exits with 1 if anything looks wrong. Nothing is changed.
    """
    from spark_jobs.upkeep.doctor import examination_json, examine, summary
    from spark_jobs.wording.visible_text import visible

    found = examine(warehouse.absolute())
    if as_json:
        typer.echo(examination_json(found))
    else:
        for one in found.ailments:
            typer.echo("\n".join(visible(line) for line in one.text().split("\n")))
        typer.echo(summary(found.ailments, found.days))
    if found.ailments:
        raise typer.Exit(1)
