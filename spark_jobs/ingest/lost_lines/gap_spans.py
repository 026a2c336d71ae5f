"""Where and when the requests of a gap in the correlation ids can have been recorded."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

OTHER_SOFTWARE, JAVA, JAVA_WITH_TELEMETRY = 0, 1, 2
"""What is known of how a client counts: Java, and whether it may push metrics (3.7 and later)."""

PRODUCE, FETCH, SHARE_FETCH, API_VERSIONS = 0, 1, 78, 18


@dataclass(frozen=True, slots=True)
class ClientLines:
    """The logged requests of one (user, client-id): arrays of one length.

    ``free_at_ms``: when the connection took its next request (answered, throttle over).
    """

    broker_id: np.ndarray
    connection: np.ndarray  # any code, another one for each connection
    host: np.ndarray  # any code of the client's address
    software: np.ndarray  # any code, 0: not known
    java: np.ndarray  # OTHER_SOFTWARE, JAVA, JAVA_WITH_TELEMETRY
    correlation_id: np.ndarray
    api_key: np.ndarray
    is_answered: np.ndarray  # bool: False of a produce with acks=0
    received_ms: np.ndarray
    recorded_earliest_ms: np.ndarray
    recorded_latest_ms: np.ndarray
    free_at_ms: np.ndarray
    request_bytes: np.ndarray  # NaN: not known
    response_bytes: np.ndarray
    handler_time_us: np.ndarray

    def take(self, rows: np.ndarray) -> ClientLines:
        """Return the lines at ``rows``."""
        return ClientLines(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


ON_THE_WAY_MAX_MS = 1_000
"""So long a request may be under way, with the difference of two brokers' clocks."""

STILL_OPEN_MS = 600_000
"""A connection silent for so long is closed (``connections.max.idle.ms``)."""

IN_FLIGHT = 5
"""So many requests are unanswered on a connection (``max.in.flight.requests.per.connection``).

Not of a producer that awaits no answers: it sends as long as buffers take what a broker leaves.
"""

BUSY_WITHIN_MS = 50
"""A request received so soon after its connection was free may have waited for that."""

_NEVER_MS = 1 << 60


@dataclass(frozen=True, slots=True)
class Span:
    """Where and when the requests of a gap would have been recorded, if on this broker."""

    broker_id: int
    after_ms: int
    before_ms: int

    def meets(self, other: Span) -> bool:
        """Return True if it may be of the same broker and moment as ``other``."""
        return (
            self.broker_id == other.broker_id
            and self.after_ms <= other.before_ms + ON_THE_WAY_MAX_MS
            and other.after_ms <= self.before_ms + ON_THE_WAY_MAX_MS
        )


class GapSpans:
    """The connections of one counter, and which of them can have carried missing requests.

    A connection's requests are handled one after the other, so a missing one was recorded between
    its neighbours on the connection. It was also sent after the id before it and before the id
    after it, on whichever connections those were.
    """

    def __init__(self, lines: ClientLines, ids: np.ndarray, connection: np.ndarray) -> None:
        """Take the lines of a counter in the order of their ``ids``."""
        self._lines, self._ids = lines, ids
        order = np.argsort(connection, kind="stable")
        starts = np.flatnonzero(np.diff(connection[order], prepend=-1))
        self._rows = np.split(order, starts[1:])
        self._first = np.array([rows[0] for rows in self._rows])
        self._last = np.array([rows[-1] for rows in self._rows])
        bulky = np.isin(lines.api_key, (PRODUCE, FETCH, SHARE_FETCH))
        handling_ms = np.where(bulky, lines.recorded_latest_ms - lines.received_ms, 0).max()
        self._slack_ms = ON_THE_WAY_MAX_MS + int(max(handling_ms, 0))
        self._sent_until_ms = np.minimum.accumulate(lines.received_ms[::-1])[::-1]
        sent_from_ms = _came_alone_ms(lines, ids, connection, order)
        # A wait that the log does not tell of shows where a later request was there long before.
        sent_from_ms[sent_from_ms > self._sent_until_ms + ON_THE_WAY_MAX_MS] = -_NEVER_MS
        self._sent_from_ms = np.maximum.accumulate(sent_from_ms) - ON_THE_WAY_MAX_MS
        answered_ms = _answered_ms(lines, connection, order)
        self._likely_from_ms = np.maximum(self._sent_from_ms, answered_ms - ON_THE_WAY_MAX_MS)
        self._muted_for_ms = np.empty_like(lines.received_ms)
        self._muted_for_ms[order] = muted_for_ms(lines.take(order), connection[order])

    def of(self, before: np.ndarray) -> list[tuple[tuple[Span, ...], int | None]]:
        """Return each gap's brokers, and its connection's code where it can only be one.

        ``before``: the rows that the gaps follow.
        """
        near = self._near(before)
        between = [self._spans(self._rows[c], before) for c in near]
        after_ms = np.column_stack([after for after, _ in between])
        before_ms = np.column_stack([until for _, until in between])
        can_be = after_ms <= before_ms
        after_ms[~can_be], before_ms[~can_be] = _NEVER_MS, -_NEVER_MS
        broker_id = self._lines.broker_id[self._first[near]]
        spans: list[list[Span]] = [[] for _ in before]
        for broker in np.unique(broker_id).tolist():
            own = broker_id == broker
            begin, end = after_ms[:, own].min(axis=1), before_ms[:, own].max(axis=1)
            for gap in np.flatnonzero(begin <= end).tolist():
                spans[gap].append(Span(broker, int(begin[gap]), int(end[gap])))
        code = self._lines.connection[self._first[near[can_be.argmax(axis=1)]]].tolist()
        only = can_be.sum(axis=1) == 1
        return [
            (tuple(found) or self._beside(row), code[gap] if only[gap] else None)
            for gap, (row, found) in enumerate(zip(before.tolist(), spans, strict=True))
        ]

    def were_never_read(self, before: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return True for each gap that can be of requests that no broker read.

        A throttled connection is muted. What a client has sent on it by then is lost, and was
        never recorded, where the client goes away before the broker reads on. The broker may still
        read what its own buffer holds. A client that has connected anew sends no more on the
        connection before. A broker itself closes a connection whose produce with acks=0 failed,
        for it has no other way to say so (``KafkaApis``): the client then connects anew.
        """
        never = np.zeros(len(before), bool)
        unmuted_ms = self._lines.received_ms - self._muted_for_ms - ON_THE_WAY_MAX_MS
        from_ms = np.maximum(self._sent_from_ms, np.maximum.accumulate(unmuted_ms))[before]
        is_unbounded = ~self._lines.is_answered[self._last]
        begin = np.searchsorted(before, self._last)
        end = np.searchsorted(from_ms, self._lines.free_at_ms[self._last], side="right")
        followed_by = self._followed_by()
        end = np.minimum(end, np.searchsorted(before, followed_by))
        are_left = self._are_behind() | (is_unbounded & (followed_by < len(self._ids)))
        for connection in np.flatnonzero(are_left & (begin < end)):
            gaps = slice(begin[connection], end[connection])
            unclaimed = np.where(never[gaps], 0, missing[gaps])
            never[gaps] |= is_unbounded[connection] | (np.cumsum(unclaimed) <= IN_FLIGHT)
        return never

    def _are_behind(self) -> np.ndarray:
        """Return True for each connection that was left muted, or read late to its end."""
        lines, last = self._lines, self._last
        one_before = np.array([rows[max(len(rows) - 2, 0)] for rows in self._rows])
        was_queued = lines.received_ms[last] <= lines.free_at_ms[one_before] + BUSY_WITHIN_MS
        is_muted = muted_ms(lines)[last] > 0
        return np.asarray(is_muted | (was_queued & (self._muted_for_ms[last] > 0)))

    def _followed_by(self) -> np.ndarray:
        """Return, by connection, the first row of the next one to its broker, or their number."""
        broker_id = self._lines.broker_id[self._first]
        following = np.full(len(self._first), len(self._ids))
        for broker in np.unique(broker_id):
            own = np.flatnonzero(broker_id == broker)
            first = np.sort(self._first[own])
            next_one = np.searchsorted(first, self._last[own], side="right")
            following[own] = np.append(first, len(self._ids))[next_one]
        return following

    def _near(self, before: np.ndarray) -> np.ndarray:
        """Return the connections that may be open at one of the gaps; never none."""
        opened_ms = self._lines.received_ms[self._first] - STILL_OPEN_MS
        closed_ms = self._lines.free_at_ms[self._last] + STILL_OPEN_MS
        until_ms, from_ms = self._sent_until_ms[before[-1] + 1], self._sent_from_ms[before[0]]
        is_near = (opened_ms <= until_ms) & (closed_ms >= from_ms)
        return np.flatnonzero(is_near) if is_near.any() else np.arange(len(is_near))

    def _spans(self, rows: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the two moments between which a connection can have recorded each gap's requests.

        After > before where it cannot have.
        """
        lines = self._lines
        from_ms, until_ms = self._sent_from_ms[before], self._sent_until_ms[before + 1]
        following = np.searchsorted(rows, before, side="right")
        last, first = rows[np.maximum(following - 1, 0)], rows[np.minimum(following, len(rows) - 1)]
        has_last, has_first = following > 0, following < len(rows)
        free_ms = np.where(has_last, lines.free_at_ms[last], -_NEVER_MS)
        # A request that would have been the connection's last is not looked for far and wide.
        sent_ms = np.where(has_first, from_ms, self._likely_from_ms[before])
        sent_ms = np.maximum(sent_ms, lines.received_ms[0] - ON_THE_WAY_MAX_MS)
        after_ms = np.where(has_last, lines.recorded_earliest_ms[last], -_NEVER_MS)
        before_ms = np.where(has_first, lines.recorded_latest_ms[first], _NEVER_MS)
        after_ms = np.maximum(after_ms, sent_ms)
        before_ms = np.minimum(before_ms, np.maximum(until_ms, free_ms) + self._slack_ms)
        opened = ~has_last & (lines.api_key[rows[0]] == API_VERSIONS)
        closed = ~has_first & (from_ms > lines.free_at_ms[rows[-1]] + STILL_OPEN_MS)
        not_yet = ~has_last & (until_ms < lines.received_ms[rows[0]] - STILL_OPEN_MS)
        return after_ms, np.where(opened | closed | not_yet, -2 * _NEVER_MS, before_ms)

    def _beside(self, row: int) -> tuple[Span, ...]:
        """Return the brokers of the lines beside a gap that no connection can have carried.

        Its own connection has no line, or times are not as they should be.
        """
        lines, both = self._lines, slice(row, row + 2)
        after_ms = int(lines.recorded_earliest_ms[both].min()) - ON_THE_WAY_MAX_MS
        before_ms = int(lines.recorded_latest_ms[both].max()) + self._slack_ms
        return tuple(
            Span(b, after_ms, before_ms) for b in sorted(set(lines.broker_id[both].tolist()))
        )


def muted_ms(lines: ClientLines) -> np.ndarray:
    """Return for how long (ms) each line's connection was muted after it."""
    free_after_ms = lines.free_at_ms - lines.recorded_latest_ms
    return np.where(free_after_ms > BUSY_WITHIN_MS, free_after_ms, 0)


def muted_for_ms(lines: ClientLines, connection: np.ndarray) -> np.ndarray:
    """Return for how long (ms) each line's connection was muted before it, all in all.

    The lines are by connection and id. So long a request may have waited to be read.
    """
    before_ms = np.concatenate(([0], np.cumsum(muted_ms(lines))[:-1]))
    first = np.searchsorted(connection, connection)
    return np.asarray(before_ms - before_ms[first])


def _came_alone_ms(
    lines: ClientLines, ids: np.ndarray, connection: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Return the time (ms) each request was received if it had not waited, else -_NEVER_MS.

    It was received long after its connection was free, provided that no request is missing before
    it, or it opened its connection. ``order``: the rows by connection and id.
    """
    unseen = np.concatenate(([0], np.cumsum(np.diff(ids) - 1)))
    last, row = order[:-1], order[1:]
    follows = (connection[row] == connection[last]) & (unseen[row] == unseen[last])
    was_free = lines.received_ms[row] > lines.free_at_ms[last] + BUSY_WITHIN_MS
    came_alone = lines.api_key == API_VERSIONS
    came_alone[row] |= follows & was_free
    return np.where(came_alone, lines.received_ms, -_NEVER_MS)


def _answered_ms(lines: ClientLines, connection: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return a moment that each request was sent after if its client keeps IN_FLIGHT unanswered."""
    answered_ms = np.full(len(order), -_NEVER_MS)
    early, row = order[:-IN_FLIGHT], order[IN_FLIGHT:]
    same = connection[early] == connection[row]
    same &= lines.is_answered[row]
    answered_ms[row[same]] = lines.recorded_earliest_ms[early[same]]
    return np.maximum.accumulate(answered_ms)
