"""What lines say of the time zone of their stamps: other times beside them that have a zone.

Each sign is how far a stamp, as it was read, is ahead of the moment it was written at. None of a
stamp's own digits is taken for a sign.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from spark_jobs.ingest.lines.envelope import EnvelopeState, unwrap
from spark_jobs.ingest.lines.line_time import STAMP, LineClock

ENVELOPE, BROKER_TIME, FILE_TIME, SET_BACK, JOURNAL, OTHER_BROKER = (
    "envelope", "broker_time", "file_time", "set_back", "journal", "other_broker",
)  # fmt: skip
"""Where a sign is from: what a container runtime wrote before the line; a time that the broker put
into its answer; when the file was last written; stamps that go back; ``quota_changes.txt``; and
what two brokers logged of one thing."""

SIGNS_OF_BLOCK_MAX = 50
SET_BACK_MIN_MS, SET_BACK_MAX_MS = 20 * 60_000, 190 * 60_000
"""Clocks are set back by half an hour to three hours; threads' lines are never so far apart."""

# A broker's own clock, as epoch milliseconds: Produce of topics with LogAppendTime, in both formats
# of the log; DescribeQuorum (the leader's clock at a fetch just before); CreateDelegationToken.
_BROKER_TIME = re.compile(
    rb'(?:logAppendTimeMs"|log_append_time|lastFetchTimestamp"|issueTimestampMs")[:=](\d{13})\b'
)
_ZONED = rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)"
_CRI_TIME = re.compile(_ZONED + rb" std")
_DOCKER_TIME = re.compile(rb'"time":"' + _ZONED + rb'"')


@dataclass(frozen=True, slots=True)
class ClockSign:
    """A stamp of a broker was read as ``apart_ms`` later than the moment it means."""

    kind: str
    broker_id: int | None
    apart_ms: int
    at_ms: int  # the stamp as read


def signs_of_block(data: bytes, broker_id: int | None, timezone: dt.tzinfo) -> list[ClockSign]:
    """Return what some lines of a block say; each line with such a time is worth one sign."""
    clock = LineClock(timezone)
    found = islice(_times(data), SIGNS_OF_BLOCK_MAX)
    signs = []
    for kind, line, true_ms in found:
        inner = unwrap(line, EnvelopeState(), None) or b""
        stamp = STAMP.match(inner)
        read_ms = clock.epoch_ms(stamp[1]) if stamp else None
        if read_ms is not None:
            signs.append(ClockSign(kind, broker_id, read_ms - true_ms, read_ms))
    return signs


def has_offsets(data: bytes) -> bool:
    """Return whether the first stamp of a block names its offset from UTC."""
    first = (
        unwrap(data[: data.find(b"\n") if b"\n" in data else None], EnvelopeState(), None) or b""
    )
    stamp = STAMP.match(first)
    return (
        stamp is not None and re.search(rb"(?:Z|[+-]\d\d(?::?\d\d)?)$", stamp[1][19:]) is not None
    )


def set_back(
    log_time_ms: np.ndarray, broker_id: int | None, before_ms: int | None
) -> list[ClockSign]:
    """Return where the stamps of a file's lines, in their order, go back as clocks are set back.

    ``before_ms`` is the last one of the block before.
    """
    times = log_time_ms if before_ms is None else np.concatenate(([before_ms], log_time_ms))
    steps = np.diff(times)
    places = np.flatnonzero((steps <= -SET_BACK_MIN_MS) & (steps >= -SET_BACK_MAX_MS))
    return [
        ClockSign(SET_BACK, broker_id, int(-steps[place]), int(times[place]))
        for place in places[:3]
    ]


def _times(data: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield kind of time, line and the time of lines that have one with a zone."""
    if data[:1] != b"[":
        begin = 0
        while 0 <= begin < len(data):
            line, begin = _line(data, begin)
            found = _CRI_TIME.match(line) or _DOCKER_TIME.search(line[-200:])
            if found and line[:1] != b"[" and (moment := _moment_ms(found[1] + found[2])):
                yield ENVELOPE, line, moment
    last = -1
    for time in _BROKER_TIME.finditer(data):
        start = data.rfind(b"\n", 0, time.start()) + 1
        if start != last:
            last = start
            yield BROKER_TIME, _line(data, start)[0], int(time[1])


def _line(data: bytes, begin: int) -> tuple[bytes, int]:
    """Return the line at ``begin`` and where the next one begins, -1 where none does."""
    end = data.find(b"\n", begin)
    return (data[begin:], -1) if end < 0 else (data[begin:end], end + 1)


def _moment_ms(text: bytes) -> int | None:
    try:
        return round(dt.datetime.fromisoformat(text.decode()).timestamp() * 1000)
    except ValueError:
        return None
