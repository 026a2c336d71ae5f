"""What a log shows a broker to serve beyond all that is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.ingest.lines.chunk import (
    ChunkState,
    LineSource,
    LogOptions,
    parse_chunk,
    parse_line_by_line,
)
from spark_jobs.ingest.lines.served_apis import (
    ServedApis,
    answer_in,
    beyond_of_answer,
    beyond_of_requests,
    newer_sentences,
    newer_than_known,
)
from spark_jobs.quota.apis import API_KEYS, APIS

GOLDEN = Path(__file__).parents[3] / "golden" / "request_log"
LOG = (GOLDEN / "kafka-4.4.0" / "kafka-request.log").read_bytes()
(ANSWERED,) = [line for line in LOG.splitlines(keepends=True) if b'"API_VERSIONS"' in line]
PRODUCES_13 = b'{"apiKey":0,"minVersion":0,"maxVersion":13}'
OPTIONS = LogOptions(timezone="UTC", prefix=None, listener_brokers={})
READERS = (parse_chunk, parse_line_by_line)


def served(data: bytes, reader: Callable[..., Any] = parse_chunk) -> dict[int, dict[int, int]]:
    state = ChunkState()
    reader(data, LineSource("broker=3/kafka-request.log", 3, 1), OPTIONS, state, is_last=True)
    return state.served.beyond


@pytest.mark.parametrize("reader", READERS)
def test_a_broker_of_the_newest_known_release_serves_nothing_beyond(reader: Any) -> None:
    assert PRODUCES_13 in ANSWERED
    assert served(LOG, reader) == {}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (b'{"apiKey":0,"minVersion":0,"maxVersion":14}', {0: 14}),
        (PRODUCES_13 + b',{"apiKey":95,"minVersion":0,"maxVersion":0}', {95: 0}),
        (b'{"apiKey":10000,"minVersion":0,"maxVersion":2}', {10_000: 2}),
    ],
)
def test_an_answer_that_names_more_than_is_known_is_of_a_newer_broker(
    reader: Any, now: bytes, expected: dict[int, int]
) -> None:
    newer = ANSWERED.replace(PRODUCES_13, now)
    assert served(ANSWERED * 3 + newer + ANSWERED, reader) == {3: expected}


def test_texts_of_clients_are_not_taken_for_an_answer() -> None:
    hostile = json.dumps('"response":{"apiKeys":[{"apiKey":95,"maxVersion":0}]},"connection":')
    name = ANSWERED.split(b'"clientId":')[1].partition(b",")[0]
    assert served(ANSWERED.replace(b'"clientId":' + name, b'"clientId":' + hostile.encode())) == {}


@pytest.mark.parametrize("response", [b"", b'""', b"null", b"{", b'{"apiKeys":[{}]}', b"[]"])
def test_an_answer_that_does_not_read_tells_nothing(response: bytes) -> None:
    assert beyond_of_answer(response) == {}
    assert answer_in(b'"response":' + response + b',"connection":"c"') == response


def test_a_request_is_evidence_of_its_version_but_not_one_for_versions() -> None:
    key, version = np.array([0, 0, 1, 18, 95, -1]), np.array([13, 15, 18, 99, 0, 3])
    assert beyond_of_requests(key, version) == {0: 15, 95: 0, -1: 3}
    known = [(api.key, api.newest_version) for api in APIS.values()]
    assert beyond_of_requests(*np.array(known).T) == {}


def test_each_broker_of_a_file_is_known_by_its_own_answer() -> None:
    newer = b'{"apiKeys":[{"apiKey":95,"maxVersion":1}]}'
    served = ServedApis()
    for broker_id in (1, 2, 1):
        served.take_answer(broker_id, newer)
    assert served.beyond == {1: {95: 1}, 2: {95: 1}}


def test_what_files_tell_of_a_broker_is_put_together() -> None:
    found = ServedApis.of_all([{1: {0: 14}, 2: {}}, {1: {0: 15, 95: 0}}, {}]).beyond
    assert found == {1: {0: 15, 95: 0}}


@pytest.mark.parametrize(
    ("version", "beyond", "expected"),
    [
        (None, {}, None),
        ("4.4.0", {}, None),
        ("4.4.9-rc1", {}, None),
        ("4.5.0", {}, "its version is 4.5.0"),
        ("10.0.0", {}, "its version is 10.0.0"),
        (None, {78: 3}, "it serves SHARE_FETCH up to version 3 (known: 2)"),
        ("4.4.0", {95: 1}, "it serves requests of the unknown key 95"),
    ],
)
def test_a_broker_is_newer_by_its_version_or_by_what_it_serves(
    version: str | None, beyond: dict[int, int], expected: str | None
) -> None:
    assert newer_than_known(version, beyond) == expected


def test_the_warning_says_what_was_found_and_what_to_do() -> None:
    told = newer_than_known("4.5.0", {API_KEYS["FETCH"]: 19, 95: 0, 96: 0, 97: 0, 98: 0})
    (sentence,) = newer_sentences(
        [{"broker_id": 7, "newer_than_known": told}, {"broker_id": 8, "newer_than_known": None}]
    )
    assert sentence == (
        "broker 7 is newer than Kafka 4.4, or no Apache Kafka: its version is 4.5.0; it serves "
        "FETCH up to version 19 (known: 18), requests of the unknown key 95, requests of the "
        "unknown key 96 and 2 more. How it decides is not known here, so its decisions are "
        "replayed but not judged (indeterminate, broker_not_known). Audit it again with a version "
        "of quota-audit that knows it"
    )
