"""Quota events of all sources → the intervals in which one value held: ``quota_changes``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from types import MappingProxyType
from typing import Any

from spark_jobs.ingest.quota_sources.events import SOURCES, QuotaEntity, QuotaEvent
from spark_jobs.quota.codes import QUOTA_LEVELS, QUOTA_TYPES
from spark_jobs.resolve.timeline.default_quota_callback import quota_level
from spark_jobs.resolve.timeline.enabled_levels import END_MS

SAME_CHANGE_WITHIN_MS = 10_000
"""Sources that tell of one change differ by less: tens of ms as a rule, more when a broker lags.

A broker may lag further where its own log is whole and says so.
"""

# Sources that tell of a change when it happens; the others tell what is so.
_OF_CHANGES = tuple(source for source in SOURCES if source not in ("snapshot", "static"))


@dataclass(frozen=True, slots=True)
class _Change:
    """The value of one quota on one broker from ``at_ms`` on, and the event that says so."""

    at_ms: int
    event: QuotaEvent


@dataclass(frozen=True, slots=True)
class _Held:
    """One value from ``from_ms`` to ``until_ms`` (None: still)."""

    bound: float
    from_ms: int
    until_ms: int | None
    event: QuotaEvent


def quota_intervals(
    events: Iterable[QuotaEvent],
    broker_ids: Iterable[int],
    logged_starts_ms: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return rows of ``tables.QUOTA_CHANGES``: when which value held, by entity and then by time.

    An interval begins at the most likely moment of its change. Where the change reached the
    brokers at different times, each broker has its own rows; else ``broker_id`` is None. What
    several sources tell of one change counts once, with the time of the one that knows it best
    (the order of ``SOURCES``); a value set again to what it is, is no change. A broker's own log
    that tells of a start (``logged_starts_ms`` by broker) is whole until the next one: the broker
    had a change when that says so, however late. A snapshot confirms or contradicts: what it shows
    held before, as far back as nothing else is known. A static value holds where no other is set
    (Kafka: ``DefaultQuotaCallback.quotaLimit`` before 3.0).

    The result does not depend on the order of ``events``.
    """
    told: dict[tuple[str, QuotaEntity], list[QuotaEvent]] = defaultdict(list)
    for event in sorted(set(events), key=_order):
        told[event.quota_type, event.entity].append(event)
    named = {e.broker_id for each in told.values() for e in each if e.broker_id is not None}
    brokers = sorted(named.union(broker_ids))
    starts_ms: dict[int | None, list[int]] = {
        broker: sorted(logged_starts_ms.get(broker, ())) for broker in brokers
    }
    starts_ms = starts_ms or {None: []}
    return [row for key in sorted(told, key=_quota_order) for row in _rows(told[key], starts_ms)]


def _order(event: QuotaEvent) -> tuple[Any, ...]:
    return (
        event.likely_ms,
        event.latest_ms,
        event.earliest_ms,
        SOURCES.index(event.source),
        event.source_file or "",
        event.source_line or 0,
        -1 if event.broker_id is None else event.broker_id,
        -1.0 if event.bound is None else event.bound,
    )


def _quota_order(quota: tuple[str, QuotaEntity]) -> tuple[Any, ...]:
    quota_type, entity = quota
    level = QUOTA_LEVELS.index(quota_level(entity))
    return QUOTA_TYPES.index(quota_type), level, entity[0] or "", entity[1] or ""


def _rows(
    events: Sequence[QuotaEvent], starts_ms: Mapping[int | None, Sequence[int]]
) -> list[dict[str, Any]]:
    """Return the rows of one quota; ``events`` are its own, ``starts_ms`` each broker's, in order.

    Without any broker they are of None.
    """
    by_broker = {
        broker: _held([e for e in events if e.broker_id in (None, broker)], own_ms)
        for broker, own_ms in starts_ms.items()
    }
    seen_alike = {
        tuple((h.bound, h.from_ms, h.until_ms) for h in each) for each in by_broker.values()
    }
    if len(seen_alike) == 1:
        by_broker = {None: next(iter(by_broker.values()))}
    return [_row(held, broker) for broker, each in by_broker.items() for held in each]


def _row(held: _Held, broker_id: int | None) -> dict[str, Any]:
    event = held.event
    return {
        "quota_type": event.quota_type,
        "quota_user": event.quota_user,
        "quota_client_id": event.quota_client_id,
        "bound": held.bound,
        "broker_id": broker_id,
        "valid_from_ms": held.from_ms,
        "valid_until_ms": held.until_ms,
        "source": event.source,
        "source_file": event.source_file,
        "source_line": event.source_line,
    }


def _held(events: Sequence[QuotaEvent], starts_ms: Sequence[int]) -> list[_Held]:
    """Return the intervals of one quota on one broker, whose own log tells of ``starts_ms``."""
    changes = [_Change(e.likely_ms, e) for e in _counted_once(events, starts_ms)]
    for event in events:
        if event.source == "snapshot":
            _observe(event, changes)
    changes += [_Change(e.earliest_ms, e) for e in events if e.source == "static"]
    held: list[_Held] = []
    dynamic: QuotaEvent | None = None
    static: QuotaEvent | None = None
    for change in sorted(changes, key=lambda c: c.at_ms):
        if change.event.source == "static":
            static = change.event
        else:
            dynamic = change.event
        in_force = static if dynamic is None or dynamic.bound is None else dynamic
        _append(held, in_force, change.at_ms)
    return held


def _append(held: list[_Held], in_force: QuotaEvent | None, at_ms: int) -> None:
    """Let the value of ``in_force`` (None: no value) hold from ``at_ms`` on."""
    bound = None if in_force is None else in_force.bound
    if held and held[-1].until_ms is None:
        if held[-1].bound == bound:
            return
        last = held.pop()
        if last.from_ms < at_ms:
            held.append(replace(last, until_ms=at_ms))
    if in_force is None or bound is None:
        return
    if held and (held[-1].until_ms, held[-1].bound) == (at_ms, bound):
        held[-1] = replace(held[-1], until_ms=None)
    else:
        held.append(_Held(bound, at_ms, None, in_force))


def _counted_once(events: Sequence[QuotaEvent], starts_ms: Sequence[int]) -> list[QuotaEvent]:
    """Return the changes of one quota on one broker in order, each as the best source tells it."""
    kept: list[QuotaEvent] = []
    for source in _OF_CHANGES:
        kept += _told_by_no_other([e for e in events if e.source == source], kept, starts_ms)
    return sorted(kept, key=_order)


def _told_by_no_other(
    events: Sequence[QuotaEvent], better_known: Sequence[QuotaEvent], starts_ms: Sequence[int]
) -> list[QuotaEvent]:
    """Return those of one source's ``events`` that have no twin in ``better_known``.

    A twin has the same bound and lies near; not beyond this source's own neighbours of another
    bound, or their twins, so that a value set, changed and set again keeps its three changes. One
    that was replaced before the broker learned of it has no twin, and is none of the broker's.
    After one of the broker's ``starts_ms`` a twin may come later, but not after the next start,
    nor after the value was set again.
    """
    free: dict[float | None, list[int]] = defaultdict(list)
    for event in better_known:
        insort(free[event.bound], event.likely_ms)
    runs = [list(alike) for _, alike in groupby(events, key=lambda event: event.bound)]
    kept: list[QuotaEvent] = []
    following, replaced_ms = None, None
    for place in range(len(runs) - 1, -1, -1):
        previous = runs[place - 1][-1] if place else None
        twins_ms: list[int] = []
        kept_later = len(kept)
        for event, again in zip_longest(runs[place], runs[place][1:]):
            whole_until_ms = _whole_until_ms(event, starts_ms)
            own_until_ms = min(whole_until_ms, END_MS if again is None else again.earliest_ms)
            from_ms, until_ms = _reach(event, previous, following, replaced_ms, own_until_ms)
            times = free[event.bound]
            # Of several the last one, as the last events are matched first.
            last = bisect_right(times, until_ms) - 1
            if last >= 0 and times[last] >= from_ms:
                twins_ms.append(times.pop(last))
            elif not _is_replaced_before(event, following, replaced_ms, whole_until_ms):
                kept.append(event)
        # What was replaced unseen replaced nothing itself.
        if twins_ms or len(kept) > kept_later:
            following, replaced_ms = runs[place][0], min(twins_ms, default=None)
    return kept


def _reach(
    event: QuotaEvent,
    previous: QuotaEvent | None,
    following: QuotaEvent | None,
    replaced_ms: int | None,
    own_until_ms: int,
) -> tuple[int, int]:
    """Return the moments between which another source may have told of an event.

    ``previous`` and ``following`` are its source's nearest ones of another bound, ``replaced_ms``
    is when the other source tells of the following one. The broker's own log may tell of it until
    ``own_until_ms``, however late that is.
    """
    from_ms = event.earliest_ms - SAME_CHANGE_WITHIN_MS
    until_ms = max(event.latest_ms + SAME_CHANGE_WITHIN_MS, own_until_ms)
    if previous is not None:
        from_ms = max(from_ms, min(previous.earliest_ms, event.earliest_ms))
    if following is not None:
        following_ms = max(following.latest_ms, event.latest_ms, replaced_ms or 0)
        until_ms = min(until_ms, following_ms)
    return from_ms, until_ms


def _whole_until_ms(event: QuotaEvent, starts_ms: Sequence[int]) -> int:
    """Return until when (ms) the broker's own log has been whole since before an event.

    It is from a start on to the next one. Without a start before the event it may have begun amid
    the broker's life.
    """
    index = bisect_left(starts_ms, event.earliest_ms)
    return min(starts_ms[index : index + 1], default=END_MS) if index else event.latest_ms


def _is_replaced_before(
    event: QuotaEvent,
    following: QuotaEvent | None,
    replaced_ms: int | None,
    whole_until_ms: int,
) -> bool:
    """Return True if a broker that tells of the following event never had the one before.

    It was further behind than the two are apart, so it took both over at once.
    """
    if following is None or replaced_ms is None:
        return False
    if replaced_ms > max(following.latest_ms + SAME_CHANGE_WITHIN_MS, whole_until_ms):
        return False
    return replaced_ms - following.latest_ms > following.latest_ms - event.latest_ms


def _observe(snapshot: QuotaEvent, changes: list[_Change]) -> None:
    """Add to ``changes``, which are in order, what only ``snapshot`` tells."""
    at_ms = snapshot.latest_ms
    times = [c.at_ms for c in changes]
    # A snapshot near a change may show the value before it or after it.
    first = bisect_left(times, at_ms - SAME_CHANGE_WITHIN_MS)
    last = bisect_right(times, at_ms + SAME_CHANGE_WITHIN_MS)
    if any(c.event.bound == snapshot.bound for c in changes[max(first - 1, 0) : last]):
        return
    index = bisect_right(times, at_ms)
    since_ms = at_ms if index else snapshot.earliest_ms
    changes.insert(index, _Change(since_ms, snapshot))


Moments = Mapping[tuple[int, int], int]
"""(broker id, moment as quota_changes has it) → when the change was in force there."""


def moved_changes(
    rows: Iterable[Mapping[str, Any]], in_force_ms: Moments, broker_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows of ``tables.QUOTA_CHANGES`` with the moments of ``in_force_ms``.

    A row that holds on every broker becomes one per broker where their moments differ; a value
    that was replaced before the broker learned of it has no row there.
    """
    moved: list[dict[str, Any]] = []
    for row in rows:
        each = [row["broker_id"]] if row["broker_id"] is not None else [*broker_ids]
        of_brokers = [_moved(row, broker_id, in_force_ms) for broker_id in each]
        spans = {(r["valid_from_ms"], r["valid_until_ms"]) for r in of_brokers}
        if row["broker_id"] is None and len(spans) <= 1:
            of_brokers = [{**(of_brokers[0] if of_brokers else row), "broker_id": None}]
        moved += [r for r in of_brokers if r["valid_from_ms"] != r["valid_until_ms"]]
    return moved


def _moved(row: Mapping[str, Any], broker_id: int, in_force_ms: Moments) -> dict[str, Any]:
    valid_from_ms, valid_until_ms = row["valid_from_ms"], row["valid_until_ms"]
    return {
        **row,
        "broker_id": broker_id,
        "valid_from_ms": in_force_ms.get((broker_id, valid_from_ms), valid_from_ms),
        "valid_until_ms": in_force_ms.get((broker_id, valid_until_ms), valid_until_ms),
    }
