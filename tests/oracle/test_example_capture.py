"""The committed capture is what its README says, and can be public."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.captured_logs import (
    LAYOUT,
    Logged,
    files,
    request_log,
    text,
    violations,
)
from tests.oracle.scenario import QUOTA_TYPES

CAPTURE = Path(__file__).resolve().parents[2] / "examples" / "capture"
SCENARIO = Path(__file__).parent / "scenarios" / "small.txt"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def requests() -> list[Logged]:
    return request_log(CAPTURE)


def test_the_folder_holds_what_every_capture_holds() -> None:
    assert files(CAPTURE) == LAYOUT


def test_it_was_made_from_the_scenario_that_make_capture_drives() -> None:
    assert text(CAPTURE / "scenario.txt") == SCENARIO.read_text()
    assert text(CAPTURE / "kafka-version.txt") == "4.1.0\n"


def test_the_files_are_small_enough_to_be_kept_in_the_repository() -> None:
    sizes = [(CAPTURE / name).stat().st_size for name in LAYOUT]
    assert sum(sizes) < 1.5 * MEGABYTE


@pytest.mark.parametrize("name", LAYOUT)
def test_no_file_names_a_folder_a_password_or_another_address(name: str) -> None:
    content = text(CAPTURE / name)
    assert not re.findall(r"(?:/(?:home|root|tmp|usr|var|work|Users)\b|password)[^\s\"]*", content)
    assert set(re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", content)) <= {"127.0.0.1"}
    assert set(re.findall(r'"host":"([^"]*)"', content)) <= {"127.0.0.1", ""}


def test_the_load_used_what_each_quota_type_touches(requests: list[Logged]) -> None:
    apis = Counter(request.api[0] for request in requests)
    mutations = ("CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS")
    for api in ("PRODUCE", "FETCH", "ALTER_CLIENT_QUOTAS", *mutations):
        assert apis[api] >= 10, api


def test_quotas_of_every_type_were_set(requests: list[Logged]) -> None:
    altered = [request.line for request in requests if request.api[0] == "ALTER_CLIENT_QUOTAS"]
    entries = [entry for line in altered for entry in line["request"]["entries"]]
    assert {op["key"] for entry in entries for op in entry["ops"]} == set(QUOTA_TYPES)


def test_every_throttle_that_a_broker_recorded_of_a_producer_is_in_its_request_log(
    requests: list[Logged],
) -> None:
    throttled = Counter(
        (request.broker, request.client[0])
        for request in requests
        if request.api[0] == "PRODUCE" and request.line["throttleTimeMs"] > 0
    )
    recorded: Counter[tuple[str, str]] = Counter()
    for (broker, quota_type, sensor), count in violations(CAPTURE).items():
        # Of erin's other requests, too, her request quota may have throttled some.
        if quota_type == "Produce":
            recorded[broker, sensor.partition(":")[0]] += count
    del throttled["broker=1", "erin"], throttled["broker=2", "erin"]
    assert throttled == recorded
    assert set(recorded) == {
        (broker, user) for broker in ("broker=1", "broker=2") for user in ("alice", "bob", "dave")
    }


def test_every_broker_throttled_by_bandwidth_and_request_quotas() -> None:
    by_type = {(broker, quota_type) for broker, quota_type, _ in violations(CAPTURE)}
    types = ("Produce", "Fetch", "Request")
    assert by_type == {(broker, one) for broker in ("broker=1", "broker=2") for one in types}


def test_the_controller_refused_strict_mutations_and_delayed_permissive_ones(
    requests: list[Logged],
) -> None:
    at_controller = [request for request in requests if request.line["isForwarded"]]
    refused = {request.client[0] for request in at_controller if request.was_refused}
    delayed = {
        request.client[0]
        for request in at_controller
        if not request.was_refused
        and request.api[0] in ("CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS")
        and request.line["response"]["throttleTimeMs"] > 0
    }
    assert refused == {"carol"}
    assert delayed == {"frank"}


def test_clients_far_below_their_quota_were_never_throttled(requests: list[Logged]) -> None:
    idle = [
        request.line["throttleTimeMs"]
        for request in requests
        if request.client[1] in ("metrics", "importer", "dashboard")
    ]
    assert len(idle) > 1000
    assert set(idle) == {0}
