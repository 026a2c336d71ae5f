"""The commands of every day: audit, see which days are due, what is new, what is known."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.cli.options import (
    ArchiveFolder,
    AsJson,
    BrokerVersion,
    Cluster,
    ClusterName,
    Day,
    IgnoreProperties,
    IgnoreServerLogs,
    LastDay,
    Listener,
    OnlyDue,
    OptionalDay,
    Prefix,
    Snapshot,
    TakeOver,
    Timezone,
    Warehouse,
    day_option,
    ingest_options,
    option,
)
from spark_jobs.cli.scopes import audited_day, scope_of
from spark_jobs.errors import BadInputError

if TYPE_CHECKING:
    from spark_jobs.audit.due_days import Digests
    from spark_jobs.ingest.archive import LogFile
    from spark_jobs.publish.facts.news import News
    from spark_jobs.publish.follow.kept_files import Owner


def run(
    archive: ArchiveFolder,
    warehouse: Warehouse,
    cluster: Cluster = None,
    day: OptionalDay = None,
    timezone: Timezone = "UTC",
    broker_version: BrokerVersion = None,
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
    ignore_server_logs: IgnoreServerLogs = False,
    ignore_server_properties: IgnoreProperties = False,
    due: OnlyDue = False,
    take_over: TakeOver = False,
) -> None:
    """Audit an archive, from its logs to the report.

    Every step in turn: ingest, resolve, replay, judge, validate, recommend, publish.
    """
    from spark_jobs.audit.run_audit import run_audit

    options = ingest_options(
        timezone, broker_version, listener, prefix, snapshot, ignore_server_logs,
        ignore_server_properties,
    )  # fmt: skip
    one_day = day.date() if day else None
    run_audit(
        archive,
        warehouse.absolute(),
        cluster,
        one_day,
        options,
        only_due=due,
        take_over=take_over,
    )


def list_due(
    archive: ArchiveFolder,
    warehouse: Warehouse,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    prefix: Prefix = None,
) -> None:
    """Print the days to be audited, or audited again, and why."""
    from spark_jobs.audit.due_days import due_days, read_with
    from spark_jobs.ingest.archive import choose_cluster, find_archive
    from spark_jobs.ingest.archive_days import day_options
    from spark_jobs.spark.spark_session import spark_session

    found = find_archive(archive, choose_cluster(archive, cluster))
    reading = day_options(found, timezone, prefix, warehouse.absolute())
    with ExitStack() as stack:

        def read_logs(logs: Sequence[LogFile]) -> Sequence[Digests]:
            # Spark starts only where there are files that no audit has read.
            spark = stack.enter_context(spark_session("due"))
            return read_with(spark, found, reading)(logs)

        for due in due_days(found, warehouse.absolute(), read_logs, reading.until_ms):
            typer.echo(f"{due.day} {due.reason}")


def list_days(
    archive: ArchiveFolder,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    prefix: Prefix = None,
) -> None:
    """Print the UTC days an archive's logs cover, one a line."""
    from spark_jobs.ingest.archive import choose_cluster, find_archive
    from spark_jobs.ingest.archive_days import archive_days

    for found in archive_days(
        find_archive(archive, choose_cluster(archive, cluster)), timezone, prefix
    ):
        typer.echo(found.isoformat())


def news(
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: LastDay = None,
    owner: Annotated[
        str | None,
        option("--owner NAME", "Only what is about this team's clients."),
    ] = None,
    by_owner: Annotated[
        bool, option("--by-owner", "For each team in turn, the unowned clients last.")
    ] = False,
    lists_all: Annotated[
        bool, option("--all", "List everything, not the first ten of each part.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what is new on a day.

    These are findings that are new, worse, gone, still there or acknowledged.
    """
    from spark_jobs.publish.facts.news import LISTED_MAX, news_text, owner_text
    from spark_jobs.publish.json_records import news_json
    from spark_jobs.publish.read_facts import news_of

    if as_json and (owner is not None or by_owner):
        raise BadInputError("--json tells of all owners' clients: leave out --owner or --by-owner.")
    found = news_of(audited_day(warehouse.absolute(), cluster, day and day.date()))
    listed_max = len(found.changes) if lists_all else LISTED_MAX
    if as_json:
        sys.stdout.write(f"{news_json(found, listed_max)}\n")
        return
    if found.errors:  # as JSON they are part of the object
        raise BadInputError("\n".join(found.errors))
    if owner is not None:
        sys.stdout.write(owner_text(found, _owner(found, owner)))
    elif by_owner:
        whose = [*(found.owners.teams() if found.owners else ()), None]
        sys.stdout.write("\n".join(owner_text(found, one) for one in whose))
    else:
        sys.stdout.write(news_text(found, listed_max))


def _owner(news: News, team: str) -> Owner:
    teams = news.owners.teams() if news.owners else ()
    found = next((one for one in teams if one.team == team), None)
    if found is None:
        known = ", ".join(sorted({one.team for one in teams})) or "none, as there is no owners file"
        raise BadInputError(f"No owner has the name {team!r}. Known are: {known}.")
    return found


def acknowledge(
    finding: Annotated[
        str, typer.Argument(help="Id of a finding, or how it begins.", metavar="FINDING")
    ],
    warehouse: Warehouse,
    owner: Annotated[str, option("--owner NAME", "Who knows of it.")],
    reason: Annotated[str, option("--reason TEXT", "Why it may stay for now.")],
    until: Annotated[
        dt.datetime | None,
        day_option("--until", "The last day on which it is known."),
    ] = None,
    days: Annotated[
        int | None,
        option("--days N", "Instead of --until: so many days after its own.", min=1),
    ] = None,
    cluster: ClusterName = "default",
    day: LastDay = None,
) -> None:
    """Acknowledge a finding until a day.

    Messages leave it out while it does not get worse.
    """
    from spark_jobs.publish.acknowledge import acknowledge_finding
    from spark_jobs.warehouse.days import later_day

    if (until is None) == (days is None):
        raise BadInputError("Say until when: either --until YYYY-MM-DD or --days N.")
    scope = audited_day(warehouse.absolute(), cluster, day and day.date())
    last = until.date() if until else later_day(scope.day, days or 0)
    typer.echo(acknowledge_finding(scope, finding, owner=owner, reason=reason, until=last))


def summary(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Print the summary of an audited day."""
    from spark_jobs.publish.summary import print_summary

    print_summary(scope_of(warehouse, cluster, day))
