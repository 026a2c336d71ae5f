"""Which audited day, draft or run a command is about."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import usable_storage_path

if TYPE_CHECKING:
    from spark_jobs.warehouse.scope import RunScope

PREVIOUS = "previous"
_FORM = (
    "[WAREHOUSE@]DAY[:previous], as 2026-11-20, 2026-11-20:previous or /old/warehouse@2026-11-20"
)


def scope_of(warehouse: Path, cluster: str, day: dt.datetime) -> RunScope:
    """Return the scope that the options of a command name."""
    from spark_jobs.warehouse.scope import RunScope

    return RunScope(warehouse=warehouse.absolute(), cluster=cluster, day=day.date())


def draft_of(warehouse: Path, cluster: str, day: dt.datetime, take_over: bool) -> RunScope:
    """Return the scope of a day's draft, which the next step continues."""
    from spark_jobs.warehouse.write import continued_draft

    return continued_draft(scope_of(warehouse, cluster, day), take_over=take_over)


def draft_or_published_of(
    warehouse: Path, cluster: str, day: dt.datetime, take_over: bool
) -> RunScope:
    """Return the scope of a day's draft, or of its published run where there is no draft."""
    from spark_jobs.warehouse.write import draft_or_published

    return draft_or_published(scope_of(warehouse, cluster, day), take_over=take_over)


def audited_day(warehouse: Path, cluster: str, day: dt.date | None) -> RunScope:
    """Return the published audit of ``day``; None: of the newest.

    Raises BadInputError where there is none.
    """
    from spark_jobs.settings import IngestSettings
    from spark_jobs.warehouse.days import newest_day
    from spark_jobs.warehouse.scope import RunScope, days_of

    days = days_of(warehouse, cluster, "findings")
    if not days:
        raise BadInputError(
            f"{warehouse} holds no audited day of cluster {cluster!r}: audit one with "
            "'quota-audit run ARCHIVE --warehouse …', or name another with --cluster."
        )
    if day is not None and day not in days:
        raise BadInputError(
            f"{day} of cluster {cluster!r} was not audited: {warehouse} has {len(days)} days from "
            f"{days[0]} to {days[-1]}."
        )
    return RunScope(warehouse, cluster, day or newest_day(days, IngestSettings().latest_day()))


def named_run(name: str, warehouse: Path | None, cluster: str) -> RunScope:
    """Return the run of an audited day that a name like ``2026-11-20:previous`` means.

    Raises BadInputError where the name is none, or there is no such audit.
    """
    from spark_jobs.warehouse.runs import kept_runs, previous_run

    where, at, day_and_run = name.rpartition("@")
    day, _, run = day_and_run.partition(":")
    try:
        day_named = dt.date.fromisoformat(day)
    except ValueError as error:
        raise BadInputError(f"{name!r} names no audit: expected {_FORM}.") from error
    folder = usable_storage_path(where).absolute() if at else warehouse
    if folder is None:
        raise BadInputError(f"{name!r} says no warehouse, and neither does --warehouse: {_FORM}.")
    scope = audited_day(folder, cluster, day_named)
    if run in ("", "published"):
        return scope.pinned()
    found = previous_run(scope.runs) if run == PREVIOUS else run
    if found is None or found not in kept_runs(scope.runs):
        raise BadInputError(
            f"{scope.cluster} {scope.day} has no run {run!r}: kept are the published one, and as "
            f"{PREVIOUS!r} the one before it, where the day was audited again."
        )
    return replace(scope, run=found).held()
