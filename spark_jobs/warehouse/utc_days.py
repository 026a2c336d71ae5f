"""UTC days as numbers since the epoch: what a time in milliseconds is divided into."""

from __future__ import annotations

import datetime as dt

DAY_MS = 86_400_000
_EPOCH = dt.date(1970, 1, 1)


def day_of(number: int) -> dt.date:
    """Return the date of a UTC day number."""
    return _EPOCH + dt.timedelta(days=number)


def day_number(day: dt.date) -> int:
    """Return the UTC day number of a date."""
    return (day - _EPOCH).days
