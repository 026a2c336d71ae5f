"""Which tables of which days are old enough to be removed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping

from spark_jobs.errors import BadInputError

PRUNABLE = {
    "requests": 1,
    "quarantine": 1,
    "rates": 1,
    # Recommendations try their proposals on the decisions of so many days.
    "decisions": 28,
}
"""The large tables, and the least number of days of each. All others tell one day of another:
findings and states, the manifest of files, demand, quotas; and they are small."""


def kept_days(defaults: Mapping[str, int], asked: Iterable[str]) -> dict[str, int]:
    """Return how many days are kept of each table; ``asked`` has ``table=days``, and wins.

    Raises BadInputError for what is no such table, or too few days of it.
    """
    kept = dict(defaults)
    for text in asked:
        table, _, number = text.partition("=")
        if not number.isascii() or not number.isdigit():
            raise BadInputError(
                f"{text[:120]!r} is no retention: expected table=days, requests=14."
            )
        kept[table] = int(number)
    for table, days in kept.items():
        if table not in PRUNABLE:
            raise BadInputError(
                f"The table {table[:120]!r} is not removed by age: expected one of "
                f"{', '.join(PRUNABLE)}. The others are small, and later days need them."
            )
        if days < PRUNABLE[table]:
            raise BadInputError(
                f"{days} days of {table} are too few: expected at least {PRUNABLE[table]}."
            )
    return kept


def old_days(
    audited: Collection[dt.date], kept: Mapping[str, int]
) -> list[tuple[dt.date, tuple[str, ...]]]:
    """Return the days of which tables are too old, oldest first.

    Counted from the newest audited day, not from today: a warehouse that rests loses nothing. The
    requests of a day stay until the day after it is audited, whose replay reads its last minutes.
    """
    newest = max(audited, default=dt.date.min)
    found = []
    for day in sorted(audited):
        tables = [table for table, days in kept.items() if (newest - day).days >= days]
        if day + dt.timedelta(days=1) not in audited and "requests" in tables:
            tables.remove("requests")
        if tables:
            found.append((day, tuple(tables)))
    return found
