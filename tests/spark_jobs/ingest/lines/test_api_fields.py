"""What is read out of each kind of request."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from spark_jobs.ingest.lines.api_fields import ApiFields, api_fields
from spark_jobs.ingest.lines.request_line import decode_request_line
from tests.builders.log_lines import PRODUCE, log_line, message
from tests.spark_jobs.ingest.lines.both_readers import assert_same


def fields_of(*args: Any, **kwargs: Any) -> ApiFields:
    return api_fields(decode_request_line(json.dumps(message(*args, **kwargs)).encode()))


def test_a_produce_gives_its_size_topics_acks_and_the_throttle_of_its_response() -> None:
    found = fields_of()
    # Header v2: 2 + 2 + 4 + 2 + "svc" + 1; body v9: 1 + 2 + 4 + topics, each with its tags.
    topics = 1 + (7 + 1 + 4 + 2 + 1000 + 1 + 1) + (6 + 1 + 4 + 1 + 24 + 1 + 1)
    assert found.request_bytes == 14 + 7 + topics + 1
    assert found.topics == [
        {"topic": "orders", "records_bytes": 1000},
        {"topic": "audit", "records_bytes": 24},
    ]
    assert (found.acks, found.throttle_time_ms, found.error_codes) == (1, 17, [0])


@pytest.mark.parametrize("response", ["", None], ids=["empty text", "null"])
def test_a_produce_without_acks_has_no_response(response: str | None) -> None:
    body = message(request=PRODUCE | {"acks": 0}) | {"response": response}
    found = api_fields(decode_request_line(json.dumps(body).encode()))
    assert (found.acks, found.throttle_time_ms, found.error_codes) == (0, None, None)
    assert found.request_bytes is not None


def fetch(**request: Any) -> ApiFields:
    body = {
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 4096,
        "isolationLevel": 0,
        "sessionId": 0,
        "sessionEpoch": -1,
        "topics": [],
        "forgottenTopicsData": [],
        "rackId": "",
    }
    response = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "sessionId": 3,
        "responses": [
            {
                "topic": "orders",
                "partitions": [
                    {
                        "partitionIndex": 0,
                        "errorCode": 0,
                        "highWatermark": 5,
                        "lastStableOffset": 5,
                        "logStartOffset": 0,
                        "abortedTransactions": None,
                        "preferredReadReplica": -1,
                        "recordsSizeInBytes": 300,
                    }
                ],
            }
        ],
    }
    return fields_of("FETCH", 12, body | request, response)


def test_a_consumers_fetch_gives_the_size_of_its_response() -> None:
    found = fetch(replicaId=-1)
    partition = 4 + 2 + 8 + 8 + 8 + 1 + 4 + 2 + 300 + 1
    body = 4 + 2 + 4 + 1 + (7 + 1 + partition + 1) + 1
    assert found.response_bytes == 4 + body
    assert (found.is_replica, found.fetch_max_bytes) == (False, 4096)
    assert found.topics == [{"topic": "orders", "records_bytes": 300}]


def test_a_followers_fetch_is_known_as_one_and_not_weighed() -> None:
    found = fetch(replicaId=2)
    assert found.is_replica
    assert found.response_bytes is None


def create_topics(topic: dict[str, Any], answer: dict[str, Any]) -> ApiFields:
    topic = {"name": "t", "numPartitions": -1, "assignments": [], "configs": []} | topic
    answer = {"name": "t", "errorCode": 0, "errorMessage": None} | answer
    return fields_of(
        "CREATE_TOPICS",
        5,
        {
            "topics": [topic | {"replicationFactor": 1}],
            "timeoutMs": 30000,
            "validateOnly": True,
        },
        {"throttleTimeMs": 858, "topics": [answer | {"replicationFactor": 1, "configs": []}]},
    )


@pytest.mark.parametrize(
    ("topic", "answer", "partitions"),
    [
        ({"numPartitions": 3}, {"numPartitions": 3}, 3),
        ({"assignments": [{"partitionIndex": i, "brokerIds": [1]} for i in range(2)]}, {}, 2),
        ({}, {"numPartitions": 4}, 4),
        ({}, {"numPartitions": -1}, None),
    ],
    ids=["as asked", "as assigned", "the broker's default", "not told"],
)
def test_a_created_topic_has_the_partitions_it_was_given(
    topic: dict[str, Any], answer: dict[str, Any], partitions: int | None
) -> None:
    found = create_topics(topic, {"numPartitions": -1} | answer)
    assert found.mutations == [{"topic": "t", "partitions": partitions, "error_code": 0}]
    assert (found.validate_only, found.throttle_time_ms) == (True, 858)


def test_a_refused_mutation_keeps_the_topics_own_error() -> None:
    found = create_topics({"numPartitions": 3}, {"errorCode": 89, "numPartitions": -1})
    assert found.mutations == [{"topic": "t", "partitions": 3, "error_code": 89}]
    assert found.error_codes == [89]


@pytest.mark.parametrize(
    ("version", "request_body"),
    [
        (5, {"topicNames": ["t"], "timeoutMs": 1}),
        (6, {"topics": [{"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 1}),
        (6, {"topics": [{"name": None, "topicId": "VQa6HVBEQc-lO0eYhHgezg"}], "timeoutMs": 1}),
    ],
    ids=["names", "topics", "topic ids"],
)
def test_a_deleted_topic_is_named_however_it_was_asked_for(
    version: int, request_body: dict[str, Any]
) -> None:
    answer = {"name": "t", "errorCode": 0, "errorMessage": None}
    if version == 6:
        answer["topicId"] = "VQa6HVBEQc-lO0eYhHgezg"
    found = fields_of(
        "DELETE_TOPICS", version, request_body, {"throttleTimeMs": 0, "responses": [answer]}
    )
    assert found.mutations == [{"topic": "t", "partitions": None, "error_code": 0}]


OPS = [
    {"key": "producer_byte_rate", "value": 1e5, "remove": False},
    {"key": "consumer_byte_rate", "value": 0.0, "remove": True},
]


def alter(
    entity: list[dict[str, Any]], error_code: int = 0, ops: list[dict[str, Any]] = OPS
) -> ApiFields:
    answer = {"errorCode": error_code, "errorMessage": None, "entity": entity}
    return fields_of(
        "ALTER_CLIENT_QUOTAS",
        1,
        {"entries": [{"entity": entity, "ops": ops}], "validateOnly": False},
        {"throttleTimeMs": 0, "entries": [answer]},
    )


def test_an_alteration_names_the_entity_and_the_removed_value() -> None:
    found = alter(
        [
            {"entityType": "user", "entityName": None},
            {"entityType": "client-id", "entityName": "svc"},
        ]
    )
    entity = {"quota_user": "<default>", "quota_client_id": "svc"}
    assert found.quota_alterations == [
        {"quota_type": "producer_byte_rate", "bound": 1e5} | entity,
        {"quota_type": "consumer_byte_rate", "bound": None} | entity,
    ]


def test_an_alteration_that_was_refused_is_none() -> None:
    found = alter([{"entityType": "user", "entityName": "bob"}], error_code=42)
    assert found.quota_alterations == []
    assert found.error_codes == [42]


def test_an_address_has_no_client_quota() -> None:
    assert alter([{"entityType": "ip", "entityName": "10.0.0.1"}]).quota_alterations == []


def test_a_connection_quota_of_an_address_keeps_its_own_name_and_no_entity() -> None:
    ops = [{"key": "connection_creation_rate", "value": 10.0, "remove": False}]
    found = alter([{"entityType": "ip", "entityName": "10.0.0.1"}], ops=ops)
    assert found.quota_alterations == [
        {
            "quota_type": "connection_creation_rate",
            "quota_user": None,
            "quota_client_id": None,
            "bound": 10.0,
        }
    ]


def test_of_any_other_request_only_the_throttle_is_read() -> None:
    found = fields_of("METADATA", 12, {"topics": None}, {"throttleTimeMs": 40, "brokers": []})
    assert found == ApiFields(throttle_time_ms=40)


@pytest.mark.parametrize(("answered_ms", "own_ms"), [(0, 1_000), (858, 0), (40, 40)])
def test_the_throttle_is_the_larger_of_the_response_s_and_the_line_s(
    answered_ms: int, own_ms: int
) -> None:
    response = {
        "throttleTimeMs": answered_ms, "errorCode": 14, "producerId": -1, "producerEpoch": -1,
    }  # fmt: skip
    request = {
        "transactionalId": None, "transactionTimeoutMs": 60_000, "producerId": -1,
        "producerEpoch": -1,
    }  # fmt: skip
    body = message("INIT_PRODUCER_ID", 4, request, response) | {"throttleTimeMs": own_ms}
    data = log_line(body) + b"\n"
    block = assert_same(data)
    throttle_ms = max(answered_ms, own_ms)
    assert block.requests["throttle_time_ms"].to_pylist() == [throttle_ms]


def test_a_field_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="acks"):
        fields_of(request=PRODUCE | {"acks": "all"})


def share_fetch(*partitions: dict[str, Any], epoch: int = 3) -> ApiFields:
    request = {
        "groupId": "sharers", "memberId": "m", "shareSessionEpoch": epoch, "maxWaitMs": 500,
        "minBytes": 1, "maxBytes": 4096, "maxRecords": 500, "batchSize": 500,
        "shareAcquireMode": 0, "isRenewAck": False, "topics": [], "forgottenTopicsData": [],
    }  # fmt: skip
    responses = [{"topicId": "38skaGShRMCBaxxXB0OXcw", "partitions": list(partitions)}]
    response = {
        "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None,
        "acquisitionLockTimeoutMs": 30000, "responses": responses if partitions else [],
        "nodeEndpoints": [],
    }  # fmt: skip
    return fields_of("SHARE_FETCH", 2, request=request, response=response)


def shared(index: int = 0, *, acquired: bool = False, error: int = 0) -> dict[str, Any]:
    return {
        "partitionIndex": index, "errorCode": error, "errorMessage": None,
        "acknowledgeErrorCode": 0, "acknowledgeErrorMessage": None,
        "currentLeader": {"leaderId": 0, "leaderEpoch": 0}, "records": "",
        "acquiredRecords": [{"firstOffset": 5, "lastOffset": 9, "deliveryCount": 1}] * acquired,
    }  # fmt: skip


def test_the_size_of_a_share_fetchs_records_is_in_no_line() -> None:
    found = share_fetch(shared(acquired=True))
    assert found.response_bytes is None
    assert found.topics == [{"topic": "38skaGShRMCBaxxXB0OXcw", "records_bytes": None}]
    assert (found.throttle_time_ms, found.error_codes) == (0, [0])


def test_partitions_that_were_only_acknowledged_are_not_of_a_share_fetchs_size() -> None:
    nothing = share_fetch()
    assert nothing.response_bytes is not None
    assert share_fetch(shared(), shared(1)).response_bytes == nothing.response_bytes
    with_error = share_fetch(shared(), shared(1, error=6))
    assert (with_error.response_bytes or 0) > nothing.response_bytes
    assert with_error.error_codes == [0, 6]


def test_the_first_answer_of_a_share_session_has_all_its_partitions() -> None:
    one, two = share_fetch(shared(), epoch=0), share_fetch(shared(), shared(1), epoch=0)
    assert (two.response_bytes or 0) > (one.response_bytes or 0) > 0
    assert one.topics == [{"topic": "38skaGShRMCBaxxXB0OXcw", "records_bytes": 0}]
