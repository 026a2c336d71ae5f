"""What looks wrong with the days of a cluster beside each other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.upkeep.ailment import Ailment
from spark_jobs.warehouse.scope import RunScope


def is_sound(scope: RunScope) -> bool:
    """Return True if the day's pointers can be read and say that it was ingested."""
    try:
        return scope.partition_dir("files").is_dir()
    except BadInputError:
        return False


def gaps(warehouse: Path, cluster: str, days: list[dt.date]) -> Iterator[Ailment]:
    for before, day in pairwise(days):
        if (day - before).days > 1:
            first, last = before + dt.timedelta(days=1), day - dt.timedelta(days=1)
            yield Ailment(
                "missing_days", f"{cluster} {first}" + ("" if first == last else f" to {last}"),
                f"{before} and {day} are there, and nothing in between",
                f"Sensors begin {day} in a state nobody knows (state_unknown)",
                f"where there are logs: quota-audit run ARCHIVE --warehouse {warehouse} --due",
            )  # fmt: skip


def broken_chain(scope: RunScope) -> Iterator[Ailment]:
    before = scope.day_before
    if not is_sound(before):
        return
    left, began = before.carried(), scope.carried()
    if left is not None and began is not None and began["before"] != left["after"]:
        yield Ailment(
            "broken_chain", f"{scope.cluster} {scope.day}",
            f"Its replay began with other states than {before.day}, as published, ended with",
            f"{before.day} was audited after it: its first decisions may be otherwise",
            f"quota-audit run ARCHIVE --warehouse {scope.warehouse} --due",
        )  # fmt: skip
