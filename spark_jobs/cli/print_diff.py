"""The command ``diff``: two audits side by side."""

from __future__ import annotations

import datetime as dt
import json
import sys
from dataclasses import replace
from pathlib import Path

from spark_jobs.cli.print_news import audited_day
from spark_jobs.errors import BadInputError
from spark_jobs.publish.diff import Diff, diff_of
from spark_jobs.publish.diff_text import diff_object, diff_text
from spark_jobs.warehouse.runs import kept_runs, previous_run
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import usable_storage_path

PREVIOUS = "previous"
_FORM = (
    "[WAREHOUSE@]DAY[:previous], as 2026-11-20, 2026-11-20:previous or /old/warehouse@2026-11-20"
)


def print_diff(
    first: str, second: str, warehouse: Path | None, cluster: str, *, as_json: bool
) -> Diff:
    """Print what differs between two audits, which are named as ``_FORM`` says, and return it.

    Raises BadInputError where a name is none, or there is no such audit.
    """
    diff = diff_of(_named(first, warehouse, cluster), _named(second, warehouse, cluster))
    sys.stdout.write(json.dumps(diff_object(diff)) + "\n" if as_json else diff_text(diff))
    return diff


def _named(name: str, warehouse: Path | None, cluster: str) -> RunScope:
    where, at, day_and_run = name.rpartition("@")
    day, _, run = day_and_run.partition(":")
    try:
        day_named = dt.date.fromisoformat(day)
    except ValueError as error:
        raise BadInputError(f"{name!r} names no audit: expected {_FORM}.") from error
    folder = usable_storage_path(where).absolute() if at else warehouse
    if folder is None:
        raise BadInputError(f"{name!r} says no warehouse, and neither does --warehouse: {_FORM}.")
    return _of_run(audited_day(folder, cluster, day_named), run)


def _of_run(scope: RunScope, run: str) -> RunScope:
    if run in ("", "published"):
        return scope.pinned()
    found = previous_run(scope.runs) if run == PREVIOUS else run
    if found is None or found not in kept_runs(scope.runs):
        raise BadInputError(
            f"{scope.cluster} {scope.day} has no run {run!r}: kept are the published one, and as "
            f"{PREVIOUS!r} the one before it, where the day was audited again."
        )
    return replace(scope, run=found).held()
