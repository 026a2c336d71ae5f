"""What a request and its response say that quotas need, per kind of request.

Kafka: the message definitions of ``clients/src/main/resources/common/message``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from spark_jobs.ingest.lines.request_line import NO_RESPONSE, Int32, RequestLine
from spark_jobs.ingest.messages.message_definition import API_NAMES, message_struct
from spark_jobs.ingest.messages.wire_size import RESPONSE_HEADER_BYTES, body_sizer, header_size
from spark_jobs.quota.codes import DEFAULT, QUOTA_TYPES

USER, CLIENT_ID = "user", "client-id"
NO_REPLICA = -1
SHARE_FETCH = 78


class ApiFields(NamedTuple):
    """The columns of ``tables.REQUESTS`` that come out of the messages; None: not in them."""

    throttle_time_ms: int | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    acks: int | None = None
    is_replica: bool = False
    fetch_max_bytes: int | None = None
    error_codes: list[int] | None = None
    topics: list[dict[str, Any]] | None = None
    mutations: list[dict[str, Any]] | None = None
    validate_only: bool | None = None
    quota_alterations: list[dict[str, Any]] | None = None


class _ThrottleOnly(msgspec.Struct, gc=False):
    throttleTimeMs: Int32 | None = None


_decode_throttle = msgspec.json.Decoder(_ThrottleOnly).decode


def api_fields(line: RequestLine) -> ApiFields:
    """Return the fields of a line's messages; raises msgspec.DecodeError if one does not read.

    The throttle is the larger of the response's and the line's own: a response can leave out what a
    broker threw (up to 3.9 ``InitProducerIdRequest.getErrorResponse``), and a line what a
    controller's quota asked for.
    """
    fields = _fields_as_answered(line)
    if fields.throttle_time_ms is None:
        return fields
    own_ms = int(line.throttleTimeMs)
    return fields._replace(throttle_time_ms=max(fields.throttle_time_ms, own_ms))


def _fields_as_answered(line: RequestLine) -> ApiFields:
    key = line.requestHeader.requestApiKey
    answered = bytes(line.response) not in NO_RESPONSE if len(line.response) < 5 else True
    read = _READERS.get(key)
    if read is None:
        throttle = _decode_throttle(line.response).throttleTimeMs if answered else None
        return ApiFields(throttle_time_ms=throttle)
    request = _decoder(f"{API_NAMES[key]}Request")(line.request)
    response = _decoder(f"{API_NAMES[key]}Response")(line.response) if answered else None
    return read(line, request, response)


def fields_of_messages(line: RequestLine, request: Any, response: Any) -> ApiFields:
    """Return the fields of messages that are :func:`message_struct` already, response or None.

    Only for the kinds of request in API_NAMES.
    """
    return _READERS[line.requestHeader.requestApiKey](line, request, response)


@cache
def _decoder(message: str) -> Callable[[msgspec.Raw], Any]:
    return msgspec.json.Decoder(message_struct(message)).decode


def _request_bytes(line: RequestLine, request: Any) -> int | None:
    header = line.requestHeader
    sizer = body_sizer(header.requestApiKey, header.requestApiVersion, "Request")
    body = sizer(request) if sizer else None
    if body is None:
        return None
    return body + header_size(header.requestApiKey, header.requestApiVersion, header.clientId)


def _throttle(response: Any) -> int | None:
    return None if response is None else _set(response.throttleTimeMs)


def _set(value: Any) -> Any:
    return None if value is UNSET else value


def _there(value: Any) -> Any:
    """Return the value of a field that every version has; raises TypeError where it is absent."""
    if value is UNSET or value is None:
        raise TypeError("a field of the message is absent")
    return value


def _sorted_codes(codes: set[Any]) -> list[int]:
    if UNSET in codes or None in codes:
        raise TypeError("an error code is absent")
    return sorted(codes)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _topic(topic: Any, name: str) -> str | None:
    named = _set(getattr(topic, name))
    return named or _set(topic.topicId) or None


def _produce(line: RequestLine, request: Any, response: Any) -> ApiFields:
    topics = None
    if request.topicData is not UNSET:  # below TRACE the text format does not print it
        topics = [
            {
                "topic": _topic(t, "name"),
                "records_bytes": sum(p.recordsSizeInBytes or 0 for p in _list(t.partitionData)),
            }
            for t in _list(request.topicData)
        ]
    codes = {
        p.errorCode
        for t in (_list(response.responses) if response is not None else ())
        for p in _list(t.partitionResponses)
    }
    return ApiFields(
        throttle_time_ms=_throttle(response),
        request_bytes=_request_bytes(line, request),
        acks=_set(request.acks),
        error_codes=_sorted_codes(codes) if response is not None else None,
        topics=topics,
    )


def _fetch(line: RequestLine, request: Any, response: Any) -> ApiFields:
    header = line.requestHeader
    is_share_fetch = header.requestApiKey == SHARE_FETCH
    is_replica = not is_share_fetch and _is_replica(request)
    name = "topicId" if is_share_fetch else "topic"
    size, codes, topics = None, None, None
    if response is not None:
        if is_share_fetch:
            _leave_fetched(request, response)
        sizer = body_sizer(header.requestApiKey, header.requestApiVersion, "Response")
        body = sizer(response) if sizer and not is_replica else None
        size = None if body is None else body + RESPONSE_HEADER_BYTES
        found = _list(response.responses)
        codes = {p.errorCode for t in found for p in _partitions(t)}
        codes |= {_set(response.errorCode) or 0}
        topics = [
            {"topic": _topic(t, name), "records_bytes": _records_bytes(_partitions(t))}
            for t in found
        ]
    return ApiFields(
        throttle_time_ms=_throttle(response),
        request_bytes=_request_bytes(line, request),
        response_bytes=size,
        is_replica=is_replica,
        fetch_max_bytes=_set(request.maxBytes),
        error_codes=None if codes is None else _sorted_codes(codes),
        topics=topics,
    )


def _leave_fetched(request: Any, response: Any) -> None:
    """Leave of a share fetch's answer what its quota counts, with the sizes that can be told.

    Records are printed without their size; where none were acquired there are none. Partitions that
    the request only acknowledges are added after the size was recorded; of a session that goes on
    an answer has only partitions with records or an error. Kafka: ``KafkaApis``:
    handleShareFetchRequest, ``ShareSessionContext.responseSize``.
    """
    if not isinstance(response.responses, list):
        return
    is_first = _set(request.shareSessionEpoch) == 0
    topics = []
    for topic in response.responses:
        kept = []
        for partition in _partitions(topic):
            if not isinstance(partition.records, str):
                kept.append(partition)
                continue
            partition.acknowledgeErrorMessage = None
            has_records = bool(_list(partition.acquiredRecords))
            if not has_records:
                partition.recordsSizeInBytes = 0
            if is_first or has_records or partition.errorCode:
                kept.append(partition)
        if kept or not _list(topic.partitions):
            topics.append(topic)
        topic.partitions = kept
    response.responses = topics


def _partitions(topic: Any) -> list[Any]:
    # 2.8 printed other names for the same fields.
    return _list(topic.partitions) or _list(getattr(topic, "partitionResponses", None))


def _records_bytes(partitions: list[Any]) -> int | None:
    """Return the sum of the records; None where the text format tells one of them no size."""
    sizes = []
    for partition in partitions:
        # 2.8 printed another name for the field.
        is_older = hasattr(partition, "recordSetSizeInBytes")
        size = _set(partition.recordSetSizeInBytes if is_older else partition.recordsSizeInBytes)
        # A text is what a share fetch has in place of its records.
        if size is None and not is_older and partition.records is not None:
            return None
        sizes.append(size or 0)
    return sum(sizes)


def _is_replica(request: Any) -> bool:
    state = _set(request.replicaState)
    replica_id = _set(request.replicaId) if state is None else _set(state.replicaId)
    return (NO_REPLICA if replica_id is None else replica_id) >= 0


def _mutated(
    line: RequestLine, request: Any, response: Any, mutations: list[dict[str, Any]]
) -> ApiFields:
    return ApiFields(
        throttle_time_ms=_throttle(response),
        request_bytes=_request_bytes(line, request),
        error_codes=[m["error_code"] for m in mutations] if response is not None else None,
        mutations=mutations,
        validate_only=_set(getattr(request, "validateOnly", None)),
    )


def _mutation(topic: str | None, partitions: int | None, error_code: int | None) -> dict[str, Any]:
    return {"topic": topic, "partitions": partitions, "error_code": error_code}


def _create_topics(line: RequestLine, request: Any, response: Any) -> ApiFields:
    answers = {r.name: r for r in (_list(response.topics) if response is not None else ())}
    mutations = []
    for topic in _list(request.topics):
        answer = answers.get(topic.name)
        partitions = topic.numPartitions
        if _list(topic.assignments):
            partitions = len(topic.assignments)
        elif partitions < 1:  # the broker's default, which newer versions answer with
            stated = None if answer is None else _set(answer.numPartitions)
            partitions = stated if stated is not None and stated > 0 else None
        code = None if answer is None else _there(answer.errorCode)
        mutations.append(_mutation(_there(topic.name), partitions, code))
    return _mutated(line, request, response, mutations)


def _create_partitions(line: RequestLine, request: Any, response: Any) -> ApiFields:
    answers = _list(response.results) if response else ()
    codes = {r.name: _there(r.errorCode) for r in answers}
    mutations = [
        _mutation(_there(t.name), _there(t.count), codes.get(t.name)) for t in _list(request.topics)
    ]
    return _mutated(line, request, response, mutations)


def _delete_topics(line: RequestLine, request: Any, response: Any) -> ApiFields:
    answers = _list(response.responses) if response is not None else []
    named = [t.name for t in _list(request.topics)] or _list(request.topicNames)
    if None in named or not named:  # deleted by id: the answer knows the names
        mutations = [_mutation(_set(r.name), None, _there(r.errorCode)) for r in answers]
    else:
        codes = {r.name: _there(r.errorCode) for r in answers}
        mutations = [_mutation(_there(name), None, codes.get(name)) for name in named]
    return _mutated(line, request, response, mutations)


def _alter_client_quotas(line: RequestLine, request: Any, response: Any) -> ApiFields:
    refused = {
        _entity_key(r.entity) for r in (_list(response.entries) if response else ()) if r.errorCode
    }
    return ApiFields(
        throttle_time_ms=_throttle(response),
        request_bytes=_request_bytes(line, request),
        error_codes=[_there(r.errorCode) for r in _list(response.entries)] if response else None,
        validate_only=_set(request.validateOnly),
        quota_alterations=[
            alteration
            for entry in _list(request.entries)
            if _entity_key(entry.entity) not in refused
            for alteration in _alterations(entry)
        ],
    )


def _entity_key(entity: Any) -> frozenset[tuple[str, str | None]]:
    return frozenset((_there(e.entityType), _set(e.entityName)) for e in _list(entity))


def _alterations(entry: Any) -> Iterator[dict[str, Any]]:
    names = {kind: DEFAULT if name is None else name for kind, name in _entity_key(entry.entity)}
    is_clients = names.keys() <= {USER, CLIENT_ID}
    for op in _list(entry.ops):
        if not is_clients and op.key in QUOTA_TYPES:
            continue  # of an address, which has no such quota: not to be taken for a client's
        yield {
            "quota_type": _there(op.key),
            "quota_user": names.get(USER),
            "quota_client_id": names.get(CLIENT_ID),
            "bound": None if op.remove else _there(op.value),
        }


_READERS: dict[int, Callable[[RequestLine, Any, Any], ApiFields]] = {
    0: _produce,
    1: _fetch,
    19: _create_topics,
    20: _delete_topics,
    37: _create_partitions,
    49: _alter_client_quotas,
    SHARE_FETCH: _fetch,
}
assert _READERS.keys() == API_NAMES.keys(), "a kind of request without its reader"
