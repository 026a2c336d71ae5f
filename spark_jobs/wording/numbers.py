"""Numbers, durations and moments as people read them; exact values travel beside them."""

from __future__ import annotations

import datetime as dt
import math

from spark_jobs.quota.codes import BANDWIDTH_TYPES

_BYTE_STEPS = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_UNITS = {
    "producer_byte_rate": "B/s",
    "consumer_byte_rate": "B/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions/s",
}

NONE = "–"
"""What stands where there is no number."""


def unit_of(quota_type: str) -> str:
    """Return the unit in which a quota of ``quota_type`` is configured."""
    return _UNITS.get(quota_type, "")


def count(value: float | None) -> str:
    """Return a whole number with thousands separators.

    >>> count(1234567)
    '1,234,567'
    """
    return NONE if value is None else f"{value:,.0f}"


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits and without an exponent.

    >>> significant(1234.5), significant(0.01234), significant(-12.0), significant(0.0)
    ('1,234', '0.0123', '−12', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NONE
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{abs(value):,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"−{text}" if value < 0 else text


def rate(value: float | None, quota_type: str) -> str:
    """Return a rate or bound of ``quota_type`` in the unit people use for its size.

    >>> rate(1_048_576.0, "producer_byte_rate"), rate(5.0, "controller_mutation_rate")
    ('1.05 MB/s', '5 partitions/s')
    >>> rate(None, "request_percentage")
    '–'
    """
    if value is None or not math.isfinite(value):
        return NONE
    if quota_type in BANDWIDTH_TYPES:
        divisor, unit = byte_step(value)
        return f"{significant(value / divisor)} {unit}"
    return f"{significant(value)} {unit_of(quota_type)}".rstrip()


def byte_step(value: float) -> tuple[float, str]:
    """Return the divisor and unit that make a byte rate a number from 1 to 999."""
    # Rounded first, so that 999,999 is 1 MB/s rather than 1,000 kB/s.
    rounded = float(f"{abs(value):.3g}")
    return next((step for step in _BYTE_STEPS if rounded >= step[0]), _BYTE_STEPS[-1])


def size(value: float) -> str:
    """Return a number of bytes in the unit people use for its size.

    >>> size(1_048_576.0), size(999.6), size(12.0), size(0.0)
    ('1.05 MB', '1 kB', '12 B', '0 B')
    """
    divisor, unit = byte_step(value)
    return f"{significant(value / divisor)} {unit.removesuffix('/s')}"


def exact_rate(value: float | None, quota_type: str) -> str:
    """Return every digit of a rate, in the unit it is configured in."""
    if value is None or not math.isfinite(value):
        return "no value"
    digits = f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"
    return f"{digits} {unit_of(quota_type)}".rstrip()


def share(part: float, whole: float) -> str:
    """Return ``part`` of ``whole`` in percent; never 0 % or 100 % where that is not exact.

    >>> share(1, 3), share(1, 100_000), share(99_999, 100_000), share(0, 5), share(0, 0)
    ('33 %', '< 0.1 %', '> 99.9 %', '0 %', '–')
    """
    if not whole:
        return NONE
    percent = 100.0 * part / whole
    if part in (0, whole):
        return f"{percent:.0f} %"
    if percent < 0.1:
        return "< 0.1 %"
    if percent > 99.9:
        return "> 99.9 %"
    return f"{percent:.1f} %" if percent < 10 or percent > 90 else f"{percent:.0f} %"


def duration(milliseconds: float | None) -> str:
    """Return a length of time in at most two units.

    >>> duration(850), duration(12_340), duration(754_000), duration(7_512_000)
    ('850 ms', '12.3 s', '12 min 34 s', '2 h 5 min')
    """
    if milliseconds is None:
        return NONE
    seconds = milliseconds / 1000
    if abs(seconds) < 1:
        return f"{milliseconds:,.0f} ms"
    if round(seconds, 1) < 60:
        return f"{significant(round(seconds, 1))} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days:,} d {hours} h" if hours else f"{days:,} d"


def utc(milliseconds: int) -> dt.datetime:
    """Return epoch milliseconds as a UTC datetime."""
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def time_of_day(milliseconds: int | None, day: dt.date) -> str:
    """Return the UTC time, with the date in front only where it is not ``day``."""
    if milliseconds is None:
        return NONE
    at = utc(milliseconds)
    text = at.strftime("%H:%M:%S")
    return text if at.date() == day else f"{at.date()} {text}"


def moment(milliseconds: int) -> str:
    """Return day and time in UTC, to the millisecond.

    >>> moment(1_794_312_000_250)
    '2026-11-10 12:00:00.250 UTC'
    """
    return f"{utc(milliseconds).strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]} UTC"


def iso(milliseconds: int | None) -> str:
    """Return the moment in ISO 8601, UTC, to the millisecond.

    >>> iso(1_794_312_000_005)
    '2026-11-10T12:00:00.005Z'
    """
    if milliseconds is None:
        return ""
    return utc(milliseconds).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def change(current: float | None, proposed: float | None) -> str:
    """Return the difference of ``proposed`` to ``current`` in percent, signed.

    >>> change(50.0, 100.0), change(100.0, 75.0), change(None, 5.0), change(5.0, 5.0)
    ('+100 %', '−25 %', 'new', 'no change')
    """
    if proposed is None:
        return NONE
    if current is None:
        return "new"
    if current == proposed:
        return "no change"
    percent = 100.0 * (proposed - current) / current if current else math.inf
    if not math.isfinite(percent):
        return "new"
    return f"{'+' if percent > 0 else ''}{significant(percent)} %"
