"""Sizes computed from logged JSON equal what Kafka's own classes wrote, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.ingest.messages.message_definition import API_NAMES
from spark_jobs.ingest.messages.wire_size import FETCH_APIS, RESPONSE_HEADER_BYTES
from tests.builders.message_sizes import request_size, response_body_size
from tests.oracle.jars import maven_jar, run_java

pytestmark = pytest.mark.jvm

PROGRAM = Path(__file__).resolve().parents[3] / "oracle" / "java" / "RandomMessages.java"
# What kafka-clients needs to print a message as JSON and to weigh a fetch response.
LIBRARIES = (
    "com.fasterxml.jackson.core:jackson-annotations:2.16.2",
    "com.fasterxml.jackson.core:jackson-core:2.16.2",
    "com.fasterxml.jackson.core:jackson-databind:2.16.2",
    "org.slf4j:slf4j-api:1.7.36",
)
SEED, MESSAGES_PER_VERSION = 20261121, 20
SHARE_FETCH = 78


def random_messages(kafka_version: str) -> list[dict[str, Any]]:
    jars = [maven_jar(f"org.apache.kafka:kafka-clients:{kafka_version}")]
    jars += [maven_jar(library) for library in LIBRARIES]
    has_share_fetch = int(kafka_version[0]) >= 4 or kafka_version.startswith("3.9")
    names = [n for key, n in API_NAMES.items() if key != SHARE_FETCH or has_share_fetch]
    printed = run_java(PROGRAM, jars, str(SEED), str(MESSAGES_PER_VERSION), *names)
    return [json.loads(line) for line in printed.splitlines()]


def computed_size(message: dict[str, Any]) -> int | None:
    key, version, body = message["api_key"], message["version"], message["body"]
    if message["side"] == "Request":
        return request_size(key, version, message["header"]["clientId"], body)
    size = response_body_size(key, version, body)
    return size + RESPONSE_HEADER_BYTES if key in FETCH_APIS and size is not None else size


# From the first that logs JSON to the newest; 3.9 is the last with every old version.
@pytest.mark.parametrize("kafka_version", ["4.2.0", "4.1.0", "3.9.1", "3.2.3", "2.8.2"])
def test_every_version_of_every_api_has_the_size_kafka_writes(kafka_version: str) -> None:
    messages = random_messages(kafka_version)
    wrong = Counter(
        (API_NAMES[m["api_key"]], m["side"], m["version"])
        for m in messages
        if computed_size(m) != m.get("size_of", m["size"])
    )
    assert wrong == Counter(), f"seed {SEED}"
    seen = {(m["api_key"], m["side"], m["version"]) for m in messages}
    assert len(messages) == len(seen) * MESSAGES_PER_VERSION
    assert len(seen) >= 70
