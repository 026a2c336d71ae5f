"""Hours of each broker's log that are there, are not, or were not looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.check.clock import PLAUSIBLE_MS
from spark_jobs.check.looked_at import FileLook, Looked
from spark_jobs.warehouse.days import HOUR_MS

SPAN_MAX_HOURS = 366 * 24
"""A map of hours is no longer."""


@dataclass(frozen=True, slots=True)
class BrokerHours:
    """Hours since the epoch of one broker's log."""

    seen: frozenset[int]
    unread: frozenset[int]  # in a part of a file that was not read
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
    first, end = main_span(looked.hours)
    if first == end:
        return {}
    seen = {
        broker: frozenset(h for f in each for h in f.hours if first <= h < end)
        for broker, each in of_broker.items()
    }
    found = {}
    for broker, each in sorted(of_broker.items(), key=lambda item: (item[0] is None, item[0])):
        is_passed_by = any(of == broker for of, _ in looked.passed_by)
        covered = range(first, end) if is_passed_by else _covered(each, first, end)
        unread = frozenset(covered) - seen[broker]
        there = seen[broker] | unread
        found[broker] = BrokerHours(
            seen[broker], unread, tuple(runs([h for h in range(first, end) if h not in there]))
        )
    return found


def main_span(hours: Mapping[int, int]) -> tuple[int, int]:
    """Return the hours [from, to) of the SPAN_MAX_HOURS that have the most requests.

    One damaged stamp would else make a map of centuries.

    >>> main_span({100: 5, 130: 5, -9_000_000: 1})
    (100, 131)
    """
    best, best_span = 0, (0, 0)
    in_order = sorted(hour for hour in hours if hour * HOUR_MS in PLAUSIBLE_MS)
    within = begin = 0
    for index, hour in enumerate(in_order):
        within += hours[hour]
        while hour - in_order[begin] >= SPAN_MAX_HOURS:
            within -= hours[in_order[begin]]
            begin += 1
        if within > best:
            best, best_span = within, (in_order[begin], in_order[index] + 1)
    return best_span


def _covered(files: Sequence[FileLook], first: int, end: int) -> Iterable[int]:
    """Yield the hours that files cover whose lines between were not all read."""
    begun = [(min(inside), f) for f in files if (inside := _inside(f, first, end))]
    begun.sort(key=lambda one: (one[0], one[1].source_file))
    for index, (hour, look) in enumerate(begun):
        if look.is_whole or look.cut:
            continue
        if look.reaches_end:
            yield from range(hour, max(_inside(look, first, end)))
        else:
            following = [later for later, _ in begun[index + 1 :] if later > hour]
            yield from range(hour, following[0] if following else end)


def _inside(look: FileLook, first: int, end: int) -> list[int]:
    return [hour for hour in look.hours if first <= hour < end]


def runs(numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield [from, to) of numbers in a row.

    >>> list(runs([3, 4, 7]))
    [(3, 5), (7, 8)]
    """
    begin = None
    for index, number in enumerate(numbers):
        begin = number if begin is None else begin
        if index + 1 == len(numbers) or numbers[index + 1] != number + 1:
            yield begin, number + 1
            begin = None
