"""Signs of the brokers' time zone → what is told, by what, and what to do; never a silent guess."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.check.clock_signs import (
    BROKER_TIME,
    ENVELOPE,
    FILE_TIME,
    JOURNAL,
    OTHER_BROKER,
    SET_BACK,
    ClockSign,
)
from spark_jobs.check.looked_at import PLAUSIBLE_MS

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
    """Return what the signs of an archive tell whose stamps were read in the zone ``read_as``.

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

    Of a thing that a broker logged more than once, as of one only one broker did, there is none.
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
    """Return whole quarters of an hour, None where ``apart_ms`` is near none."""
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
    """Return minutes ahead of each broker whose signs agree."""
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
    """Return what files say that seem to have been written before their last line."""
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
    """Return whether clocks of a zone showed the minute ``at`` twice."""
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
