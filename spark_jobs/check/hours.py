"""Hours of each broker's log that are there, are not, or were not looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_jobs.check.looked_at import FileLook, Looked

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class BrokerHours:
    """Hours since the epoch of one broker's log."""

    seen: frozenset[int]
    unread: frozenset[int]  # a file covers them that was not read there
    missing: tuple[tuple[int, int], ...]  # [from, to) of hours that others have and no file covers


def hours_of_brokers(looked: Looked) -> dict[int | None, BrokerHours]:
    """Return the hours of each broker, from the first hour of any of them to the last.

    A file that was not read to its end is taken to reach to its broker's next one. Of a broker
    with files that were passed by no hour is called missing.
    """
    of_broker: defaultdict[int | None, list[FileLook]] = defaultdict(list)
    for look in looked.files:
        if look.first_ms is not None:
            of_broker[look.broker_id].append(look)
    seen = {b: frozenset().union(*(f.hours for f in each)) for b, each in of_broker.items()}
    if not seen:
        return {}
    first = min(min(hours) for hours in seen.values())
    end = max(max(hours) for hours in seen.values()) + 1
    found = {}
    for broker, each in sorted(of_broker.items(), key=lambda item: (item[0] is None, item[0])):
        is_passed_by = any(of == broker for of, _ in looked.passed_by)
        covered = range(first, end) if is_passed_by else _covered(each, end)
        unread = frozenset(covered) - seen[broker]
        there = seen[broker] | unread
        found[broker] = BrokerHours(
            seen[broker], unread, tuple(_runs([h for h in range(first, end) if h not in there]))
        )
    return found


def _covered(files: Sequence[FileLook], end: int) -> Iterable[int]:
    """Yield the hours that files cover whose lines between were not all read."""
    in_order = sorted(files, key=lambda f: (f.first_ms or 0, f.source_file))
    for place, look in enumerate(in_order):
        first = min(look.hours)
        if look.is_whole or look.cut:
            continue
        if look.reaches_end:
            yield from range(first, max(look.hours))
        else:
            following = [min(f.hours) for f in in_order[place + 1 :] if min(f.hours) > first]
            yield from range(first, following[0] if following else end)


def _runs(hours: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield [from, to) of hours in a row.

    >>> list(_runs([3, 4, 7]))
    [(3, 5), (7, 8)]
    """
    begin = None
    for place, hour in enumerate(hours):
        begin = hour if begin is None else begin
        if place + 1 == len(hours) or hours[place + 1] != hour + 1:
            yield begin, hour + 1
            begin = None
