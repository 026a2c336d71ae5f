"""What looks wrong with the days of a cluster beside each other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.settings import IngestSettings
from spark_jobs.upkeep.ailment import Ailment, quoted
from spark_jobs.warehouse.days import stray_days
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import is_in_bucket


def is_sound(scope: RunScope) -> bool:
    """Return True if the day's pointers can be read and say that it was ingested."""
    try:
        return scope.partition_dir("files").is_dir()
    except BadInputError:
        return False


def wrong_clocks(
    warehouse: Path, cluster: str, days: Sequence[dt.date], now: dt.datetime
) -> Iterator[Ailment]:
    """Yield what ``days`` say of the clocks of brokers, and of this machine's, which is ``now``."""
    latest = IngestSettings().latest_day(now)
    later = [day for day in days if day > latest]
    clock = f"this machine's clock ({now:%Y-%m-%d %H:%M} UTC)"
    rows_of = _requests_of(warehouse, cluster, days)
    if 2 * sum(rows_of.get(day, 0) for day in later) > sum(rows_of.values()):
        others = " and so the others" if len(later) > 1 else ""
        yield Ailment(
            "clock_behind", cluster,
            f"{len(later)} of {len(days)} days, with most of the requests, are after {clock}",
            "Later days are not taken for the newest, and prune counts from none of them",
            "set this machine's clock; if it is right, a broker's was wrong. Then put away "
            f"{later[0]}{others}, {_put_away(RunScope(warehouse, cluster, later[0]))}",
        )  # fmt: skip
        return
    for day in later:
        yield Ailment(
            "future_day", f"{cluster} {day}", f"It is after {clock}",
            "A wrong clock wrote its lines. No command takes it for the newest day",
            _put_away(RunScope(warehouse, cluster, day)),
        )  # fmt: skip
    for day in stray_days({day: rows_of[day] for day in rows_of if day not in later}):
        yield Ailment(
            "stray_day", f"{cluster} {day}",
            f"It has few requests ({rows_of[day]:,}) and is far from the other days",
            "A wrong clock may have written its lines",
            f"where it did: {_put_away(RunScope(warehouse, cluster, day))}",
        )  # fmt: skip


def _requests_of(warehouse: Path, cluster: str, days: Sequence[dt.date]) -> dict[dt.date, int]:
    """Return the number of requests of each day whose manifest can be read."""
    found = {}
    for day in days:
        with suppress(BadInputError):
            scope = RunScope(warehouse, cluster, day)
            rows = read_table(scope, "files", ["requests"], of_any_version=True)
            found[day] = sum(rows["requests"].to_pylist())
    return found


def _put_away(scope: RunScope) -> str:
    """Return the command that moves all of a day beside the warehouse, from where it comes back."""
    if is_in_bucket(scope.warehouse):
        return f"move what is below {scope.runs}, and its reports, out of the warehouse"
    name = quoted(Path("..", f"{scope.warehouse.name}-{scope.cluster}-{scope.day}.tar"))
    return (
        # What was applied to the cluster stays, for rollback.
        f"while no audit runs: (cd {quoted(scope.warehouse)} && tar --exclude=applied_changes "
        f"--remove-files -cf {name} */cluster={scope.cluster}/date={scope.day})"
    )


def gaps(warehouse: Path, cluster: str, days: Sequence[dt.date]) -> Iterator[Ailment]:
    """Yield the stretches between ``days`` of which none was audited."""
    for before, day in pairwise(days):
        if (day - before).days > 1:
            first, last = before + dt.timedelta(days=1), day - dt.timedelta(days=1)
            yield Ailment(
                "missing_days", f"{cluster} {first}" + ("" if first == last else f" to {last}"),
                f"{before} and {day} are there, and nothing in between",
                f"Sensors begin {day} in a state nobody knows (state_unknown)",
                f"where there are logs: {_run_due(warehouse)}",
            )  # fmt: skip


def broken_chain(scope: RunScope) -> Iterator[Ailment]:
    """Yield that a day began with other states than the day before ended with."""
    before = scope.day_before
    if not is_sound(before):
        return
    left, began = before.carried(), scope.carried()
    if left is not None and began is not None and began["before"] != left["after"]:
        yield Ailment(
            "broken_chain", f"{scope.cluster} {scope.day}",
            f"Its replay began with other states than {before.day}, as published, ended with",
            f"{before.day} was audited after it: its first decisions may be otherwise",
            _run_due(scope.warehouse),
        )  # fmt: skip


def _run_due(warehouse: Path) -> str:
    return f"quota-audit run ARCHIVE --warehouse {quoted(warehouse)} --due"
