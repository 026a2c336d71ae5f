"""Stamps of log lines, which are local times without a zone, as epoch milliseconds.

Log4j: ``PatternLayout``'s ``%d`` with ISO8601 (log4j 1 prints a blank, log4j 2 a ``T`` between date
and time), DEFAULT, COMPACT, ISO8601_BASIC, their ``_PERIOD`` forms, more than three digits of the
second (cut), and an offset behind, which then counts instead of the time zone.
"""

from __future__ import annotations

import datetime as dt
import re

from spark_jobs.warehouse.days import CALENDAR_END_MS

STAMP = re.compile(
    rb"\[?(\d{4}-?\d\d-?\d\d[ T]?\d\d:?\d\d:?\d\d[,.]?\d{3}(?:\d{3}|\d{6})?"
    rb"(?:Z|[+-]\d\d(?::?\d\d)?)?)(?![\w,.:])"
)
"""What a log line begins with; group 1 is the stamp that :meth:`LineClock.epoch_ms` takes."""

_MINUTE_MS = 60_000
_HELD_MINUTES_MAX = 10_000
_DISORDER_MS = _MINUTE_MS
"""Lines of a file are never further out of order than this, as far as the repeated hour goes."""

_SECONDS_MS = {
    b":%02d%b" % (second, mark): second * 1000 for second in range(60) for mark in (b",", b".")
}
_MILLISECONDS = {b"%03d" % ms: ms for ms in range(1000)}
_LAYOUTS = tuple(
    re.compile(date + rb"[ T]?" + time + rb"(\d{3})(?:\d{3}|\d{6})?(Z|[+-]\d\d(?::?\d\d)?)?")
    for date, time in (
        (rb"(\d{4})-(\d\d)-(\d\d)", rb"(\d\d):(\d\d):(\d\d)[,.]"),
        (rb"(\d{4})(\d\d)(\d\d)", rb"(\d\d)(\d\d)(\d\d)[,.]?"),
    )
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class LineClock:
    """Reads the stamps of one file's lines, in their order; keep it from block to block.

    In an hour that a clock change repeats, the order of the lines says which pass a stamp is of:
    the first, until stamps jump back by a third of what the clock was put back by or more; then the
    second. So both are told apart as long as no two lines in a row are 40 minutes apart (two thirds
    of the change). A file that begins within the second pass cannot know it, unless ``after_ms``,
    a moment before its first line such as the last of the file before, is given.

    From ``until_ms`` on a stamp is of the future, which a wrong clock wrote; it says nothing of the
    order of the lines.
    """

    __slots__ = (
        "_is_second_pass", "_last_ms", "_minutes", "_plain_minutes", "_timezone", "_until_ms",
    )  # fmt: skip

    def __init__(
        self, timezone: dt.tzinfo, after_ms: int | None = None, until_ms: int = CALENDAR_END_MS
    ) -> None:
        self._timezone = timezone
        self._until_ms = until_ms
        self._minutes: dict[bytes, int] = {}
        self._plain_minutes: dict[int, int | None] = {}
        self._last_ms = after_ms
        self._is_second_pass = False

    def epoch_ms(self, stamp: bytes) -> int | None:
        """Return the moment that ``stamp`` means, in epoch milliseconds.

        None where it is no stamp, no date, before 1970, or a local time that a clock change
        skipped.

        >>> LineClock(dt.UTC).epoch_ms(b"2026-11-21 03:26:45,230")
        1795231605230
        """
        try:
            minute_ms = self._minutes[stamp[:16]]
            ms = minute_ms + _SECONDS_MS[stamp[16:20]] + _MILLISECONDS[stamp[20:]]
        except KeyError:
            return self._new_minute_ms(stamp)
        if ms < self._until_ms:
            self._last_ms = ms
        return ms

    def is_future(self, ms: int) -> bool:
        """Return True if a moment of :meth:`epoch_ms` is one that a wrong clock wrote."""
        return ms >= self._until_ms

    def plain_minute_ms(self, minute: int) -> int | None:
        """Return the moment at which the local minute of digits ``yyyymmddhhmm`` began.

        None where clocks never showed it, or twice, or a stamp of it may be of the future:
        :meth:`epoch_ms` has then to be asked, stamp by stamp.

        >>> LineClock(dt.UTC).plain_minute_ms(202611210326)
        1795231560000
        """
        if minute not in self._plain_minutes:
            if len(self._plain_minutes) >= _HELD_MINUTES_MAX:
                self._plain_minutes.clear()
            self._plain_minutes[minute] = self._only_moment(minute)
        return self._plain_minutes[minute]

    def pass_by(self, ms: int) -> None:
        """Take a stamp into account that was read by :meth:`plain_minute_ms`."""
        self._last_ms = ms

    def _only_moment(self, minute: int) -> int | None:
        day, within = divmod(minute, 10_000)
        try:
            shown = dt.datetime(day // 10_000, day // 100 % 100, day % 100, *divmod(within, 100))
            moments_ms = self._epochs_ms(shown, None)
        except (ValueError, OverflowError):
            return None
        is_plain = len(moments_ms) == 1 and 0 <= moments_ms[0] < self._until_ms - _MINUTE_MS
        return moments_ms[0] if is_plain else None

    def _new_minute_ms(self, stamp: bytes) -> int | None:
        """Read a stamp of a minute not seen before, of a repeated hour, or of a rarer layout."""
        found = next(filter(None, (layout.fullmatch(stamp) for layout in _LAYOUTS)), None)
        if found is None:
            return None
        *parts, millisecond, offset = found.groups()
        try:
            minute = dt.datetime(*map(int, parts[:5]))  # type: ignore[arg-type]
            minutes_ms = self._epochs_ms(minute, offset)
        except (ValueError, OverflowError):
            return None
        within_ms = int(parts[5]) * 1000 + int(millisecond)
        if not minutes_ms or minutes_ms[0] < 0 or within_ms >= _MINUTE_MS:
            return None
        if minutes_ms[0] + within_ms >= self._until_ms:
            return minutes_ms[0] + within_ms
        if len(minutes_ms) == 1 and offset is None and stamp[16:17] == b":":
            self._hold(stamp[:16], minutes_ms[0])
        self._last_ms = self._pass(minutes_ms, within_ms)
        return self._last_ms

    def _hold(self, minute: bytes, epoch_ms: int) -> None:
        if len(self._minutes) >= _HELD_MINUTES_MAX:
            self._minutes.clear()
        self._minutes[minute] = epoch_ms

    def _epochs_ms(self, minute: dt.datetime, offset: bytes | None) -> list[int]:
        """Return the moments at which clocks showed ``minute``: none, one, or two in order."""
        if offset is not None:
            return [_epoch_ms(minute.replace(tzinfo=dt.UTC)) - _offset_ms(offset)]
        moments = [
            minute.replace(tzinfo=self._timezone, fold=fold).astimezone(dt.UTC) for fold in (0, 1)
        ]
        # A skipped time comes back as another one.
        shown = {
            _epoch_ms(moment)
            for moment in moments
            if moment.astimezone(self._timezone).replace(tzinfo=None, fold=0) == minute
        }
        return sorted(shown)

    def _pass(self, minutes_ms: list[int], within_ms: int) -> int:
        """Return the moment of a stamp, of its first or second pass as the last line has it."""
        first_ms, second_ms = minutes_ms[0] + within_ms, minutes_ms[-1] + within_ms
        if first_ms == second_ms or self._last_ms is None:
            return first_ms
        # Within the second pass nothing but a late line is of the first.
        allowed_ms = _DISORDER_MS if self._is_second_pass else (second_ms - first_ms) // 3
        self._is_second_pass = first_ms <= self._last_ms - allowed_ms
        return second_ms if self._is_second_pass else first_ms


def _epoch_ms(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def _offset_ms(offset: bytes) -> int:
    """Return the offset from UTC that ``Z``, ``+01``, ``-0330`` or ``+05:45`` names.

    >>> [_offset_ms(o) // 60_000 for o in (b"Z", b"+01", b"-0330", b"+05:45")]
    [0, 60, -210, 345]
    """
    digits = offset[1:].replace(b":", b"").ljust(4, b"0")
    if offset == b"Z":
        return 0
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if offset.startswith(b"-") else minutes) * _MINUTE_MS
