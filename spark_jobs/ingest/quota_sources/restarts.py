"""When brokers started, and so forgot every sensor and level: as logged, or as inferred.

Without a server log a restart shows in the request log. No connection outlives it, there is a
silence before the first new one, and new connections are numbered from 0 again (the last number of
a connection's name: ``SocketServer``, ``Processor.nextConnectionIndex``, which else only grows).

A log that begins with its broker shows that as well: all connections are in it from their first
request, and each network thread's are numbered from 0. The threads get connections in turn
(``Acceptor.run``).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from spark_jobs.ingest.lost_lines.gap_spans import Span

SERVER_LOG, INFERRED = "server_log", "inferred"

SILENCE_MIN_MS = 1_000
"""No broker is down and up again in less."""
INDEX_BEFORE_MIN = 2
"""Names of brokers before 4.0 do not tell the network thread: until one of a listener's threads
got so far, index 0 may be another thread's first."""
RESTART_MAX_MS = 600_000
"""Brokers are up again in less, but for a recovery of all their logs."""
NEW_CONNECTIONS_MS = 60_000
"""Connections that begin within this time of a silence's end are looked at."""

_CONNECTION = re.compile(r"(.*?:\d+)-.*:\d+(?:-(\d+))?-(\d+)")


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """A row of ``tables.BROKER_STARTS``: nothing that a broker kept before ``started_ms`` is left.

    The broker served no request between then and the time before which its prior epoch ended.
    """

    broker_id: int
    started_ms: int
    source: str
    source_file: str | None
    source_line: int | None
    evidence: str

    def row(self) -> dict[str, Any]:
        """Return the start as a row of ``tables.BROKER_STARTS``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ConnectionSpan:
    """A connection's name, and when its requests in the log were recorded and answered.

    ``is_opened`` says that its first one in the log was the first that it ever had.
    """

    broker_id: int
    connection: str
    first_ms: int  # when its first request was recorded at the earliest
    last_ms: int
    is_opened: bool


def inferred_starts(spans: Iterable[ConnectionSpan]) -> list[BrokerStart]:
    """Return the starts that the connections of brokers show, in the order of broker and time."""
    by_broker = sorted(spans, key=lambda s: (s.broker_id, s.first_ms, s.connection))
    return [
        start
        for _, of_broker in groupby(by_broker, key=lambda s: s.broker_id)
        for start in _of_broker(list(of_broker))
    ]


def _of_broker(spans: Sequence[ConnectionSpan]) -> Iterator[BrokerStart]:
    highest: dict[tuple[str, str], int] = {}
    life_begins_at = 0
    answered_ms = spans[0].last_ms
    starts = []
    for i, span in enumerate(spans):
        if span.first_ms - answered_ms >= SILENCE_MIN_MS:
            first = _numbered_anew(spans, i, highest)
            if first is not None:
                ended = {"silent_from_ms": answered_ms, "connections_ended": i - life_begins_at}
                starts.append(_start(span, first, ended))
                highest, life_begins_at = {}, i
        answered_ms = max(answered_ms, span.last_ms)
        thread, index = _numbered(span)
        highest[thread] = max(index, highest.get(thread, 0))
    first_life = [s for s in spans if not starts or s.first_ms < starts[0].started_ms]
    if _begins_in_the_log(first_life):
        yield _start(spans[0], spans[0], {"is_first_of_log": True})
    yield from starts


def _begins_in_the_log(life: Sequence[ConnectionSpan]) -> bool:
    """Return True if all connections of a life are in the log, as far as their numbers tell.

    One listener must show that each of its threads has had its turn in the log, and none may show
    that a thread had one before.
    """
    numbers: defaultdict[str, defaultdict[str, Counter[int]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for span in life:
        (listener, thread), index = _numbered(span)
        numbers[listener][thread][index] += 1
    had_turns = [_had_their_turns(threads) for threads in numbers.values()]
    return all(s.is_opened for s in life) and None not in had_turns and True in had_turns


def _had_their_turns(threads: Mapping[str, Counter[int]]) -> bool | None:
    """Return True if each thread of a listener has its first connection in the log.

    ``threads`` counts numbers of connections, by thread where names tell it. False: there were too
    few connections to say; None: a thread had one before.
    """
    if any(min(numbers) > 0 for numbers in threads.values()):
        return None
    if "" not in threads:
        # Once a thread has a second one, all others have had a first one.
        return any(max(numbers) > 0 for numbers in threads.values())
    numbers = threads[""]
    # As many are numbered 0 as 1 where all threads began in the log; all had one once 2 is reached.
    if numbers[0] < max(numbers.values()):
        return None
    return max(numbers) >= INDEX_BEFORE_MIN


def _numbered_anew(
    spans: Sequence[ConnectionSpan], i: int, highest: dict[tuple[str, str], int]
) -> ConnectionSpan | None:
    """Return the first connection from ``i`` on that a thread numbers 0 again, else None."""
    until_ms = spans[i].first_ms + NEW_CONNECTIONS_MS
    for span in spans[i:]:
        if span.first_ms > until_ms:
            return None
        thread, index = _numbered(span)
        before = highest.get(thread, -1)
        if index == 0 and before >= (0 if thread[1] else INDEX_BEFORE_MIN):
            return span
    return None


def _start(first: ConnectionSpan, numbered: ConnectionSpan, why: Mapping[str, Any]) -> BrokerStart:
    evidence = json.dumps({**why, "numbered_anew": numbered.connection})
    return BrokerStart(first.broker_id, first.first_ms, INFERRED, None, None, evidence)


def _numbered(span: ConnectionSpan) -> tuple[tuple[str, str], int]:
    """Return a connection's (listener, network thread where its name tells), and its index."""
    found = _CONNECTION.fullmatch(span.connection)
    if found is None:
        return ("", ""), 1  # the name of no Kafka connection: proves nothing
    return (found[1], found[2] or ""), int(found[3])


def known_starts(
    logged: Iterable[BrokerStart], inferred: Iterable[BrokerStart]
) -> list[BrokerStart]:
    """Return the starts that were logged, and those inferred of brokers without any logged."""
    listed = list(logged)
    with_log = {start.broker_id for start in listed}
    kept = listed + [start for start in inferred if start.broker_id not in with_log]
    return sorted(kept, key=lambda s: (s.broker_id, s.started_ms, s.source_file or ""))


def restarts_ms(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[int]]:
    """Return each broker's starts, given rows of ``tables.BROKER_STARTS``, in order of time."""
    by_broker: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        by_broker[row["broker_id"]].append(row["started_ms"])
    return {broker_id: sorted(each) for broker_id, each in by_broker.items()}


def restart_spans(inferred: Iterable[BrokerStart]) -> list[Span]:
    """Return when brokers were down, from their last answer to the first request to them again.

    Such as broker 1 from 16:00:02.150 to 16:00:09.480. A silence of more than RESTART_MAX_MS may be
    a log file that is not there.
    """
    spans = []
    for start in inferred:
        silent_from_ms = json.loads(start.evidence).get("silent_from_ms", start.started_ms)
        if 0 < start.started_ms - silent_from_ms <= RESTART_MAX_MS:
            spans.append(Span(start.broker_id, silent_from_ms, start.started_ms))
    return spans
