from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import SINCE_UNKNOWN_MS, QuotaEvent
from spark_jobs.ingest.quota_sources.snapshot import read_snapshot
from spark_jobs.quota.codes import DEFAULT

TAKEN_MS = 1_795_229_264_942
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"

BY_BROKERS = """\
Quota configs for user-principal 'alice', client-id 'svc' are producer_byte_rate=180000.0
Quota configs for user-principal 'alice', the default client-id are consumer_byte_rate=1.048576E7
Quota configs for user-principal 'alice' are producer_byte_rate=150000.0, request_percentage=5.0
Quota configs for the default user-principal, client-id 'sink' are producer_byte_rate=100000.0
Quota configs for the default user-principal, the default client-id are producer_byte_rate=1.0
Quota configs for the default user-principal are controller_mutation_rate=1.5
Quota configs for client-id 'loader' are producer_byte_rate=350000.0
Quota configs for the default client-id are producer_byte_rate=1000000.0
"""
BY_ZOOKEEPER = """\
Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.
Configs for user-principal 'alice', client-id 'svc' are producer_byte_rate=180000
Configs for user-principal 'alice', default client-id are consumer_byte_rate=10485760
Configs for user-principal 'alice' are producer_byte_rate=150000,request_percentage=5
Configs for default user-principal, client-id 'sink' are producer_byte_rate=100000
Configs for default user-principal, default client-id are producer_byte_rate=1
Configs for default user-principal are controller_mutation_rate=1.5
Configs for client-id 'loader' are producer_byte_rate=350000
Configs for default client-id are producer_byte_rate=1000000
"""
QUOTAS = [
    (PRODUCE, "alice", "svc", 180_000.0),
    (FETCH, "alice", DEFAULT, 10_485_760.0),
    (PRODUCE, "alice", None, 150_000.0),
    ("request_percentage", "alice", None, 5.0),
    (PRODUCE, DEFAULT, "sink", 100_000.0),
    (PRODUCE, DEFAULT, DEFAULT, 1.0),
    ("controller_mutation_rate", DEFAULT, None, 1.5),
    (PRODUCE, None, "loader", 350_000.0),
    (PRODUCE, None, DEFAULT, 1_000_000.0),
]


def quotas(events: list[QuotaEvent]) -> list[tuple[Any, ...]]:
    return [(e.quota_type, e.quota_user, e.quota_client_id, e.bound) for e in events]


def read(text: str) -> list[QuotaEvent]:
    return read_snapshot(text, TAKEN_MS, "quota-snapshot.txt")


@pytest.mark.parametrize("text", [BY_BROKERS, BY_ZOOKEEPER], ids=["brokers", "zookeeper"])
def test_both_wordings_say_the_same(text: str) -> None:
    assert quotas(read(text)) == QUOTAS


def test_a_quota_shown_was_set_at_some_time_before_on_every_broker() -> None:
    event = read(BY_BROKERS)[3]
    assert (event.earliest_ms, event.latest_ms) == (SINCE_UNKNOWN_MS, TAKEN_MS)
    assert (event.source, event.broker_id) == ("snapshot", None)
    assert (event.source_file, event.source_line) == ("quota-snapshot.txt", 3)


def test_what_is_no_quota_of_a_client_is_left_aside() -> None:
    text = (
        "Quota configs for ip '10.0.0.1' are connection_creation_rate=10.0\n"
        "Quota configs for the default ip are connection_creation_rate=10.0\n"
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-512=iterations=4096\n"
        "Dynamic configs for broker 1 are:\n"
        "Configs for user-principal 'bob' are SCRAM-SHA-256=salt=a==,iterations=4096,"
        "producer_byte_rate=10\n"
        "Configs for user-principal 'carol' are \n"
        "\n"
    )
    assert quotas(read(text)) == [(PRODUCE, "bob", None, 10.0)]


def test_names_may_hold_quotes_commas_and_spaces() -> None:
    text = (
        "Quota configs for user-principal 'O'Brien, CN=x', client-id 'a b' are producer_byte_rate=1"
    )
    assert quotas(read(text)) == [(PRODUCE, "O'Brien, CN=x", "a b", 1.0)]


@pytest.mark.parametrize("text", ["", "\n", "[]", '{"entries": []}'])
def test_a_cluster_may_have_no_quotas(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Quota configs for user-principal 'ali", "'ali"),
        ("Quota con", "Quota con"),
        ("configs for client-id 'a' are producer_byte_rate=1", "configs for client-id"),
        ("Quota configs for user-principal 'alice' are producer_byte_rate=fast", "'fast'"),
        ("Quota configs for user-principal 'alice' are producer_byte_rate=-1.0", "'-1.0'"),
        ("Quota configs for user-principal 'alice' are producer_byte_rate=NaN", "'NaN'"),
        ("Quota configs for user-principal 'alice' are producer_byte_r", "producer_byte_r"),
        ("Quota configs for are producer_byte_rate=1", "Quota configs for are"),
        ("  producer_byte_rate=1,consumer_byte_rate=2", "producer_byte_rate=1"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, found: str) -> None:
    with pytest.raises(BadInputError) as raised:
        read(BY_BROKERS + line)
    message = str(raised.value)
    assert message.startswith("quota-snapshot.txt, line 9: ")
    assert found in message
    assert "expected" in message


def test_a_text_of_something_else_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"line 2: found 'bash: kafka-configs\.sh"):
        read("\nbash: kafka-configs.sh: command not found\n")
    for other in ("hunter2", "password=hunter2", "org.apache.kafka.X required password=hunter2;"):
        with pytest.raises(
            BadInputError, match=r"line 1: found a text of \d+ characters"
        ) as raised:
            read(f"{other}\n")
        assert "hunter2" not in str(raised.value)


AS_KAFKA_ANSWERS = {
    "throttleTimeMs": 0,
    "entries": [
        {
            "entity": [
                {"entityType": "user", "entityName": "alice"},
                {"entityType": "client-id", "entityName": None},
            ],
            "values": [
                {"key": "producer_byte_rate", "value": 150000.0},
                {"key": "consumer_byte_rate", "value": 7},
            ],
        },
        {
            "entity": [{"entityType": "ip", "entityName": None}],
            "values": [{"key": "connection_creation_rate", "value": 1.0}],
        },
    ],
}
SHORTER = [
    {
        "entity": {"user": "alice", "client-id": None},
        "values": {"producer_byte_rate": 150000, "consumer_byte_rate": 7.0},
    }
]


@pytest.mark.parametrize("found", [AS_KAFKA_ANSWERS, SHORTER, {"entries": SHORTER}])
def test_json_as_kafka_answers_and_shorter(found: object) -> None:
    assert quotas(read(json.dumps(found, indent=1))) == [
        (PRODUCE, "alice", DEFAULT, 150_000.0),
        (FETCH, "alice", DEFAULT, 7.0),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[\n{"entity": {"user": "alice"}, "values": ]', "line 2, column"),
        ("[" * 100_000, "nests without end"),
        ('{"quotas": 1}', "Expected `array`"),
        ('[{"entity": {"user": "alice"}, "values": {"producer_byte_rate": "x"}}]', "$[0].values"),
        ('[{"entity": {"group": "g"}, "values": {}}]', "$[0].entity"),
        ('[{"entity": {}, "values": {"producer_byte_rate": 1}}]', "entry 0 (from 0): found no"),
        ('[{"entity": {"user": "a"}, "values": {"producer_byte_rate": -1}}]', "'-1.0'"),
    ],
)
def test_json_that_cannot_be_read_is_named(text: str, found: str) -> None:
    with pytest.raises(BadInputError, match=r"quota-snapshot\.txt") as raised:
        read(text)
    assert found in str(raised.value)
