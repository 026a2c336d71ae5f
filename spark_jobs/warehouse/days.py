"""UTC days and moments, and the stretch of a log that one replay decides."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_jobs.errors import BadInputError

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HANDOVER_MS = 600_000
"""Requests that took longer than this, from their record to their line, may come too late for the
state that is handed on. A day hands on how its sensors were so long before its end."""
AHEAD_MS = 900_000
"""The last tries of a day are told by what follows: within ten minutes, and a few windows more."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
CALENDAR_END_MS = 253_402_214_400_000
"""9999-12-31, which has no day after it, begins: no time of a log."""


def day_of(number: int) -> dt.date:
    """Return the date of a UTC day number: of 1, January 2nd, 1970."""
    return _EPOCH.date() + dt.timedelta(days=number)


def day_number(day: dt.date) -> int:
    """Return the UTC day number of a date: the days since the epoch."""
    return (day - _EPOCH.date()).days


def later_day(day: dt.date, days: int) -> dt.date:
    """Return the day so many ``days`` after ``day``; the calendar's last where it has none."""
    return dt.date.fromordinal(min(day.toordinal() + days, dt.date.max.toordinal()))


def possible_days(days: Collection[dt.date], latest: dt.date) -> Collection[dt.date]:
    """Return those of ``days`` up to ``latest``, the latest that a right clock can have made.

    All where each is later: then ``latest`` is what is wrong.
    """
    return [day for day in days if day <= latest] or days


def newest_day(days: Collection[dt.date], latest: dt.date) -> dt.date:
    """Return the last of the :func:`possible_days`."""
    return max(possible_days(days, latest))


_STRAY_SHARE = 0.01
_STRAY_DAYS = 7


def stray_days(rows_of: Mapping[dt.date, int]) -> list[dt.date]:
    """Return the days, of those with so many rows, that a wrong clock may have made.

    They have few rows and are far from the days that have many.
    """
    few = max(rows_of.values(), default=0) * _STRAY_SHARE
    many = [day for day, rows in rows_of.items() if rows > few]
    return [
        day
        for day, rows in sorted(rows_of.items())
        if rows <= few and min(abs((day - other).days) for other in many) >= _STRAY_DAYS
    ]


def moment_of(text: str) -> dt.datetime:
    """Return an ISO moment in UTC, which it is where it names no zone. Raises BadInputError.

    >>> str(moment_of("2026-11-21T03:41:00+01:00"))
    '2026-11-21 02:41:00+00:00'
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(
            f"--at {text!r} is not a moment; expected one like 2026-11-21T02:41:00.250 (UTC) or "
            "2026-11-21T03:41:00+01:00."
        ) from error
    return found.astimezone(dt.UTC) if found.tzinfo else found.replace(tzinfo=dt.UTC)


def since_epoch_ms(moment: dt.datetime) -> int:
    """Return the whole milliseconds from the epoch to ``moment``."""
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Lines from ``from_ms`` on and before ``until_ms``; what is decided of others is not kept."""

    from_ms: int
    until_ms: int
    handover_ms: int = HANDOVER_MS  # before its end
    ahead_ms: int = AHEAD_MS  # after its end

    @property
    def hands_over_ms(self) -> int:
        """Return the time (ms) of the states handed on: no row before it can come later."""
        return max(self.until_ms - self.handover_ms, self.from_ms)

    @property
    def ahead_until_us(self) -> int:
        """Return the end (µs) of the requests after ``until_ms`` that tell of those before it."""
        return (self.until_ms + self.ahead_ms) * 1000
