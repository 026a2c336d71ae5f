"""What brokers logged of every request that a score compares with: read again, from the lines.

The tables of an audit are not asked, so that no step of it grades itself. A decision is compared
with the produce or the mutated topic of the same (broker, connection, correlation id).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from spark_jobs.ingest.lines.line_time import STAMP, LineClock
from spark_jobs.quota.codes import DEFAULT

DecisionKey = tuple[int, str, int, str | None]
"""(broker id, connection, correlation id, topic of a mutation or None)"""

MUTATED_TOPICS = {
    "CREATE_TOPICS": "topics",
    "CREATE_PARTITIONS": "results",
    "DELETE_TOPICS": "responses",
}
"""The field of the response that has a row for every topic, by request."""

TIMING_SLACK_MS = 2.5
"""How far a record time may lie outside of the logged phases: their stamps are cut to 1 ms."""

ADMITTED, REFUSED = 0, 89
"""Kafka: ``Errors.NONE``, ``Errors.THROTTLING_QUOTA_EXCEEDED``; other errors decide no quota."""

_JSON_BEGIN = re.compile(rb"Completed request: ?(?=\{)")
_OF_INTEREST = tuple(
    b'"%s"' % name.encode() for name in ("PRODUCE", "ALTER_CLIENT_QUOTAS", *MUTATED_TOPICS)
)
TEXT_MARKER = b"Completed request:RequestHeader("
_PRODUCE = re.compile(
    rb"RequestHeader\(apiKey=PRODUCE, apiVersion=\d+, clientId=(?P<client_id>.*?), "
    rb"correlationId=(?P<correlation_id>-?\d+)\) -- .*"
    rb" from connection (?P<connection>\S+?);totalTime:.*?,localTime:(?P<local>[\d.E-]+),"
    rb"remoteTime:(?P<remote>[\d.E-]+),.*?,responseQueueTime:(?P<response_queue>[\d.E-]+),"
    rb"sendTime:(?P<send>[\d.E-]+),.*?principal:\w+:(?P<user>.*?),listener:"
)
_THROTTLE = re.compile(rb"throttle_time_ms=(\d+)[,}]")


class _Header(msgspec.Struct):
    requestApiKeyName: str
    correlationId: int
    clientId: str | None = None


class _Line(msgspec.Struct):
    requestHeader: _Header
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    principal: str
    throttleTimeMs: float
    localTimeMs: float
    remoteTimeMs: float
    responseQueueTimeMs: float
    sendTimeMs: float
    isForwarded: bool = False


_decode_line = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class LoggedProduce:
    """One produce: its throttle, when it may have been recorded, and whose it was."""

    throttle_time_ms: int
    earliest_ms: float
    latest_ms: float
    completed_ms: float
    entities: frozenset[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class LoggedMutation:
    """One topic of a mutation: admitted or refused by the controller, and when that was over."""

    is_admitted: bool
    completed_ms: float


class QuotaChange(NamedTuple):
    """A quota of one type that was set or removed; ``entity`` has None for a default's name."""

    at_ms: float
    entity: frozenset[tuple[str, str | None]]
    is_set: bool


@dataclass(slots=True)
class LoggedOutcomes:
    """Everything a capture's lines say, gathered line by line."""

    produces: dict[DecisionKey, LoggedProduce] = field(default_factory=dict)
    forwarded_mutations: dict[DecisionKey, LoggedMutation] = field(default_factory=dict)
    direct_mutations: dict[DecisionKey, LoggedMutation] = field(default_factory=dict)
    quota_changes: dict[str, list[QuotaChange]] = field(default_factory=dict)
    # By broker and quota type: when the broker's own log says that it set one.
    set_by_broker_ms: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    request_quota_entities: set[tuple[str, str | None]] = field(default_factory=set)
    has_request_quota_for_all: bool = False

    def is_spared(self, produce: LoggedProduce) -> bool:
        """Return True if a request quota may have had a part in the produce's logged throttle.

        The log says only the larger of both throttles, so such a produce scores nothing.
        """
        if self.has_request_quota_for_all:
            return True
        return not self.request_quota_entities.isdisjoint(produce.entities)

    @property
    def mutations(self) -> dict[DecisionKey, LoggedMutation]:
        """Return the mutated topics where they were decided: on the controller if brokers forward.

        A broker that forwards logs a twin of the controller's line. With ZooKeeper nothing is
        forwarded, and only the controller admits or refuses.
        """
        return self.forwarded_mutations or self.direct_mutations

    def take_known_quotas(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take rows of ``quota_events``: when a broker's own log says that it had set a quota.

        Where no line set one, those of snapshots, journals and files are the quotas.
        """
        events = list(events)
        for event in events:
            if event["source"] == "server_log" and event["bound"] is not None:
                broker = event["broker_id"], event["quota_type"]
                self.set_by_broker_ms.setdefault(broker, []).append(float(event["latest_ms"]))
        if self.quota_changes:
            return
        for event in events:
            entity = {"user": event["quota_user"], "client-id": event["quota_client_id"]}
            parts = {(kind, name) for kind, name in entity.items() if name is not None}
            named = {(kind, None if name == DEFAULT else name) for kind, name in parts}
            at_ms, is_set = float(event["earliest_ms"]), event["bound"] is not None
            self.take_quota(event["quota_type"], QuotaChange(at_ms, frozenset(named), is_set))

    def take_quota(self, quota_type: str, change: QuotaChange) -> None:
        """Take into account that a quota was set or removed."""
        self.quota_changes.setdefault(quota_type, []).append(change)
        if quota_type == "request_percentage" and change.is_set:
            named = {part for part in change.entity if part[1] is not None}
            self.request_quota_entities |= named
            self.has_request_quota_for_all |= not named

    def due_decisions(self, apart_ms: float) -> Iterator[DecisionKey]:
        """Yield the keys of what ended while there was a quota of its type, for anyone.

        It ended more than ``apart_ms`` after the first was set, and before the last was removed;
        and after its broker had set one, where the broker's own log says so.
        """
        logged: tuple[tuple[str, Mapping[DecisionKey, LoggedProduce | LoggedMutation]], ...] = (
            ("producer_byte_rate", self.produces),
            ("controller_mutation_rate", self.mutations),
        )
        for quota_type, outcomes in logged:
            spans = [*self._with_quotas(quota_type)]
            due = {
                broker_id: [*self._due(spans, apart_ms, broker_id, quota_type)]
                for broker_id in {key[0] for key in outcomes}
            }
            for key, one in outcomes.items():
                if any(from_ms < one.completed_ms <= until_ms for from_ms, until_ms in due[key[0]]):
                    yield key

    def _due(
        self,
        spans: Iterable[tuple[float, float]],
        apart_ms: float,
        broker_id: int,
        quota_type: str,
    ) -> Iterator[tuple[float, float]]:
        """Yield the part (ms) of each span with a quota in which a broker's decisions are due.

        Such as (5_000, 55_000) of (0, 60_000), 5,000 ms apart from either end.
        """
        set_ms = self.set_by_broker_ms.get((broker_id, quota_type), ())
        for from_ms, until_ms in spans:
            own_ms = [at_ms for at_ms in set_ms if from_ms - apart_ms <= at_ms < until_ms]
            yield max(from_ms + apart_ms, min(own_ms, default=from_ms)), until_ms - apart_ms

    def _with_quotas(self, quota_type: str) -> Iterator[tuple[float, float]]:
        """Yield from when until when (ms) there was a quota of this type, for anyone."""
        entities: set[frozenset[tuple[str, str | None]]] = set()
        since_ms = math.inf
        for change in sorted(self.quota_changes.get(quota_type, ()), key=lambda each: each.at_ms):
            if change.is_set:
                since_ms = since_ms if entities else change.at_ms
                entities.add(change.entity)
            elif change.entity in entities:
                entities.remove(change.entity)
                if not entities:
                    yield since_ms, change.at_ms
        if entities:
            yield since_ms, math.inf


def read_outcomes(
    lines: Iterable[bytes], broker_id: int, timezone: dt.tzinfo, into: LoggedOutcomes
) -> None:
    """Add what the lines of one log file of one broker say; a line that does not read is skipped.

    Kafka: ``RequestConvertToJson.requestDescMetrics``; before 2.8 the text of ``RequestChannel``,
    of which only produces are read.
    """
    clock = LineClock(timezone)
    for text in lines:
        is_text = TEXT_MARKER in text
        begin = None if is_text else _JSON_BEGIN.search(text)
        if not is_text and (begin is None or not any(name in text for name in _OF_INTEREST)):
            continue
        stamp = STAMP.search(text)
        at_ms = clock.epoch_ms(stamp[1]) if stamp else None
        if at_ms is None:
            continue
        if begin is None:
            _take_text(text, broker_id, at_ms, into)
            continue
        try:
            line = _decode_line(text[begin.end() : text.rfind(b"}") + 1])
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        _take(line, broker_id, at_ms, into)


def _take_text(text: bytes, broker_id: int, at_ms: int, into: LoggedOutcomes) -> None:
    """Take a produce into account; nothing where the line has no throttle.

    The throttle is the response's: ``throttleTime`` at the line's end is, in these versions, how
    long the response took from being complete to being queued. A produce without acks has none.
    """
    found, throttle = _PRODUCE.search(text), _THROTTLE.search(text)
    if found is None or throttle is None:
        return
    key = (broker_id, found["connection"].decode(), int(found["correlation_id"]), None)
    into.produces[key] = _produce(
        completed_ms=at_ms - float(found["send"]) - float(found["response_queue"]),
        phases_ms=float(found["remote"]) + float(found["local"]),
        throttle_time_ms=int(throttle[1]),
        user=found["user"].decode(),
        client_id=found["client_id"].decode(),
    )


def _take(line: _Line, broker_id: int, at_ms: int, into: LoggedOutcomes) -> None:
    name = line.requestHeader.requestApiKeyName
    request = (broker_id, line.connection, line.requestHeader.correlationId)
    completed_ms = at_ms - line.sendTimeMs - line.responseQueueTimeMs
    if name == "PRODUCE":
        into.produces[*request, None] = _produce(
            completed_ms=completed_ms,
            phases_ms=line.remoteTimeMs + line.localTimeMs,
            throttle_time_ms=int(line.throttleTimeMs),
            user=line.principal.partition(":")[2],
            client_id=line.requestHeader.clientId,
        )
    elif name in MUTATED_TOPICS:
        found = into.forwarded_mutations if line.isForwarded else into.direct_mutations
        for row in _rows(line.response, MUTATED_TOPICS[name]):
            if row["errorCode"] in (ADMITTED, REFUSED):
                key = (*request, row["name"])
                found[key] = LoggedMutation(row["errorCode"] == ADMITTED, completed_ms)
    elif name == "ALTER_CLIENT_QUOTAS":
        for entry in _rows(line.request, "entries"):
            parts = {(part["entityType"], part["entityName"]) for part in entry["entity"]}
            for op in entry["ops"]:
                change = QuotaChange(completed_ms, frozenset(parts), not op["remove"])
                into.take_quota(op["key"], change)


def _produce(
    completed_ms: float, phases_ms: float, throttle_time_ms: int, user: str, client_id: str | None
) -> LoggedProduce:
    return LoggedProduce(
        throttle_time_ms=throttle_time_ms,
        earliest_ms=completed_ms - phases_ms - TIMING_SLACK_MS,
        latest_ms=completed_ms + TIMING_SLACK_MS,
        completed_ms=completed_ms,
        entities=frozenset({("user", user), ("client-id", client_id)}),
    )


def _rows(message: msgspec.Raw, field_name: str) -> list[dict[str, Any]]:
    body = msgspec.json.decode(message)
    return list(body.get(field_name) or ()) if isinstance(body, dict) else []
