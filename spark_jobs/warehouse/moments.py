"""Moments as people write them on a command line."""

from __future__ import annotations

import datetime as dt

from spark_jobs.errors import BadInputError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


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
    """Return the whole milliseconds since the epoch."""
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
