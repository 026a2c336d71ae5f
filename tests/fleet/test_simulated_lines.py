"""The lines of simulated brokers: what the simulator printed is what a reader of logs finds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fleet.simulated_lines import ClientName, alteration_line, read_row, request_line
from tests.fleet.simulated_plan import Entity, QuotaChange

BASE_MS = 1_795_168_800_000
STAMPS = "1000000 1250999 1500000 1700000 1800000 2000000 2300000"


def body_of(
    kind: str, described: str, throttle: str = "0 0", *, is_forwarded: bool = False
) -> dict[str, Any]:
    words = f"7 {kind} 1.2.3.4:9092-1.2.3.4:5-6 41 {STAMPS} {throttle} 1795168800002 {described}"
    row = read_row(words.replace(" ", "\t"))
    line = request_line(row, ClientName("alice", "web"), BASE_MS, is_forwarded=is_forwarded)
    text = line.decode()
    assert text.startswith("[2026-11-20 10:00:00,002] DEBUG Completed request:{")
    assert text.endswith("} (kafka.request.logger)\n")
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def test_phases_are_cut_to_microseconds_as_kafka_cuts_them() -> None:
    body = body_of("produce", "1 orders 2 700 790")
    assert (body["requestQueueTimeMs"], body["localTimeMs"]) == (0.25, 0.249)
    assert (body["remoteTimeMs"], body["responseQueueTimeMs"]) == (0.2, 0.1)
    assert (body["sendTimeMs"], body["totalTimeMs"]) == (0.2, 1.0)
    assert (body["principal"], body["requestHeader"]["clientId"]) == ("User:alice", "web")


def test_a_produce_without_acks_has_no_response() -> None:
    body = body_of("produce", "0 orders 2 700 790", "35 0")
    assert (body["response"], body["throttleTimeMs"]) == ("", 35)


def test_a_throttled_fetch_is_answered_empty_and_tells_its_position() -> None:
    body = body_of("fetch", "feed 12 5000 5064 40 65536", "35 35")
    assert body["response"]["responses"] == []
    assert body["response"]["throttleTimeMs"] == body["throttleTimeMs"] == 35
    part = body["request"]["topics"][0]["partitions"][0]
    assert (part["fetchOffset"], part["partitionMaxBytes"]) == (12, 65536)
    answered = body_of("fetch", "feed 12 5000 5064 40 65536")["response"]["responses"]
    assert answered[0]["partitions"][0]["recordsSizeInBytes"] == 5000


@pytest.mark.parametrize(
    ("kind", "versions", "topics"),
    [("create", (7, 5), "topics"), ("delete", (6, 4), "responses"), ("extend", (3, 2), "results")],
)
def test_mutations_tell_the_error_of_every_topic(
    kind: str, versions: tuple[int, int], topics: str
) -> None:
    for mode, version in zip(("strict", "permissive"), versions, strict=True):
        body = body_of(kind, f"{mode} a,3,0;b,2,89", "0 120", is_forwarded=True)
        assert body["requestHeader"]["requestApiVersion"] == version
        assert [one["errorCode"] for one in body["response"][topics]] == [0, 89]
        assert (body["response"]["throttleTimeMs"], body["throttleTimeMs"]) == (120, 0)
        assert (body["isForwarded"], body["listener"]) == (True, "CONTROLLER")


@pytest.mark.parametrize(("bound", "is_removed"), [(4096.0, False), (None, True)])
def test_a_quota_change_names_its_entity(bound: float | None, is_removed: bool) -> None:
    change = QuotaChange(5_000_000, 5_010_000, "producer_byte_rate", Entity("*", "=web"), bound)
    stamped_ns, line = alteration_line(change, 3, "quotas-1", BASE_MS, "a-b-1", is_forwarded=False)
    assert stamped_ns > 5_000_000_000
    assert line.startswith(b"[2026-11-20 10:00:05,000]")
    body = json.loads(line[line.index(b"{") : line.rindex(b"}") + 1])
    entry = body["request"]["entries"][0]
    assert [part["entityName"] for part in entry["entity"]] == [None, "web"]
    operation = {"key": "producer_byte_rate", "value": bound or 0.0, "remove": is_removed}
    assert entry["ops"] == [operation]
