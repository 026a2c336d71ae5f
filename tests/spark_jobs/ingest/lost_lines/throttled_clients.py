"""Clients whose connections brokers mute for throttles, as the lines that a whole log holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from spark_jobs.ingest.lost_lines.gap_spans import IN_FLIGHT
from tests.spark_jobs.ingest.lost_lines.sent_requests import API_VERSIONS, PRODUCE, Sent

METADATA, INIT_PRODUCER_ID = 3, 22
END_MS = 1 << 40
UNREAD_MAX = 40
"""So many requests fit into the buffers between a client that awaits no answer and its broker."""


@dataclass(frozen=True, slots=True)
class Client:
    """A Java producer: one counter for its connections, one of them to each broker."""

    acks: int
    brokers: int
    is_idempotent: bool
    begin_ms: int
    lasts_ms: int
    mean_ms: float  # between two requests
    throttle_ms: tuple[int, ...]  # of a produce, by broker, at the longest
    reconnects_at_ms: int | None  # closes all connections then, muted or not, and goes on
    first_connection: int
    seed: int


@dataclass(frozen=True, slots=True)
class Unread:
    """What a log cannot tell."""

    ids: set[int]  # that no broker read
    looks_alike: list[range]  # ids that may have been left on a connection, as these were


def send(sent: Sent, client: Client) -> Unread:
    """Add what brokers read of ``client`` to ``sent``; return what they did not read."""
    return _Sending(sent, client).run()


class _Sending:
    def __init__(self, sent: Sent, client: Client) -> None:
        self._sent, self._client = sent, client
        self._chance = np.random.default_rng(client.seed)
        self._next_id = 0
        self._connections: dict[int, _Connection] = {}
        self._opened = 0
        self._closed: list[_Connection] = []
        self._unread = Unread(set(), [])
        self._left_at: dict[int, int] = {}

    def run(self) -> Unread:
        client = self._client
        now_ms, end_ms = float(client.begin_ms), client.begin_ms + client.lasts_ms
        closes_ms = client.reconnects_at_ms
        bootstrap = self._open(0)
        kinds = [API_VERSIONS, METADATA, *([INIT_PRODUCER_ID] if client.is_idempotent else [])]
        for api_key in kinds:
            self._put(bootstrap, api_key, now_ms)
            now_ms += 3
        while now_ms < end_ms:
            if closes_ms is not None and now_ms >= client.begin_ms + closes_ms:
                self._close(now_ms)
                closes_ms = None
            self._send_one(now_ms)
            now_ms += self._chance.exponential(client.mean_ms)
        self._close(now_ms)
        bootstrap.read_until(now_ms)
        for connection in self._closed:
            connection.read_until(END_MS)
        for broker in list(self._left_at):
            self._end_of_left(broker)
        return self._unread

    def _send_one(self, now_ms: float) -> None:
        client = self._client
        broker = int(self._chance.integers(0, client.brokers))
        if broker not in self._connections:
            self._end_of_left(broker)
            self._connections[broker] = self._open(broker)
            self._put(self._connections[broker], API_VERSIONS, now_ms)
        connection = self._connections[broker]
        connection.read_until(now_ms)
        room = UNREAD_MAX if client.acks == 0 else IN_FLIGHT
        # With an answer comes its throttle, which clients keep (KIP-219).
        if len(connection.unread) < room and (client.acks == 0 or connection.free_ms <= now_ms):
            self._put(connection, PRODUCE, now_ms)

    def _end_of_left(self, broker: int) -> None:
        if broker in self._left_at:
            self._unread.looks_alike.append(range(self._left_at.pop(broker), self._next_id))

    def _open(self, broker: int) -> _Connection:
        self._opened += 1
        number = self._client.first_connection + self._opened
        return _Connection(self._sent, self._client, self._chance, broker, number)

    def _put(self, connection: _Connection, api_key: int, now_ms: float) -> None:
        connection.unread.append((self._next_id, api_key, int(now_ms)))
        self._next_id += 1

    def _close(self, now_ms: float) -> None:
        for connection in self._connections.values():
            connection.read_until(now_ms)
            if connection.unread or connection.was_muted:
                self._left_at.setdefault(connection.broker, connection.last_id)
            # The broker's own buffer is read on; the client's is lost.
            held = int(self._chance.integers(0, len(connection.unread) + 1))
            while len(connection.unread) > held:
                self._unread.ids.add(connection.unread.pop()[0])
        self._closed += self._connections.values()
        self._connections.clear()


class _Connection:
    def __init__(
        self, sent: Sent, client: Client, chance: np.random.Generator, broker: int, number: int
    ) -> None:
        self._sent, self._client, self._chance = sent, client, chance
        self.broker, self._number = broker, number
        self.unread: deque[tuple[int, int, int]] = deque()
        self.free_ms, self.last_id, self.was_muted = 0, 0, False

    def read_until(self, now_ms: float) -> None:
        """Let the broker read what it can until then, one request after the other."""
        while self.unread:
            number, api_key, sent_ms = self.unread[0]
            received_ms = max(sent_ms, self.free_ms)
            if received_ms > now_ms:
                return
            self.unread.popleft()
            handling_ms, throttle_ms = int(self._chance.integers(0, 8)), 0
            if api_key == PRODUCE and self._chance.random() < 0.7:
                longest_ms = self._client.throttle_ms[self.broker]
                throttle_ms = int(self._chance.integers(0, longest_ms + 1))
            self._sent.add(
                self.broker + 1,
                self._number,
                number,
                received_ms,
                api_key=api_key,
                handling_ms=handling_ms,
                throttle_ms=throttle_ms,
                acks=self._client.acks if api_key == PRODUCE else -1,
            )
            self.last_id, self.was_muted = number, throttle_ms > 0
            self.free_ms = received_ms + handling_ms + 1 + throttle_ms
