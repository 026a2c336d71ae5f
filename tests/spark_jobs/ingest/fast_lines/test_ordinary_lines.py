"""Blocks of ordinary lines are read as line by line, to the last bit, and they are ordinary."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.ingest.fast_lines.line_layout import TABLED_APIS
from spark_jobs.ingest.fast_lines.ordinary_lines import read_ordinary
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.lines.line_time import LineClock
from spark_jobs.ingest.lines.record_time import ReplicaWaits
from spark_jobs.ingest.messages.message_definition import API_NAMES
from tests.builders.log_lines import log_line, message, text_line
from tests.spark_jobs.ingest.lines.both_readers import (
    CAPTURES,
    GOLDEN,
    assert_same,
    capture,
    name_of,
)
from tests.spark_jobs.ingest.messages.sent_messages import TEXTS, messages, versions

LEFT_TO_SINGLE_LINES = {
    b"CREATE_TOPICS", b"DELETE_TOPICS", b"CREATE_PARTITIONS", b"ALTER_CLIENT_QUOTAS",
}  # fmt: skip
"""What an administrator does now and then; their columns are lists of names and values."""
GOOD = log_line(message())
OTHER = b"[2026-11-21 02:40:48,000] INFO Updated connection (kafka.network.SocketServer)"
CRI = b"2026-11-21T02:40:47.903111222Z stdout "
REAL = [line for path in CAPTURES[::2] for line in capture(path).splitlines()[::97]]


def left(data: bytes) -> list[bytes]:
    """Return the lines of a block that are no ordinary ones."""
    found = read_ordinary(data, 1, {}, LineClock(dt.UTC), ReplicaWaits())
    assert found is not None
    lines = data.split(b"\n")
    return [lines[i] for i in found.left_lines]


@pytest.mark.parametrize("path", CAPTURES, ids=name_of)
def test_every_capture_is_read_as_line_by_line(path: Path) -> None:
    assert_same(capture(path), cuts=[7, 100, 101, 350])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
def test_the_lines_of_every_version_of_kafka_are_read_as_line_by_line(path: Path) -> None:
    assert_same(path.read_bytes())


@pytest.mark.parametrize("path", CAPTURES, ids=name_of)
def test_nearly_all_lines_are_ordinary_and_all_that_producers_and_consumers_send(
    path: Path,
) -> None:
    data = capture(path)
    kinds = Counter(_kind(line) for line in data.splitlines())
    left_kinds = Counter(_kind(line) for line in left(data))
    assert left_kinds.keys() <= LEFT_TO_SINGLE_LINES
    busy = sum(kinds.values()) - sum(kinds[kind] for kind in LEFT_TO_SINGLE_LINES)
    assert busy > 300
    assert left_kinds == {k: n for k, n in kinds.items() if k in LEFT_TO_SINGLE_LINES}


def _kind(line: bytes) -> bytes:
    found = re.search(rb'"requestApiKeyName":"(\w+)"', line)
    assert found is not None, line[:200]
    return found[1]


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key in TABLED_APIS for version in versions(API_NAMES[key])],
)
@settings(max_examples=25)
@given(st.data())
def test_every_version_of_a_message_is_ordinary_and_has_the_same_sizes(
    api_key: int, version: int, data: st.DataObject
) -> None:
    name = API_NAMES[api_key]
    body = message("PRODUCE", version)
    body["requestHeader"] |= {
        "requestApiKey": api_key,
        "requestApiKeyName": name.upper(),
        "clientId": data.draw(st.none() | TEXTS),
    }
    body["request"] = data.draw(messages(f"{name}Request", version))
    response = data.draw(messages(f"{name}Response", version))
    body["response"] = data.draw(st.sampled_from([response, response, response, None, ""]))
    line = _json_line(body)
    assert left(line) == []
    assert_same(line)


def _json_line(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return log_line(text) + b"\n"


SWAPS = [
    (rb":\d+", b":1.0"), (rb":\d+", b":1e3"), (rb":\d+", b":-0"), (rb":\d+", b":007"),
    (rb":\d+", b":NaN"), (rb":\d+", b":Infinity"), (rb":\d+", b":99999999999999999999999"),
    (rb":\d+", b":9223372036854775807"), (rb":\d+", b":-1"), (rb":\d+", b":null"),
    (rb":\d+", b":32768"), (rb":\d+", b":2147483648"), (rb":\d+", b":true"), (rb":\d+", b':"1"'),
    (rb":0\.\d+", b":0.0005"), (rb":0\.\d+", b":1.5E-4"), (rb":0\.\d+", b":99999999999.999"),
    (rb":0\.\d+", b":100000000000"), (rb":0\.\d+", b":100000000000.001"), (rb":0\.\d+", b":7."),
    (rb'"throttleTimeMs":\d+', b'"throttleTimeMs":2147483647'),
    (rb'"throttleTimeMs":\d+', b'"throttleTimeMs":null'),
    (rb'"throttleTimeMs":\d+', b'"throttleTimeMs":2147483648'),
    (rb'"throttleTimeMs":\d+', b'"throttleTimeMs":99999999999'),
    (rb'"throttleTimeMs":\d+', b'"throttle":0'),
    (rb'"throttleTimeMs":\d+(?:\.\d+)?,"resp', b'"throttleTimeMs":2147483647,"resp'),
    (rb'"throttleTimeMs":\d+(?:\.\d+)?,"resp', b'"throttleTimeMs":2147483647.5,"resp'),
    (rb'"throttleTimeMs":\d+(?:\.\d+)?,"resp', b'"throttleTimeMs":2147483648,"resp'),
    (rb'"errorCode":\d+,', b""),
    (rb'"response":\{.*\},"connection"', b'"response":"","connection"'),
    (rb'"response":\{.*\},"connection"', b'"response":null,"connection"'),
    (rb'"response":\{.*\},"connection"', b'"response":{},"connection"'),
    (rb'"response":\{.*\},"connection"', b'"response":[],"connection"'),
    (rb'"request":\{.*\},"response"', b'"request":{},"response"'),
    (rb'"recordsSizeInBytes":\d+', b'"records":null'), (rb'"index"', b'"partition"'),
    (rb'"acks":-?\d', b'"acks":-1'), (rb'"acks":-?\d', b'"acks":0'),
    (rb'"name":"[^"]*"', b'"name":""'), (rb'"clientId":"[^"]*"', b'"clientId":null'),
    (rb'"clientId":"[^"]*",', b""), (rb'"clientId":"[^"]*"', b'"clientId":"Completed request:"'),
    (rb'"clientId":"[^"]*"', '"clientId":"kafka-ünï-\U0001f600"'.encode()),
    (rb'"clientId":"[^"]*"', rb'"clientId":"a\"b\\c\u00e9\ud83d\ude00"'),
    (rb'"clientId":"[^"]*"', rb'"clientId":"\ud800"'), (rb'"clientId":"', b'"clientId":"\xff'),
    (rb'"clientId":"', b'"clientId":"\x00'), (rb'"clientId":"', b'"clientId":"}'),
    (rb'"principal":"User:', b'"principal":"User '), (rb'"principal":"User:', b'"principal":"U:a:'),
    (rb'"principal":"User:', b'"principal":"User:CN=a b,O=c, '), (rb":", b": "), (rb",", b" , "),
    (rb'"listener":"\w+"', b'"listener":null'), (rb'"isForwarded":false,', b""),
    (rb'"isForwarded":false', b'"isForwarded":true'),
    (rb'"isForwarded":', b'"unknown":1,"isForwarded":'),
    (rb'"correlationId":\d+', b'"correlationId":1,"correlationId":2'),
    (rb'"clientInformation":\{.*\}\}', b'"clientInformation":null}'),
    (rb',"clientInformation":\{.*\}\}',
    b',"temporaryMemoryBytes":12,"messageConversionsTime":0.3}'),
    (rb',"clientInformation":\{.*\}\}', b"}"), (rb'"softwareName":"[^"]*"', b'"softwareName":null'),
    (rb'"requestApiVersion":\d+', b'"requestApiVersion":63'),
    (rb'"requestApiVersion":\d+', b'"requestApiVersion":-1'),
    (rb'"requestApiVersion":\d+', b'"requestApiVersion":3'),
    (rb'"requestApiKey":\d+', b'"requestApiKey":3'),
    (rb'"requestApiKey":\d+', b'"requestApiKey":999'),
    (rb'"requestApiKey":\d+', b'"requestApiKey":-5'),
    (rb'"requestApiKey":\d+', b'"requestApiKey":20'),
    (rb"DEBUG", b"DEBUG [data-plane-kafka-request-handler-0]"), (rb"DEBUG", b"D" * 300),
    (rb"request:\{", b"request: {"), (rb"request:\{", b"request:  {"),
    (rb"DEBUG", b"Completed request: DEBUG"), (rb"\(kafka.request.logger\)$", b"{}"),
    (rb"\(kafka.request.logger\)$", b"(x) Completed request:{"), (rb"$", b"\r"), (rb"$", b"}"),
    (rb"^\[2026-11-21 ", b"[2026-11-21T"), (rb"^\[", b""), (rb",(\d\d\d)\]", b",<1>123]"),
    (rb",(\d\d\d)\]", b".<1>]"), (rb",(\d\d\d)\]", b",<1>+02:00]"), (rb"^\[2026-11-", b"[2026-13-"),
    (rb"^\[2026-11-21 \d\d", b"[2026-11-21 24"), (rb":\d\d,(\d\d\d)\]", b":60,<1>]"),
    (rb"^\[2026-", b"[0000-"), (rb"^.", b""), (rb"\{", b'{"a":{"throttleTimeMs":[1,{}]},'),
    (rb'"errorCode":\d+', b'"errorCode":-1'), (rb'"errorCode":\d+', b'"errorCode":87'),
]  # fmt: skip


def _filled(place: re.Match[bytes], text: bytes) -> bytes:
    for number, group in enumerate(place.groups(), start=1):
        text = text.replace(b"<%d>" % number, group)
    return text


@st.composite
def bent_lines(draw: st.DrawFn) -> bytes:
    """Draw a real line with a few things about it changed; bytes flipped, cut, or put in."""
    line = draw(st.sampled_from(REAL))
    for pattern, text in draw(st.lists(st.sampled_from(SWAPS), max_size=3)):
        places = list(re.finditer(pattern, line))
        if places:
            place = draw(st.sampled_from(places))
            line = line[: place.start()] + _filled(place, text) + line[place.end() :]
    harm = draw(st.integers(0, 9))
    at = draw(st.integers(0, max(0, len(line) - 1)))
    if harm == 0:
        line = line[:at]
    elif harm == 1:
        line = line[:at] + draw(st.sampled_from(REAL))
    elif harm == 2:
        line = line[:at] + draw(st.binary(max_size=4)) + line[at + 1 :]
    elif harm == 3:
        line = line[:at] + bytes([line[at] ^ 1 << draw(st.integers(0, 7))]) + line[at + 1 :]
    return line


LINES = bent_lines() | st.sampled_from(
    [*REAL, GOOD, OTHER, b"", b"\tat java.base/x", b"?", text_line(), CRI + b"F " + GOOD,
     CRI + b"P " + GOOD[:99], CRI + b"F " + GOOD[99:]]
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(LINES, max_size=12), st.lists(st.integers(0, 12), max_size=3), st.booleans())
def test_whatever_the_lines_are_they_are_read_as_line_by_line(
    lines: list[bytes], cuts: list[int], ends: bool
) -> None:
    assert_same(b"\n".join(lines) + (b"\n" if ends else b""), cuts)


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: f"{swap[0]!r} to {swap[1]!r}")
def test_each_change_of_a_line_is_read_as_line_by_line(swap: tuple[bytes, bytes]) -> None:
    for line in (GOOD, *REAL[::5]):
        for count in (1, 0):
            assert_same(re.sub(swap[0], lambda place: _filled(place, swap[1]), line, count=count))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]), st.integers(0, 900), st.sampled_from([-1, -1, 1]),
            st.booleans(),
        ),
        min_size=10,
        max_size=90,
    ),
    st.lists(st.integers(0, 90), max_size=3),
)  # fmt: skip
def test_which_topics_wait_for_replicas_is_learned_in_the_order_of_the_lines(
    sent: list[tuple[str, int, int, bool]], cuts: list[int]
) -> None:
    lines = []
    for topic, remote_us, acks, is_ordinary in sent:
        part = {"partitionData": [{"index": 0, "recordsSizeInBytes": 1}]}
        request = {"transactionalId": None, "acks": acks, "timeoutMs": 1}
        topics = [{"name": topic} | part, {"name": "d"} | part, {"name": topic} | part]
        body = message(request=request | {"topicData": topics}, remoteTimeMs=remote_us / 1000)
        line = log_line(body)
        lines.append(line if is_ordinary else line.replace(b'"acks"', b' "acks"'))
    assert_same(b"\n".join(lines) + b"\n", cuts)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@settings(max_examples=60)
@given(st.data())
def test_the_repeated_and_the_skipped_hour_are_read_as_line_by_line(
    zone: str, data: st.DataObject
) -> None:
    begins = {
        "Europe/Berlin": ["2026-10-25 01:40", "2026-03-29 01:40"],
        "America/New_York": ["2026-11-01 00:40", "2026-03-08 01:40"],
        "Australia/Lord_Howe": ["2026-04-05 01:10", "2026-10-04 01:40"],
    }[zone]
    minutes = data.draw(st.lists(st.integers(0, 180), min_size=1, max_size=14))
    if data.draw(st.booleans()):
        minutes.sort()
    begin = dt.datetime.fromisoformat(data.draw(st.sampled_from(begins)))
    stamps = [(begin + dt.timedelta(minutes=m)).isoformat(" ") + ",250" for m in minutes]
    lines = [log_line(message(), stamp) for stamp in stamps]
    cuts = data.draw(st.lists(st.integers(0, 14), max_size=3))
    assert_same(b"\n".join(lines), cuts, LogOptions(zone, None, {}))


def test_a_blank_behind_the_marker_changes_nothing() -> None:
    spaced = GOOD.replace(b"request:{", b"request: {")
    assert spaced != GOOD
    assert left(spaced + b"\n") == []
    assert assert_same(spaced + b"\n").requests.equals(assert_same(GOOD + b"\n").requests)


def test_brokers_are_told_by_their_listeners_as_line_by_line() -> None:
    elsewhere = log_line(message(connection="10.0.0.1:9092-10.0.0.2:5000-0"))
    data = b"\n".join([GOOD, elsewhere, GOOD])
    both = {"127.0.0.1:9092": 4, "10.0.0.1:9092": 7}
    for known in (both, {"127.0.0.1:9092": 4}, {}):
        options = LogOptions("UTC", None, known)
        found = assert_same(data, options=options, broker_id=None)
        assert len(found.quarantine) == 3 - sum(a in known for a in [*both, "127.0.0.1:9092"])


def test_a_block_of_many_names_is_read_as_line_by_line() -> None:
    names = [f"client-{number}" for number in range(6000)]
    lines = [log_line(message(client_id=name, correlationId=1)) for name in names]
    found = assert_same(b"\n".join(lines) + b"\n")
    assert found.requests["client_id"].to_pylist() == names


@given(st.integers(0, 10**14))
def test_every_time_a_line_may_have_is_exact(microseconds: int) -> None:
    whole, part = divmod(microseconds, 1000)
    text = f"{whole}.{part:03}"
    assert round(float(text) * 1000) == microseconds
    line = GOOD.replace(b'"sendTimeMs":0.045', f'"sendTimeMs":{text}'.encode())
    assert left(line + b"\n") == []
    assert_same(line)
