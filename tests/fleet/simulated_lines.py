"""The request log of a simulated broker: rows of ``FleetSimulator.java`` as Kafka's lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from spark_jobs.quota.apis import API_KEYS
from tests.builders.log_lines import log_line
from tests.fleet.simulated_plan import EVERYBODY, NOBODY, QuotaChange

_STRICT_VERSIONS = {"create": 7, "delete": 6, "extend": 3}
_PERMISSIVE_VERSIONS = {"create": 5, "delete": 4, "extend": 2}
_API_NAMES = {
    "produce": "PRODUCE", "fetch": "FETCH", "create": "CREATE_TOPICS",
    "delete": "DELETE_TOPICS", "extend": "CREATE_PARTITIONS",
}  # fmt: skip
_REFUSED = 89
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_TOPIC_ID = "QK1xqZ2WQHqBY8yk0mJ8Zg"
_SENTENCE = "The throttling quota has been exceeded."


class Stamps(NamedTuple):
    """The moments of a request, in nanoseconds (Kafka: ``RequestChannel.Request``)."""

    start: int
    dequeued: int
    local_complete: int
    response_complete: int
    response_dequeued: int
    sent: int


class Row(NamedTuple):
    """One request that the simulator printed; ``described`` depends on its kind."""

    broker_id: int
    kind: str
    connection: str
    correlation_id: int
    stamps: Stamps
    stamped_ns: int
    throttle_ms: int
    response_throttle_ms: int
    recorded_ms: int
    described: tuple[str, ...]


class ClientName(NamedTuple):
    """Whose a connection is."""

    user: str
    client_id: str


def read_row(line: str) -> Row:
    """Return what a line of the simulator says."""
    words = line.split("\t")
    numbers = [int(word) for word in words[3:14]]
    return Row(
        broker_id=int(words[0]),
        kind=words[1],
        connection=words[2],
        correlation_id=numbers[0],
        stamps=Stamps(*numbers[1:7]),
        stamped_ns=numbers[7],
        throttle_ms=numbers[8],
        response_throttle_ms=numbers[9],
        recorded_ms=numbers[10],
        described=tuple(words[14:]),
    )


def request_line(row: Row, client: ClientName, base_ms: int, *, is_forwarded: bool) -> bytes:
    """Return the line of a request, with its end; ``is_forwarded`` that of a KRaft controller."""
    version, request, response = _MESSAGES[row.kind](row)
    body = {
        "isForwarded": is_forwarded,
        "requestHeader": _header(
            _API_NAMES[row.kind], version, row.correlation_id, client.client_id
        ),
        "request": request,
        "response": response,
        "connection": row.connection,
        **_times(row.stamps, row.throttle_ms),
        **_session(client.user, is_forwarded=is_forwarded),
    }
    return log_line(body, stamp(base_ms, row.stamped_ns)) + b"\n"


def alteration_line(
    change: QuotaChange,
    number: int,
    admin: str,
    base_ms: int,
    connection: str,
    *,
    is_forwarded: bool,
) -> tuple[int, bytes]:
    """Return when an ALTER_CLIENT_QUOTAS was logged (ns) and its line."""
    complete_ns = change.answered_us * 1000
    stamps = Stamps(
        start=complete_ns - 9_000_000,
        dequeued=complete_ns - 8_900_000,
        local_complete=complete_ns - 8_400_000,
        response_complete=complete_ns,
        response_dequeued=complete_ns + 40_000,
        sent=complete_ns + 150_000,
    )
    stamped_ns = complete_ns + 230_000
    body = {
        "isForwarded": is_forwarded,
        "requestHeader": _header("ALTER_CLIENT_QUOTAS", 1, number, admin),
        "request": {"entries": [{"entity": _entity(change), "ops": [_operation(change)]}],
                    "validateOnly": False},
        "response": {"throttleTimeMs": 0, "entries": [
            {"errorCode": 0, "errorMessage": None, "entity": _entity(change)}]},
        "connection": connection,
        **_times(stamps, 0),
        **_session("ANONYMOUS", is_forwarded=is_forwarded),
    }  # fmt: skip
    return stamped_ns, log_line(body, stamp(base_ms, stamped_ns)) + b"\n"


def stamp(base_ms: int, at_ns: int) -> str:
    """Return the time of a line, cut to a millisecond, in UTC.

    >>> stamp(1_795_168_800_000, 1_999_999)
    '2026-11-20 10:00:00,001'
    """
    seconds, ms = divmod(base_ms + at_ns // 1_000_000, 1000)
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S},{ms:03d}"


def _header(api_name: str, version: int, correlation_id: int, client_id: str) -> dict[str, Any]:
    return {
        "requestApiKey": API_KEYS[api_name], "requestApiVersion": version,
        "correlationId": correlation_id, "clientId": client_id, "requestApiKeyName": api_name,
    }  # fmt: skip


def _times(stamps: Stamps, throttle_ms: int) -> dict[str, Any]:
    """Return the phases as ``RequestChannel.Request.updateRequestMetrics`` cuts them."""
    return {
        "totalTimeMs": _ms(stamps.sent - stamps.start),
        "requestQueueTimeMs": _ms(stamps.dequeued - stamps.start),
        "localTimeMs": _ms(stamps.local_complete - stamps.dequeued),
        "remoteTimeMs": _ms(stamps.response_complete - stamps.local_complete),
        "throttleTimeMs": throttle_ms,
        "responseQueueTimeMs": _ms(stamps.response_dequeued - stamps.response_complete),
        "sendTimeMs": _ms(stamps.sent - stamps.response_dequeued),
    }


def _ms(ns: int) -> float:
    return max(ns, 0) // 1000 / 1000


def _session(user: str, *, is_forwarded: bool) -> dict[str, Any]:
    software = ("unknown", "unknown") if is_forwarded else ("apache-kafka-java", "4.1.0")
    return {
        "securityProtocol": "PLAINTEXT",
        "principal": f"User:{user}",
        "listener": "CONTROLLER" if is_forwarded else "PLAINTEXT",
        "clientInformation": dict(zip(("softwareName", "softwareVersion"), software, strict=True)),
    }


def _entity(change: QuotaChange) -> list[dict[str, Any]]:
    parts = (("user", change.entity.user), ("client-id", change.entity.client_id))
    return [
        {"entityType": kind, "entityName": None if part == EVERYBODY else part[1:]}
        for kind, part in parts
        if part != NOBODY
    ]


def _operation(change: QuotaChange) -> dict[str, Any]:
    removed = change.bound is None
    return {
        "key": change.quota_type,
        "value": 0.0 if removed else change.bound,
        "remove": removed,
    }


Messages = tuple[int, Any, Any]


def _produce(row: Row) -> Messages:
    acks, topic, index, size, *_ = row.described
    request = {
        "transactionalId": None, "acks": int(acks), "timeoutMs": 30000,
        "topicData": [{"name": topic, "partitionData": [
            {"index": int(index), "recordsSizeInBytes": int(size)}]}],
    }  # fmt: skip
    if acks == "0":
        return 9, request, ""
    part = {
        "index": int(index), "errorCode": 0, "baseOffset": row.correlation_id,
        "logAppendTimeMs": -1, "logStartOffset": 0, "recordErrors": [], "errorMessage": None,
    }  # fmt: skip
    return 9, request, {
        "responses": [{"name": topic, "partitionResponses": [part]}],
        "throttleTimeMs": row.response_throttle_ms,
    }  # fmt: skip


def _fetch(row: Row) -> Messages:
    topic, position, size, _, end, max_bytes = row.described
    part = {
        "partition": 0, "currentLeaderEpoch": -1, "fetchOffset": int(position),
        "lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": int(max_bytes),
    }  # fmt: skip
    request = {
        "replicaId": -1, "maxWaitMs": 500, "minBytes": 1, "maxBytes": 52428800,
        "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": [part]}], "forgottenTopicsData": [],
        "rackId": "",
    }  # fmt: skip
    answered = {
        "partitionIndex": 0, "errorCode": 0, "highWatermark": int(end),
        "lastStableOffset": int(end), "logStartOffset": 0, "abortedTransactions": None,
        "preferredReadReplica": -1, "recordsSizeInBytes": int(size),
    }  # fmt: skip
    responses = [] if row.response_throttle_ms else [{"topic": topic, "partitions": [answered]}]
    return 12, request, {
        "throttleTimeMs": row.response_throttle_ms, "errorCode": 0, "sessionId": 0,
        "responses": responses,
    }  # fmt: skip


def _topics(row: Row) -> Iterator[tuple[str, int, int]]:
    for told in row.described[1].split(";"):
        name, partitions, error = told.split(",")
        yield name, int(partitions), int(error)


def _version(row: Row) -> int:
    is_strict = row.described[0] == "strict"
    return (_STRICT_VERSIONS if is_strict else _PERMISSIVE_VERSIONS)[row.kind]


def _error(error: int) -> dict[str, Any]:
    return {"errorCode": error, "errorMessage": _SENTENCE if error == _REFUSED else None}


def _create(row: Row) -> Messages:
    version = _version(row)
    asked, answered = [], []
    for name, partitions, error in _topics(row):
        asked.append({"name": name, "numPartitions": partitions, "replicationFactor": 1,
                      "assignments": [], "configs": []})  # fmt: skip
        known = {"topicId": _NO_TOPIC_ID if error else _TOPIC_ID} if version >= 7 else {}
        answered.append({
            "name": name, **known, **_error(error), "numPartitions": -1 if error else partitions,
            "replicationFactor": -1 if error else 1, "configs": [],
        })  # fmt: skip
    request = {"topics": asked, "timeoutMs": 30000, "validateOnly": False}
    return version, request, {"throttleTimeMs": row.response_throttle_ms, "topics": answered}


def _delete(row: Row) -> Messages:
    version = _version(row)
    topics = list(_topics(row))
    request: dict[str, Any] = {"topicNames": [name for name, _, _ in topics]}
    answered: list[dict[str, Any]] = [
        {"name": name, "errorCode": error} for name, _, error in topics
    ]
    if version >= 6:
        request = {"topics": [{"name": name, "topicId": _NO_TOPIC_ID} for name, _, _ in topics]}
        answered = [
            {"name": name, "topicId": _NO_TOPIC_ID if error else _TOPIC_ID, **_error(error)}
            for name, _, error in topics
        ]
    return version, request | {"timeoutMs": 30000}, {
        "throttleTimeMs": row.response_throttle_ms, "responses": answered,
    }  # fmt: skip


def _extend(row: Row) -> Messages:
    topics = list(_topics(row))
    request = {
        "topics": [{"name": name, "count": to, "assignments": None} for name, to, _ in topics],
        "timeoutMs": 30000, "validateOnly": False,
    }  # fmt: skip
    results = [{"name": name, **_error(error)} for name, _, error in topics]
    return _version(row), request, {
        "throttleTimeMs": row.response_throttle_ms, "results": results,
    }  # fmt: skip


_MESSAGES: Mapping[str, Callable[[Row], Messages]] = {
    "produce": _produce, "fetch": _fetch, "create": _create, "delete": _delete, "extend": _extend,
}  # fmt: skip
