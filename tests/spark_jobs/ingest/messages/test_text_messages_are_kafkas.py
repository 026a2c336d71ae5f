"""What Kafka 2.0 to 2.7 print of a message is read back, with the size their classes need."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.ingest.lines.line_reader import read_request
from spark_jobs.ingest.lines.text_message import read_message
from spark_jobs.ingest.lines.text_request import LoggedRequest
from spark_jobs.ingest.messages.message_definition import API_NAMES
from tests.builders.log_lines import text_line
from tests.builders.message_sizes import request_size, response_body_size
from tests.oracle.jars import maven_jar, run_java

pytestmark = pytest.mark.jvm

PROGRAM = Path(__file__).resolve().parents[3] / "oracle" / "java" / "TextMessages.java"
SEED, MESSAGES_PER_VERSION = 20261121, 12
PRODUCE, CREATE_PARTITIONS = 0, 37
# Printed where Kafka prints an array within an array: what is in it is not in the text.
JAVA_ARRAY = "[Ljava.lang.Object;@"


def printed_messages(kafka_version: str) -> list[dict[str, Any]]:
    jars = [
        maven_jar(f"org.apache.kafka:kafka-clients:{kafka_version}"),
        maven_jar("org.slf4j:slf4j-api:1.7.36"),
    ]
    keys = [str(key) for key in API_NAMES]
    printed = run_java(PROGRAM, jars, str(SEED), str(MESSAGES_PER_VERSION), *keys)
    return [json.loads(line) for line in printed.splitlines()]


def is_read_back(message: dict[str, Any]) -> bool:
    key, version, name = message["api_key"], message["version"], API_NAMES[message["api_key"]]
    if message["side"] == "Response":
        body = read_message(f"{name}Response", version, message["text"])
        return response_body_size(key, version, body) == message["size"]
    client_id = message["client_id"]
    header, _, text = message["verbose"].partition(") -- {")
    if key != PRODUCE:
        body = read_message(f"{name}Request", version, "{" + text)
        size = request_size(key, version, client_id, body)
        expected = None if JAVA_ARRAY in text else message["size"]
        return size == expected and header.startswith("RequestHeader(")
    return is_produce_read(message, client_id)


def is_produce_read(message: dict[str, Any], client_id: str | None) -> bool:
    sizes = []
    for text in (message["verbose"], message["brief"]):
        header, _, request = text.removeprefix("RequestHeader(").partition(") -- {acks=")
        found = read_request(text_line(header, "{acks=" + request, ""))
        assert isinstance(found, LoggedRequest), (found, text)
        assert found.line.requestHeader.clientId == client_id
        sizes.append(found.fields.request_bytes)
    # A transactional id is never printed, so its bytes are missing.
    if message["is_transactional"]:
        return sizes[0] is not None and sizes[0] <= message["size"]
    return sizes == [message["size"], None]


# The first and the last of the text format, and where classes were replaced by generated ones.
@pytest.mark.parametrize("kafka_version", ["2.0.1", "2.2.2", "2.4.1", "2.5.1", "2.7.2"])
def test_every_version_of_every_api_is_read_as_kafka_printed_it(kafka_version: str) -> None:
    messages = printed_messages(kafka_version)
    wrong = Counter(
        (API_NAMES[m["api_key"]], m["side"], m["version"]) for m in messages if not is_read_back(m)
    )
    assert wrong == Counter(), f"seed {SEED}"
    seen = {(m["api_key"], m["side"], m["version"]) for m in messages}
    assert len(messages) == len(seen) * MESSAGES_PER_VERSION
    assert len(seen) >= 50
