"""Clients that send requests to brokers, as the lines that a log would hold of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_jobs.ingest.lost_lines.gap_spans import JAVA, ClientLines

API_VERSIONS, PRODUCE = 18, 0
BEGIN_MS = 1_794_312_000_000


@dataclass
class Sent:
    """Rows of a client's requests, in any order; ``rows()`` gives all or all but the lost ones."""

    broker_id: list[int] = field(default_factory=list)
    connection: list[int] = field(default_factory=list)
    host: list[int] = field(default_factory=list)
    correlation_id: list[int] = field(default_factory=list)
    api_key: list[int] = field(default_factory=list)
    received_ms: list[int] = field(default_factory=list)
    recorded_ms: list[int] = field(default_factory=list)
    throttle_ms: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)

    def add(
        self, broker_id: int, connection: int, correlation_id: int, at_ms: int, **row: int
    ) -> None:
        """Add a request that was received and recorded ``at_ms`` after the begin."""
        self.broker_id.append(broker_id)
        self.connection.append(connection)
        self.host.append(row.get("host", 1))
        self.correlation_id.append(correlation_id)
        self.api_key.append(row.get("api_key", PRODUCE))
        self.received_ms.append(BEGIN_MS + at_ms)
        self.recorded_ms.append(BEGIN_MS + at_ms + row.get("handling_ms", 2))
        self.throttle_ms.append(row.get("throttle_ms", 0))
        self.acks.append(row.get("acks", 1))

    def lines(self, lost: set[int] | frozenset[int] = frozenset(), java: int = JAVA) -> ClientLines:
        """Return the lines in the log: all requests but those at the places ``lost``."""
        rows = np.array([i for i in range(len(self.broker_id)) if i not in lost], int)
        recorded_ms = np.array(self.recorded_ms, np.int64)[rows]
        n = len(rows)
        return ClientLines(
            broker_id=np.array(self.broker_id, np.int32)[rows],
            connection=np.array(self.connection, np.int64)[rows],
            host=np.array(self.host, np.int64)[rows],
            software=np.full(n, 7),
            java=np.full(n, java),
            correlation_id=np.array(self.correlation_id, np.int32)[rows],
            api_key=np.array(self.api_key, np.int16)[rows],
            is_answered=np.array(self.acks)[rows] != 0,
            received_ms=np.array(self.received_ms, np.int64)[rows],
            recorded_earliest_ms=recorded_ms,
            recorded_latest_ms=recorded_ms + 1,
            free_at_ms=recorded_ms + 1 + np.array(self.throttle_ms, np.int64)[rows],
            request_bytes=np.full(n, 1000.0),
            response_bytes=np.full(n, np.nan),
            handler_time_us=np.full(n, 300),
        )


def instance(
    sent: Sent,
    requests: int,
    *,
    seed: int,
    first_connection: int,
    brokers: int = 3,
    first_id: int = 0,
    begin_ms: int = 0,
    mean_ms: float = 20.0,
    per_connection: bool = False,
    hosts: tuple[int, ...] = (1,),
) -> None:
    """Add a client instance with a connection to each broker, busy in turns by chance.

    Its counter is one for all of its connections, or one for each.
    """
    chance = np.random.default_rng(seed)
    at_ms = begin_ms + np.cumsum(chance.exponential(mean_ms, requests)).astype(int)
    broker = chance.integers(0, brokers, requests)
    handling_ms = chance.integers(0, 15, requests)
    counters = [first_id] * brokers if per_connection else [first_id]
    free_at_ms = [0] * brokers
    for to, sent_ms, takes_ms in zip(
        *(a.tolist() for a in (broker, at_ms, handling_ms)), strict=True
    ):
        counter = to if per_connection else 0
        # A connection's requests wait for each other.
        received_ms = max(sent_ms, free_at_ms[to])
        sent.add(
            to + 1,
            first_connection + to,
            counters[counter],
            received_ms,
            host=hosts[to % len(hosts)],
            handling_ms=takes_ms,
        )
        counters[counter] += 1
        free_at_ms[to] = received_ms + takes_ms + 1
