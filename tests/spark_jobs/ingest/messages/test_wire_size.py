"""Sizes worked out by hand, and sizes that are unknown rather than guessed."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
import pytest

from spark_jobs.ingest.messages.message_definition import (
    API_NAMES,
    Versions,
    message_struct,
    parse_message,
)
from spark_jobs.ingest.messages.wire_size import body_sizer, header_size, size_function
from tests.builders.message_sizes import request_size, response_body_size

PRODUCE, FETCH, DELETE_TOPICS, SHARE_FETCH = 0, 1, 20, 78
# The newest version of each that Kafka 4.2 speaks.
NEWEST = {0: 13, 1: 18, 19: 7, 20: 6, 37: 3, 49: 1, 78: 2}
HEADER = 2 + 2 + 4 + 2  # api key, version, correlation id, length of the client id


def produce(
    *records_bytes: int, transactional_id: str | None = None, **topic: Any
) -> dict[str, Any]:
    partitions = [{"index": i, "recordsSizeInBytes": n} for i, n in enumerate(records_bytes)]
    named = topic or {"name": "orders"}
    return {
        "transactionalId": transactional_id,
        "acks": 1,
        "timeoutMs": 30000,
        "topicData": [{**named, "partitionData": partitions}],
    }


def test_a_produce_before_version_9_has_lengths_of_fixed_size() -> None:
    body = 2 + 2 + 4 + 4 + (2 + 6) + 4 + (4 + 4 + 1000)
    assert request_size(PRODUCE, 8, "svc", produce(1000)) == HEADER + 3 + body


def test_a_produce_from_version_9_has_varint_lengths_and_tagged_fields() -> None:
    body = 1 + 2 + 4 + 1 + (1 + 6) + 1 + (4 + 2 + 1000 + 1) + 1 + 1
    assert request_size(PRODUCE, 9, "svc", produce(1000)) == HEADER + 3 + 1 + body


def test_a_produce_from_version_13_names_topics_by_id() -> None:
    body = 1 + 2 + 4 + 1 + 16 + 1 + (4 + 2 + 1000 + 1) + 1 + 1
    by_id = produce(1000, topicId="SIwQpCCXR0a0sovvtTtonQ")
    assert request_size(PRODUCE, 13, "svc", by_id) == HEADER + 3 + 1 + body


def test_a_produce_before_version_3_has_no_transactional_id() -> None:
    with_it, without = (request_size(PRODUCE, v, "svc", produce(1000)) for v in (3, 2))
    assert with_it is not None
    assert without == with_it - 2


@pytest.mark.parametrize(
    ("records_bytes", "length_bytes"),
    [(0, 1), (126, 1), (127, 2), (16_382, 2), (16_383, 3), (2_097_150, 3), (2_097_151, 4)],
)
def test_the_length_of_records_takes_more_bytes_as_it_grows(
    records_bytes: int, length_bytes: int
) -> None:
    empty = request_size(PRODUCE, 9, None, produce(0))
    assert empty is not None
    found = request_size(PRODUCE, 9, None, produce(records_bytes))
    assert found == empty + records_bytes + length_bytes - 1


@pytest.mark.parametrize(
    ("client_id", "text_bytes"), [(None, 0), ("", 0), ("svc", 3), ("é€🚀", 2 + 3 + 4)]
)
def test_the_header_holds_the_client_id_in_utf_8(client_id: str | None, text_bytes: int) -> None:
    assert header_size(PRODUCE, 8, client_id) == HEADER + text_bytes
    assert header_size(PRODUCE, 9, client_id) == HEADER + text_bytes + 1


def test_strings_in_a_list_have_lengths_of_strings() -> None:
    request = {"topicNames": ["a", "bcd"], "timeoutMs": 1}
    assert request_size(DELETE_TOPICS, 1, "", request) == HEADER + 4 + (2 + 1) + (2 + 3) + 4
    assert request_size(DELETE_TOPICS, 4, "", request) == HEADER + 1 + 1 + 2 + 4 + 4 + 1


def fetched(partition: dict[str, Any], partitions: str = "partitions") -> dict[str, Any]:
    return {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "sessionId": 0,
        "responses": [{"topic": "t", partitions: [partition]}],
    }


def test_a_fetch_response_has_the_same_size_under_the_field_names_of_2_8() -> None:
    offsets = {"errorCode": 0, "highWatermark": 9, "lastStableOffset": 9, "logStartOffset": 0}
    rest = {"abortedTransactions": None, "preferredReadReplica": -1}
    new = fetched(offsets | rest | {"partitionIndex": 0, "recordsSizeInBytes": 100})
    old = fetched(
        offsets | rest | {"partition": 0, "recordSetSizeInBytes": 100}, "partitionResponses"
    )
    size = 4 + 2 + 4 + 4 + (2 + 1) + 4 + (4 + 2 + 8 + 8 + 8 + 4 + 4 + 4 + 100)
    assert [response_body_size(FETCH, 11, body) for body in (new, old)] == [size, size]


def test_what_a_broker_adds_to_a_fetch_after_weighing_it_is_not_counted() -> None:
    partition = {"partitionIndex": 0, "errorCode": 6, "recordsSizeInBytes": 0}
    weighed = fetched(partition | {"abortedTransactions": None})
    moved = weighed | {"nodeEndpoints": [{"nodeId": 1, "host": "b", "port": 1, "rack": None}]}
    size = response_body_size(FETCH, 16, weighed)
    assert size is not None
    assert response_body_size(FETCH, 16, moved) == size


@pytest.mark.parametrize("api_key", sorted(API_NAMES))
@pytest.mark.parametrize("side", ["Request", "Response"])
def test_every_version_up_to_the_newest_is_known_and_no_later_one(api_key: int, side: str) -> None:
    known = [v for v in range(-1, 100) if body_sizer(api_key, v, side) is not None]
    assert known == list(range(NEWEST[api_key] + 1))


def test_the_size_of_other_kinds_of_requests_is_unknown() -> None:
    assert request_size(3, 12, "svc", {"topics": []}) is None
    assert response_body_size(3, 12, {"topics": []}) is None


def test_the_size_of_a_version_without_definition_is_unknown() -> None:
    assert request_size(PRODUCE, 14, "svc", produce(1)) is None
    assert response_body_size(FETCH, 19, fetched({})) is None


@pytest.mark.parametrize("absent", ["name", "partitionData"])
def test_a_size_without_the_field_that_decides_it_is_unknown(absent: str) -> None:
    request = produce(1000)
    del request["topicData"][0][absent]
    assert request_size(PRODUCE, 9, "svc", request) is None


def test_records_without_a_size_are_unknown_unless_there_are_none() -> None:
    request = produce(1000)
    partition = request["topicData"][0]["partitionData"][0]
    del partition["recordsSizeInBytes"]
    assert request_size(PRODUCE, 9, "svc", request) is None
    partition["records"] = None
    assert request_size(PRODUCE, 9, "svc", request) == request_size(PRODUCE, 9, "svc", produce(0))


@pytest.mark.parametrize("records_bytes", [-1, 1 << 31, 10.5, "1000", True])
def test_a_size_of_records_that_is_none_is_refused(records_bytes: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        request_size(PRODUCE, 9, "svc", produce(records_bytes))


def test_fields_that_kafka_does_not_define_are_ignored() -> None:
    request = produce(1000)
    assert request_size(PRODUCE, 9, "svc", request | {"later": [1]}) == request_size(
        PRODUCE, 9, "svc", request
    )
    decoded = msgspec.convert(request | {"later": [1]}, message_struct("ProduceRequest"))
    assert not hasattr(decoded, "later")


@pytest.mark.parametrize(
    ("text", "lowest", "highest"), [("3", 3, 3), ("0-9", 0, 9), ("4+", 4, 32767), ("none", 0, -1)]
)
def test_ranges_of_versions_are_read_as_kafka_writes_them(
    text: str, lowest: int, highest: int
) -> None:
    found = Versions.parse(text)
    assert (found.lowest, found.highest) == (lowest, highest)
    assert [v in found for v in (lowest - 1, lowest, highest + 1)] == [
        False,
        lowest <= highest,
        False,
    ]


def test_a_definition_may_hold_comments_but_not_in_its_texts() -> None:
    text = """
    { // a comment with "quotes"
      "name": "Sample", "validVersions": "0", "flexibleVersions": "none",
      "fields": [{"name": "Url", "type": "string", "versions": "0+", "about": "http://x"}]
    }"""
    message = parse_message(text, "1.0")
    assert [field.name for field in message.fields] == ["url"]
    sized = msgspec.defstruct("Sample", [("url", str)])("http")
    assert size_function(message, 0)(sized) == 2 + 4


def test_names_of_megabytes_are_measured_and_not_held() -> None:
    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    assert header_size(0, 8, "x" * 5000) == header_size(0, 8, "") + 5000
    tracemalloc.start()
    before = held()
    for i in range(30):
        header_size(0, 8, f"{i}" + "x" * 1_000_000)
    grown = held() - before
    tracemalloc.stop()
    assert grown < 1_000_000
