"""Signs of the brokers' time zone → what is told, by what, and what to do; never a silent guess.

Lines tell of the zone of their stamps by other times beside them that have one. Each sign is how
far a stamp, as it was read, is ahead of the moment it was written at. None of a stamp's own digits
is taken for a sign.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

PLAUSIBLE_MS = range(0, 221_845_132_800_000)
"""From 1970 to 8999: a damaged stamp may be of a year that no calendar can reckon with."""

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
    """Return the signs in some lines of a block, one for each line with such a time."""
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
    """Return True if the first stamp of a block names its offset from UTC."""
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
    """Return a sign where the stamps of a file's lines, in order, go back as clocks are set back.

    ``before_ms`` is the last one of the block before.
    """
    times = log_time_ms if before_ms is None else np.concatenate(([before_ms], log_time_ms))
    steps = np.diff(times)
    indexes = np.flatnonzero((steps <= -SET_BACK_MIN_MS) & (steps >= -SET_BACK_MAX_MS))
    return [
        ClockSign(SET_BACK, broker_id, int(-steps[index]), int(times[index]))
        for index in indexes[:3]
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


AGREES, DIFFERS, MIXED, HINTED, NOT_TOLD = "agrees", "differs", "mixed", "hinted", "not_told"
"""The zone the log was read in fits; another one would; brokers have several; something speaks
against it, without proof; nothing in the archive tells."""

QUARTER_MS = 900_000
"""Offsets of zones are whole quarters of an hour."""
APART_MAX_MS = 120_000
"""So far from a whole quarter may a stamp be: its line was written after what it tells of."""
FILE_APART_MAX_MS = 60_000
FILES_MIN = 3
"""So many files, last written when their last line was, are no accident."""
AGREEING_MIN = 0.8

_KINDS = {
    ENVELOPE: "the container runtime's own time before {count} lines",
    BROKER_TIME: "the broker's own time in {count} answers",
    FILE_TIME: "when {count} files were last written, beside their last lines",
    JOURNAL: "{count} quota changes of quota_changes.txt, beside the server logs",
}
# Where many clusters are; the first with the right offset is named as an example.
_EXAMPLES = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Helsinki", "Europe/Istanbul", "Asia/Dubai",
    "Asia/Karachi", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Dhaka", "Asia/Bangkok",
    "Asia/Shanghai", "Asia/Tokyo", "Australia/Adelaide", "Australia/Sydney", "Pacific/Auckland",
    "Pacific/Kiritimati", "America/Sao_Paulo", "America/Halifax", "America/New_York",
    "America/Chicago", "America/Denver", "America/Phoenix", "America/Los_Angeles",
    "America/Anchorage", "Pacific/Honolulu",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClockAnswer:
    """What is known of the zone: by broker the minutes that stamps are ahead of how they are read.

    ``sentences`` say by what; ``example`` is a zone that would fit, where another one would.
    """

    state: str
    read_as: str
    ahead_minutes: Mapping[int | None, int]
    sentences: tuple[str, ...]
    example: str | None = None


def clock_answer(
    signs: Iterable[ClockSign], read_as: str, *, has_offsets: bool, skipped_lines: int = 0
) -> ClockAnswer:
    """Return the answer that the signs of an archive give, its stamps read in the zone ``read_as``.

    ``has_offsets``: all stamps name theirs. ``skipped_lines`` claim a time that the zone skips.
    """
    known = [s for s in signs if s.at_ms in PLAUSIBLE_MS]
    if has_offsets:
        said = "each stamp names its offset from UTC, so no zone is needed"
        return ClockAnswer(AGREES, read_as, {}, (said,))
    exact = [s for s in known if s.kind in (ENVELOPE, BROKER_TIME, JOURNAL)]
    exact += _file_signs(known)
    ahead = _ahead_of_brokers(exact)
    told = [*_said(exact, ahead), *_between_brokers(known)]
    hints = [*_set_back(known, read_as), *_late_files(known)]
    if skipped_lines:
        hints.append(f"{skipped_lines:,} lines claim a time that clocks in {read_as} never showed")
    if len(set(ahead.values())) > 1 or _between_brokers(known):
        return ClockAnswer(MIXED, read_as, ahead, (*told, *hints))
    if not ahead:
        state = HINTED if hints else NOT_TOLD
        return ClockAnswer(state, read_as, {}, tuple(hints))
    minutes = next(iter(ahead.values()))
    if minutes == 0:
        return ClockAnswer(AGREES if not hints else HINTED, read_as, ahead, (*told, *hints))
    at_ms = max(s.at_ms for s in exact)
    return ClockAnswer(DIFFERS, read_as, ahead, (*told, *hints), _example(read_as, minutes, at_ms))


def pairs_of_brokers(
    told: Iterable[tuple[object, int | None, int]],
) -> list[ClockSign]:
    """Return signs of what several brokers logged of one thing: (thing, broker, time as read).

    A thing that a broker logged more than once, or that only one broker logged, gives no sign.
    """
    by_thing: defaultdict[object, list[tuple[int | None, int]]] = defaultdict(list)
    for thing, broker_id, at_ms in told:
        by_thing[thing].append((broker_id, at_ms))
    signs = []
    for told_by in by_thing.values():
        seen = sorted(told_by, key=str)
        brokers = [broker for broker, _ in seen]
        if len(seen) > 1 and len(set(brokers)) == len(brokers):
            first_ms = seen[0][1]
            signs += [ClockSign(OTHER_BROKER, b, at_ms - first_ms, at_ms) for b, at_ms in seen[1:]]
    return signs


def offset_text(minutes: int) -> str:
    """Return minutes ahead as people write them.

    >>> offset_text(330), offset_text(-60), offset_text(0)
    ('+05:30', '-01:00', '+00:00')
    """
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _quarters(apart_ms: int, within_ms: int) -> int | None:
    """Return ``apart_ms`` in whole quarters of an hour, None if none is within ``within_ms``."""
    quarters = round(apart_ms / QUARTER_MS)
    return quarters if abs(apart_ms - quarters * QUARTER_MS) <= within_ms else None


def _file_signs(signs: Sequence[ClockSign]) -> list[ClockSign]:
    """Return the signs of files where enough were last written when their last line was.

    A file that was copied later says nothing, and one written hours before its last line a lot;
    many that seem written the same time later may have been copied so: they prove nothing.
    """
    of_files = [s for s in signs if s.kind == FILE_TIME]
    near = [(s, _quarters(s.apart_ms, FILE_APART_MAX_MS)) for s in of_files]
    counts = Counter(quarters for _, quarters in near if quarters is not None and quarters >= 0)
    kept = [s for s, quarters in near if quarters is not None and counts[quarters] >= FILES_MIN]
    return kept if 2 * len(kept) > len(of_files) else []


def _ahead_of_brokers(exact: Sequence[ClockSign]) -> dict[int | None, int]:
    """Return the minutes ahead by broker, for the brokers whose signs agree."""
    of_broker: defaultdict[int | None, Counter[int | None]] = defaultdict(Counter)
    for sign in exact:
        of_broker[sign.broker_id][_quarters(sign.apart_ms, APART_MAX_MS)] += 1
    ahead = {}
    for broker_id, counts in of_broker.items():
        quarters, count = counts.most_common(1)[0]
        if quarters is not None and count >= AGREEING_MIN * counts.total():
            ahead[broker_id] = quarters * 15
    return dict(sorted(ahead.items(), key=str))


def _said(exact: Sequence[ClockSign], ahead: Mapping[int | None, int]) -> list[str]:
    by_minutes: defaultdict[int, list[int | None]] = defaultdict(list)
    for broker_id, minutes in ahead.items():
        by_minutes[minutes].append(broker_id)
    sentences = []
    for minutes, brokers in sorted(by_minutes.items()):
        kinds = Counter(s.kind for s in exact if s.broker_id in brokers)
        by = " and ".join(_KINDS[kind].format(count=f"{n:,}") for kind, n in kinds.most_common())
        what = f"ahead by {offset_text(minutes)}" if minutes else "right"
        named = ", ".join("of no folder" if b is None else str(b) for b in brokers)
        sentences.append(f"stamps of broker {named} are {what}, by {by}")
    return sentences


def _between_brokers(signs: Sequence[ClockSign]) -> list[str]:
    """Return the brokers whose stamps of the same things are hours apart."""
    counts: Counter[tuple[int | None, int]] = Counter()
    for sign in signs:
        quarters = _quarters(sign.apart_ms, APART_MAX_MS) if sign.kind == OTHER_BROKER else None
        if quarters is not None:
            counts[sign.broker_id, quarters * 15] += 1
    return [
        f"broker {broker}'s stamps are {offset_text(minutes)} from another broker's in {n} things "
        "that both logged"
        for (broker, minutes), n in sorted(counts.items(), key=str)
        if minutes and n > 1
    ]


def _late_files(signs: Sequence[ClockSign]) -> list[str]:
    """Return sentences about files that seem to have been written before their last line."""
    ahead = [s for s in signs if s.kind == FILE_TIME and s.apart_ms > 10 * 60_000]
    if not ahead or _file_signs(signs):
        return []
    least = min(s.apart_ms for s in ahead) // 60_000
    return [
        f"{len(ahead)} files were last written before their last line, by {least:,} minutes and "
        "more: the brokers' clocks may be ahead of the zone"
    ]


def _set_back(signs: Sequence[ClockSign], read_as: str) -> list[str]:
    back = sorted((s for s in signs if s.kind == SET_BACK), key=lambda s: s.at_ms)
    if not back:
        return []
    zone, first = zoneinfo.ZoneInfo(read_as), back[0]
    at = dt.datetime.fromtimestamp(first.at_ms / 1000, zone).replace(tzinfo=None)
    names = [name for name in _EXAMPLES if _is_set_back(name, at)]
    such = f", as in {', '.join(names[:3])}" if names else ""
    return [
        f"stamps go back by {first.apart_ms // 60_000} minutes after {at:%Y-%m-%d %H:%M:%S} "
        f"(broker {first.broker_id}): a clock that was set back{such}; {read_as} was not"
    ]


def _is_set_back(name: str, at: dt.datetime) -> bool:
    """Return True if clocks of a zone showed the minute ``at`` twice."""
    zone = zoneinfo.ZoneInfo(name)
    first, second = (at.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def _example(read_as: str, minutes: int, at_ms: int) -> str | None:
    """Return a zone whose clocks are ``minutes`` ahead of those of ``read_as`` at a moment."""
    true = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC) - dt.timedelta(minutes=minutes)
    read = true.astimezone(zoneinfo.ZoneInfo(read_as)).utcoffset() or dt.timedelta()
    wanted = read + dt.timedelta(minutes=minutes)
    offsets = ((n, true.astimezone(zoneinfo.ZoneInfo(n)).utcoffset()) for n in _EXAMPLES)
    return next((name for name, offset in offsets if offset == wanted), None)
