"""Texts of messages read field by field, under the names and shapes of every release."""

from __future__ import annotations

import pytest

from spark_jobs.ingest.lines.text_message import TextMessageError, read_message

FETCHED = (
    "{throttle_time_ms=0,error_code=0,session_id=0,responses=[{topic=t,partition_responses=["
    "{partition=1,error_code=0,high_watermark=5,last_stable_offset=5,log_start_offset=0,"
    "aborted_transactions=[{producer_id=7,first_offset=3,_tagged_fields={}}],"
    "preferred_read_replica=-1,record_set=null,_tagged_fields={TAGGED}}],_tagged_fields={}}],"
    "_tagged_fields={}}"
)
RECORDS_IN_MEMORY = "[(record=DefaultRecord(offset=0, timestamp=1, key=2 bytes, value=3 bytes))]"


def partition(tagged: str) -> dict[str, object]:
    message = read_message("FetchResponse", 12, FETCHED.replace("TAGGED", tagged))
    found: dict[str, object] = message["responses"][0]["partitions"][0]
    return found


def test_tagged_fields_are_known_by_their_number() -> None:
    epoch = "{epoch=4,end_offset=9,_tagged_fields={}}"
    leader = "{leader_id=1,leader_epoch=2,_tagged_fields={}}"
    found = partition(f"0={epoch}, 1={leader}")
    assert found["divergingEpoch"] == {"epoch": 4, "endOffset": 9}
    assert found["currentLeader"] == {"leaderId": 1, "leaderEpoch": 2}
    assert found["abortedTransactions"] == [{"producerId": 7, "firstOffset": 3}]
    assert found["records"] is None


def test_unknown_tagged_fields_are_left_aside() -> None:
    assert partition("77=RawTaggedField@1f2e") == partition("")


def test_structs_that_only_the_text_has_are_looked_into() -> None:
    text = (
        "{topic_partitions=[{topic=a,new_partitions={count=6,assignment=null}},"
        "{topic=b,new_partitions={count=7,assignment=[[Ljava.lang.Object;@15dcfae7]}}],"
        "timeout=5,validate_only=false}"
    )
    assert read_message("CreatePartitionsRequest", 1, text) == {
        "topics": [
            {"name": "a", "count": 6, "assignments": None},
            {"name": "b", "count": 7, "assignments": [{}]},
        ],
        "timeoutMs": 5,
        "validateOnly": False,
    }


@pytest.mark.parametrize("message", ["", "null is no message", "a}b", "a, b={c", "{x=1},y"])
def test_the_last_string_of_a_struct_may_hold_what_separates_fields(message: str) -> None:
    text = f"{{throttle_time_ms=0,topic_errors=[{{topic=a,error_code=0,error_message={message}}}]}}"
    (topic,) = read_message("CreateTopicsResponse", 2, text)["topics"]
    assert topic == {"name": "a", "errorCode": 0, "errorMessage": message}


def test_a_null_string_is_null() -> None:
    text = "{throttle_time_ms=0,topic_errors=[{topic=a,error_code=0,error_message=null}]}"
    (topic,) = read_message("CreateTopicsResponse", 2, text)["topics"]
    assert topic["errorMessage"] is None


def test_what_the_text_does_not_tell_is_absent() -> None:
    text = FETCHED.replace("TAGGED", "").replace(
        "record_set=null", f"record_set={RECORDS_IN_MEMORY}"
    )
    (topic,) = read_message("FetchResponse", 12, text)["responses"]
    assert not topic["partitions"][0].keys() & {"records", "recordsSizeInBytes"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{topic_names=[a,b]}",
        "{topic_names=[a,b,timeout=5}",
        "{topic_names=a,timeout=5}",
        "{topic_names=[a],timeout=five}",
        "{topic_names=[a],timeout=5}}",
        "{topic_names=[a],timeout=5,more=1}",
        "{topic_names=[a],timeout=5",
    ],
)
def test_another_text_is_an_error_that_names_the_place(text: str) -> None:
    with pytest.raises(
        TextMessageError, match=r"DeleteTopicsRequest version 1: .* at character \d"
    ):
        read_message("DeleteTopicsRequest", 1, text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("record_set=null", "record_set=Records"),
        ("topic=t,", "topic=t;"),
        ("error_code=0,high", "error_code=,high"),
    ],
)
def test_a_broken_field_within_is_an_error_too(old: str, new: str) -> None:
    text = FETCHED.replace("TAGGED", "").replace(old, new)
    with pytest.raises(TextMessageError, match="FetchResponse version 12"):
        read_message("FetchResponse", 12, text)


def test_a_version_that_kafka_never_had_is_an_error() -> None:
    with pytest.raises(TextMessageError, match="no version 99"):
        read_message("FetchResponse", 99, "{}")
