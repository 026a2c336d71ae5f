"""Which connections of a client share one counter of correlation ids.

Whose counter it is differs by library. Java clients count per client instance, over all their
brokers (``NetworkClient.nextCorrelationId``); librdkafka per broker and over reconnects
(``rd_kafka_broker_s.rkb_corrid``); sarama (``Broker.correlationID``), franz-go
(``brokerCxn.corrID``) and others per connection. The log tells which it was: two connections share
a counter where the ids of one stand in the gaps of the other's, none twice and in the order of
time. So no library is named here: connections are joined where that leaves no gap more than they
have apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

from spark_jobs.quota.java_math import INT_MAX, INT_MIN

STEPS = (1, 2, 3, 4, 6, 8)
"""How far apart two ids may be to hint at one counter, nearest first; those between are missing."""

NEAR_MS = (1_000, 10_000, 1 << 40)
"""How far apart in time they may be: the nearest hints are followed first."""

DISORDER_MAX_MS = 60_000
"""So much later may a request be received than one sent after it, to another broker.

Nothing of it is the wait on a muted connection (``Connections.sent_from_ms``).
"""

NEIGHBOURS = 4
"""So many ids of others, received before and as many after, an id may lead to."""

LINKS_MIN = 2
"""So often at least ids of one lead to the other's or back where one fills the other's holes."""

TRIES_MAX, LINES_MAX = 20, 200_000
"""So many pairs of counters, of so many lines all in all, are put together anew."""

FIRST_ID_MAX = 2
"""Clients of all libraries ask with one of their first ids which APIs a broker has."""

WRAP_MARGIN = 1 << 28
"""Ids this near the ends of int32 tell of a counter that went over the end."""

_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Connections:
    """What joins connections; arrays of one length, a line each, a connection's codes equal."""

    connection: np.ndarray  # 0 … n - 1
    host: np.ndarray  # 0 … of the client's address
    software: np.ndarray  # code of the client's library and version, 0: not known
    correlation_id: np.ndarray  # int64, see unwrapped()
    is_opening: np.ndarray  # bool: it asked which APIs there are, as new connections do
    is_answered: np.ndarray  # bool: False of a produce with acks=0
    received_ms: np.ndarray  # int64
    sent_from_ms: np.ndarray  # int64: when it was sent at the earliest, behind a muted connection
    free_at_ms: np.ndarray  # int64: when its connection took its next request

    def of(self, connections: np.ndarray) -> Connections:
        """Return the lines of these connections, which are 0 … n - 1 then, in their order."""
        rows = np.isin(self.connection, connections)
        taken = Connections(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})
        return replace(taken, connection=np.searchsorted(connections, taken.connection))


def unwrapped(correlation_id: np.ndarray) -> np.ndarray:
    """Return ids (int32) as int64 that go on counting where a counter went over its end."""
    ids = correlation_id.astype(np.int64)
    if not len(ids) or ids.max() <= INT_MAX - WRAP_MARGIN:
        return ids
    return np.where(ids < INT_MIN + WRAP_MARGIN, ids + (1 << 32), ids)


def counters_of(lines: Connections) -> np.ndarray:
    """Return the counter of each connection: an array of codes, one per connection.

    No id occurs twice in a counter. Connections from one address are joined first; a client behind
    several addresses is put together afterwards. Where ids are missing then, those whose ids
    interlock are joined before all others, if fewer are missing so.
    """
    joined, missing = _put_together(lines, is_interlocked_first=False)
    if missing:
        otherwise, missing_otherwise = _put_together(lines, is_interlocked_first=True)
        if missing_otherwise < missing:
            joined, missing = otherwise, missing_otherwise
    return _going_on(lines, _exchanged(lines, joined) if missing else joined)


def _exchanged(lines: Connections, labels: np.ndarray) -> np.ndarray:
    """Return the counters, those of two connections put together anew where fewer ids miss so.

    The ids of the two lead to each other again and again, and yet they are in two counters: the
    first ids of a client, such as 0 to 3, go on well in those of another that began as it did.
    """
    alone = _Known.of(lines, np.arange(len(labels)))
    pairs, tries, lines_left = _interlocked(lines, alone, np.zeros_like(lines.host)), 0, LINES_MAX
    for one, other in pairs:
        if labels[one] == labels[other]:
            continue
        connections = np.flatnonzero(np.isin(labels, labels[[one, other]]))
        both = lines.of(connections)
        missing = _Known.of(both, labels[connections]).missing()
        if not missing:
            continue
        tries, lines_left = tries + 1, lines_left - len(both.connection)
        if tries > TRIES_MAX or lines_left < 0:
            break
        pair = tuple(np.searchsorted(connections, (one, other)).tolist())
        anew, missing_anew = _put_together(both, is_interlocked_first=False, first=[pair])
        if missing_anew < missing:
            labels[connections] = connections[anew]
    return labels


def _going_on(lines: Connections, labels: np.ndarray) -> np.ndarray:
    """Return the counters, those that begin amid their ids put to the ones that they go on from.

    A client counts from 0. Where it opens a connection with a later id, such as 192, what it sent
    before may wait on a connection that its broker is still behind with.
    """
    if lines.is_answered.all():
        return labels
    names, counter = np.unique(labels[lines.connection], return_inverse=True)
    order = np.lexsort((lines.correlation_id, counter))
    starts = np.flatnonzero(np.diff(counter[order], prepend=-1))
    first, last = order[starts], np.append(order[starts[1:] - 1], order[-1:])
    begun_ms, last_id = lines.received_ms[first], lines.correlation_id[last].copy()
    unanswered_ms = np.where(lines.is_answered, -_FAR, lines.free_at_ms)
    behind_until_ms = np.maximum.reduceat(unanswered_ms[order], starts)
    first_id, software = lines.correlation_id[first], _software(lines, counter)
    begins_amid = lines.is_opening[first] & (first_id > FIRST_ID_MAX)
    for late in sorted(np.flatnonzero(begins_amid).tolist(), key=begun_ms.__getitem__):
        may_go_on = (lines.host[first] == lines.host[first[late]]) & (last_id < first_id[late])
        may_go_on &= (begun_ms <= begun_ms[late]) & (behind_until_ms > begun_ms[late])
        may_go_on &= (software == software[late]) | (software == 0) | (software[late] == 0)
        may_go_on[late] = False
        if may_go_on.any():
            early = int(np.where(may_go_on, last_id, -1).argmax())
            labels[labels == names[late]] = names[early]
            behind_until_ms[early] = max(behind_until_ms[early], behind_until_ms[late])
            last_id[early], last_id[late] = last_id[late], _FAR
    return labels


def _put_together(
    lines: Connections, *, is_interlocked_first: bool, first: Sequence[tuple[int, int]] = ()
) -> tuple[np.ndarray, int]:
    """Return the counter of each connection, and how many ids are missing from all of them.

    The connections ``first`` are joined before all others.
    """
    joined = _Joined(lines)
    for one, other in first:
        joined.join(one, other)
    anywhere = np.zeros_like(lines.host)
    scopes = [lines.host] if (lines.host == lines.host[:1]).all() else [lines.host, anywhere]
    known = _Known.of(lines, joined.labels())
    for scope in scopes if is_interlocked_first else ():
        pairs = _interlocked(lines, known, scope)
        if sum(joined.join(one, other, is_filling=True) for one, other in pairs):
            known = _Known.of(lines, joined.labels())
    for scope, near_ms, step in product(scopes, NEAR_MS, STEPS):
        hints = _hints(lines, known, scope, step, near_ms)
        if sum(joined.join(one, other) for one, other in hints):
            known = _Known.of(lines, joined.labels())
    return joined.labels(), known.missing()


@dataclass(frozen=True, slots=True)
class _Known:
    """The lines in the order of their counters, as far as these are known, and ids."""

    counter: np.ndarray  # of each line
    order: np.ndarray
    ahead: np.ndarray  # from each line, in that order, to the next id of its counter

    @classmethod
    def of(cls, lines: Connections, labels: np.ndarray) -> _Known:
        counter = labels[lines.connection]
        order = np.lexsort((lines.correlation_id, counter))
        ids, of = lines.correlation_id[order], counter[order]
        ahead = np.full(len(ids), _FAR)
        ahead[:-1] = np.where(of[1:] == of[:-1], ids[1:] - ids[:-1], ahead[:-1])
        return cls(counter, order, ahead)

    def missing(self) -> int:
        """Return the number of ids that no line has: 2 where a counter has 5, 6, 9."""
        return int((self.ahead[self.ahead < _FAR] - 1).sum())

    def ends(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lines with no id of their counter within ``step`` after them, and before."""
        has_room = self.ahead > step
        return self.order[has_room], self.order[np.concatenate(([True], has_room[:-1]))]


def _hints(
    lines: Connections, known: _Known, scope: np.ndarray, step: int, near_ms: int
) -> list[tuple[int, int]]:
    """Return pairs of counters in which an id of one leads to one of the other, likeliest first.

    An id leads to the id ``step`` above it, of another counter, that was received nearest to it,
    where it is the nearest in turn.
    """
    tails, heads = known.ends(step)
    head_of_tail = _nearest(lines, scope, tails, heads, step)
    tail_of_head = _nearest(lines, scope, heads, tails, -step)
    found = np.flatnonzero(head_of_tail >= 0)
    mutual = found[tail_of_head[head_of_tail[found]] == found]
    tail, head = tails[mutual], heads[head_of_tail[mutual]]
    later_ms = lines.received_ms[head] - lines.received_ms[tail]
    before_sent_ms = lines.sent_from_ms[tail] - lines.received_ms[head]
    fits = (np.abs(later_ms) <= near_ms) & (before_sent_ms <= DISORDER_MAX_MS)
    return _likeliest(lines, known, tail[fits], head[fits])


def _interlocked(lines: Connections, known: _Known, scope: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of counters of which ids lead to each other again and again, most often first.

    Unlike a hint, an id leads to the next one of several others: where connections wait for their
    throttles, the one received nearest to it may be another client's.
    """
    tails, heads = known.ends(1)
    links = [
        np.column_stack((tails[index >= 0], heads[index[index >= 0]]))
        for index in _around(lines, scope, tails, heads, 1, NEIGHBOURS)
    ]
    tail, head = np.concatenate(links).T
    return _likeliest(lines, known, tail, head, LINKS_MIN)


def _likeliest(
    lines: Connections, known: _Known, tail: np.ndarray, head: np.ndarray, links_min: int = 1
) -> list[tuple[int, int]]:
    """Return the pairs of counters that lines lead from one to the other of, most often first.

    Of those that do as often, the ones nearest in time come first.
    """
    pair = np.column_stack((known.counter[tail], known.counter[head]))
    if not len(pair):
        return []
    counters = int(known.counter.max()) + 1
    pair.sort(axis=1)
    pairs, which, weight = np.unique(
        pair @ np.array([counters, 1]), return_inverse=True, return_counts=True
    )
    apart_ms = np.bincount(which, np.abs(lines.received_ms[head] - lines.received_ms[tail]))
    order = np.lexsort((apart_ms / weight, -weight))
    return [divmod(code, counters) for code in pairs[order][weight[order] >= links_min].tolist()]


def _nearest(
    lines: Connections, scope: np.ndarray, start: np.ndarray, goal: np.ndarray, step: int
) -> np.ndarray:
    """Return for each of ``start`` the index in ``goal`` of the line ``step`` ids on, or -1.

    Only lines of the same scope count; of several the one received nearest in time.
    """
    nearest = np.full(len(start), -1, np.int64)
    best_ms = np.full(len(start), _FAR)
    for index in _around(lines, scope, start, goal, step, 1):
        apart_ms = np.abs(lines.received_ms[goal[index]] - lines.received_ms[start])
        nearer = (index >= 0) & (apart_ms < best_ms)
        nearest, best_ms = np.where(nearer, index, nearest), np.where(nearer, apart_ms, best_ms)
    return nearest


def _around(
    lines: Connections,
    scope: np.ndarray,
    start: np.ndarray,
    goal: np.ndarray,
    step: int,
    neighbours: int,
) -> Iterator[np.ndarray]:
    """Yield for each of ``start`` indexes in ``goal`` of lines ``step`` ids on, or -1.

    Only lines of the same scope count: so many ``neighbours`` that were received before it, and as
    many after, an array each.
    """
    first_ms, first_id = lines.received_ms.min(), lines.correlation_id.min() - max(STEPS)
    span_ms = int(lines.received_ms.max() - first_ms) + 1
    span_ids = int(lines.correlation_id.max() - first_id) + max(STEPS) + 1
    lines_of_both = np.concatenate((start, goal))
    ids = lines.correlation_id[lines_of_both] - first_id
    ids[: len(start)] += step
    _, code = np.unique(scope[lines_of_both] * span_ids + ids, return_inverse=True)
    at_ms = lines.received_ms[lines_of_both] - first_ms
    wanted, offered = np.split(code.astype(np.int64) * span_ms + at_ms, [len(start)])
    order = np.argsort(offered, kind="stable")
    sorted_offers = offered[order]
    above = np.searchsorted(sorted_offers, wanted)
    for place in range(-neighbours, neighbours):
        index = above + place
        inside = np.clip(index, 0, len(order) - 1)
        same = (index == inside) & (sorted_offers[inside] // span_ms == wanted // span_ms)
        yield np.where(same, order[inside], -1)


def _software(lines: Connections, code: np.ndarray) -> np.ndarray:
    """Return the library's code of each of those that lines are of by ``code``, 0: unknown."""
    software = np.zeros(int(code.max()) + 1, np.int64)
    known = lines.software != 0
    software[code[known]] = lines.software[known]
    return software


class _Joined:
    """Connections put together into counters, as long as no id comes twice or out of time."""

    def __init__(self, lines: Connections) -> None:
        order = np.lexsort((lines.correlation_id, lines.connection))
        starts = np.flatnonzero(np.diff(lines.connection[order], prepend=-1))
        ends = np.append(starts[1:], len(order))

        def split(column: np.ndarray) -> list[np.ndarray]:
            return [column[order[a:b]] for a, b in zip(starts, ends, strict=True)]

        self._parent = np.arange(len(starts))
        self._ids = split(lines.correlation_id)
        self._received_ms = split(lines.received_ms)
        self._sent_from_ms = split(lines.sent_from_ms)
        self._free_at_ms = split(lines.free_at_ms)
        self._software = _software(lines, lines.connection)

    def labels(self) -> np.ndarray:
        """Return the counter of every connection, named by one of its connections."""
        while (self._parent != self._parent[self._parent]).any():
            self._parent = self._parent[self._parent]
        return self._parent

    def join(self, one: int, other: int, *, is_filling: bool = False) -> bool:
        """Put two counters together unless something speaks against it; return True if it did.

        ``is_filling``: only where no id is missing then from the one with fewer lines.
        """
        large, small = self._root(one), self._root(other)
        if large == small or not self._is_one_software(large, small):
            return False
        if len(self._ids[large]) < len(self._ids[small]):
            large, small = small, large
        if not self._fits(large, small) or (is_filling and not self._fills(large, small)):
            return False
        order = np.argsort(np.concatenate((self._ids[large], self._ids[small])), kind="stable")
        for column in (self._ids, self._received_ms, self._sent_from_ms, self._free_at_ms):
            column[large] = np.concatenate((column[large], column[small]))[order]
            column[small] = column[small][:0]
        self._software[large] = max(self._software[large], self._software[small], key=abs)
        self._parent[small] = large
        return True

    def _root(self, counter: int) -> int:
        while self._parent[counter] != counter:
            counter = int(self._parent[counter])
        return counter

    def _is_one_software(self, one: int, other: int) -> bool:
        known = {int(self._software[one]), int(self._software[other])} - {0}
        return len(known) < 2

    def _fits(self, large: int, small: int) -> bool:
        ids, around = self._ids[small], self._ids[large]
        apart = max(ids[0], around[0]) - min(ids[-1], around[-1])
        if apart > 0 and not self._goes_on(large, small, apart):
            return False
        index = np.searchsorted(around, ids)
        if (around[np.minimum(index, len(around) - 1)] == ids).any():
            return False
        below, above = index > 0, index < len(around)
        sent_below_ms = self._sent_from_ms[large][index[below] - 1]
        received_above_ms = self._received_ms[large][index[above]]
        too_early = self._received_ms[small][below] < sent_below_ms - DISORDER_MAX_MS
        too_late = self._sent_from_ms[small][above] > received_above_ms + DISORDER_MAX_MS
        return not (too_early.any() or too_late.any())

    def _fills(self, large: int, small: int) -> bool:
        """Return True if each hole of the smaller one, and what is around it, is in the other."""
        ids, around = self._ids[small], self._ids[large]
        low, high = max(ids[0] - 1, around[0]), min(ids[-1] + 1, around[-1])
        there = np.searchsorted(around, high, "right") - np.searchsorted(around, low, "left")
        here = np.searchsorted(ids, high, "right") - np.searchsorted(ids, low, "left")
        return bool(there + here == high - low + 1)

    def _goes_on(self, one: int, other: int, apart: int) -> bool:
        """Return True if the later counter can go on from the earlier one.

        Only these two ids tell, so their times must fit too. Ids between them were never read where
        the client went on elsewhere while brokers still read what it had sent.
        """
        early, late = sorted((one, other), key=lambda counter: int(self._ids[counter][0]))
        goes_on_ms = self._received_ms[late][0] + NEAR_MS[0]
        if goes_on_ms < self._sent_from_ms[early][-1]:
            return False
        was_behind = bool(goes_on_ms < self._free_at_ms[early][-1])
        return apart == 1 or (was_behind and apart <= STEPS[-1])
