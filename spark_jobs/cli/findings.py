"""The commands about findings from day to day: what is new, what is known, what differs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import (
    AsJson,
    ClusterName,
    LastDay,
    Warehouse,
    day_option,
    option,
    warehouse_option,
)
from spark_jobs.errors import BadInputError


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
    from spark_jobs.cli.print_news import print_news

    if as_json and (owner is not None or by_owner):
        raise BadInputError("--json tells of all owners' clients: leave out --owner or --by-owner.")
    print_news(
        warehouse.absolute(),
        cluster,
        day and day.date(),
        owner=owner,
        by_owner=by_owner,
        lists_all=lists_all,
        as_json=as_json,
    )


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
    from spark_jobs.cli.print_news import audited_day
    from spark_jobs.publish.acknowledge import acknowledge_finding

    if (until is None) == (days is None):
        raise BadInputError("Say until when: either --until YYYY-MM-DD or --days N.")
    scope = audited_day(warehouse.absolute(), cluster, day and day.date())
    last = until.date() if until else scope.day + dt.timedelta(days=days or 0)
    typer.echo(acknowledge_finding(scope, finding, owner=owner, reason=reason, until=last))


def diff(
    first: Annotated[
        str,
        typer.Argument(
            help="[WAREHOUSE@]DAY, or DAY:previous for the run before.", metavar="RUN_A"
        ),
    ],
    second: Annotated[str, typer.Argument(help="The same for the other one.", metavar="RUN_B")],
    warehouse: Annotated[
        Path | None,
        warehouse_option("Where audits are that are named by their day only."),
    ] = None,
    cluster: ClusterName = "default",
    exit_code: Annotated[
        bool,
        option("--exit-code", "End with 1 where decisions of the same log differ."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what differs between two audits.

    They are of two days, or of one log by two versions of this program.
    """
    from spark_jobs.cli.print_diff import print_diff

    found = print_diff(first, second, warehouse and warehouse.absolute(), cluster, as_json=as_json)
    if exit_code and found.changed_decisions:
        raise typer.Exit(1)
