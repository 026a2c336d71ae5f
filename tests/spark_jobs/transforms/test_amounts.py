"""Which amounts a request puts on which sensors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD
from spark_jobs.transforms.amounts import expand_amounts
from tests.spark_jobs.transforms.request_rows import quota, requests, resolutions
from tests.tables_builder import NOON_MS

FETCH = {"api_key": 1, "api_name": "FETCH", "response_bytes": 5_000}
CONSUMER = {"quota_type": "consumer_byte_rate"}
REQUEST = {"quota_type": "request_percentage"}


def amounts(rows: list[dict[str, Any]], *quotas: dict[str, Any]) -> list[dict[str, Any]]:
    batches = expand_amounts(resolutions(*quotas), frozenset({"CONTROLLER"}))
    return [a for batch in batches(iter([requests(*rows)])) for a in batch.to_pylist()]


def test_a_produce_is_recorded_with_its_whole_size_on_the_users_sensor() -> None:
    (found,) = amounts([{"request_bytes": 1234}], quota(5e4))
    assert (found["quota_type"], found["amount"]) == ("producer_byte_rate", 1234.0)
    assert (found["quota_user"], found["quota_client_id"]) == ("alice", "")
    assert (found["quota_level"], found["bound"]) == ("user", 5e4)
    assert found["behaviour"] == RECORD
    assert found["recorded_at_ms"] == NOON_MS + 2


def test_nothing_is_recorded_before_the_first_quota_of_a_type() -> None:
    early = {"recorded_estimate_us": (NOON_MS - 1) * 1000}
    assert amounts([early], quota(5e4)) == []
    assert amounts([FETCH], quota(5e4)) == []


def test_a_client_without_a_quota_is_recorded_without_a_bound() -> None:
    (found,) = amounts([{"user": "bob"}], quota(5e4))
    assert math.isnan(found["bound"])
    assert found["quota_level"] is None
    assert (found["quota_user"], found["quota_client_id"]) == ("bob", "")


def test_a_throttled_fetch_was_taken_back_and_its_size_is_not_in_the_log() -> None:
    read, throttled = amounts(
        [FETCH, FETCH | {"throttle_time_ms": 80, "response_bytes": 40}], quota(5e4, **CONSUMER)
    )
    assert (read["amount"], read["behaviour"]) == (5_000.0, RECORD)
    assert math.isnan(throttled["amount"])
    assert throttled["behaviour"] == RECORD_AND_UNRECORD


@pytest.mark.parametrize(
    ("codes", "expected"), [([0], False), ([], False), (None, False), ([0, 74], True)]
)
def test_a_fetch_says_whether_a_partition_was_not_served(
    codes: list[int] | None, expected: bool
) -> None:
    rows = [FETCH | {"error_codes": [6]}, FETCH | {"error_codes": codes}]
    first, second = amounts(rows, quota(5e4, **CONSUMER))
    assert (first["has_errors"], second["has_errors"]) == (True, expected)


@pytest.mark.parametrize(
    "of_a_broker",
    [{"is_replica": True}, {"is_forwarded": True}, {"listener": "CONTROLLER"}],
    ids=["follower", "forwarded", "controller listener"],
)
def test_what_brokers_ask_of_each_other_is_exempt(of_a_broker: dict[str, Any]) -> None:
    assert amounts([FETCH | of_a_broker], quota(5e4, **CONSUMER), quota(10.0, **REQUEST)) == []


def test_handler_time_counts_in_percent_of_a_second() -> None:
    (found,) = amounts([{"api_name": "METADATA", "handler_time_us": 2_500}], quota(10.0, **REQUEST))
    assert found["quota_type"] == "request_percentage"
    assert found["amount"] == 2_500 * 1000 * 1e-7


def test_a_produce_without_acks_takes_no_request_time() -> None:
    found = amounts([{"acks": 0}], quota(5e4), quota(10.0, **REQUEST))
    assert [a["quota_type"] for a in found] == ["producer_byte_rate"]


def test_a_request_quota_that_is_in_force_too_is_told() -> None:
    found = amounts([{}, {"user": "bob"}], quota(5e4), quota(10.0, **REQUEST))
    told = {(a["user"], a["quota_type"]): a["has_request_bound"] for a in found}
    assert told["alice", "producer_byte_rate"]
    assert not told["bob", "producer_byte_rate"]


def test_an_unknown_size_stays_unknown() -> None:
    (found,) = amounts([{"request_bytes": None, "request_bytes_known": False}], quota(5e4))
    assert math.isnan(found["amount"])


def test_the_sensors_past_is_known_from_the_logs_begin_at_the_earliest() -> None:
    batches = expand_amounts(
        resolutions(quota(5e4, valid_from_ms=0), log_starts_ms=NOON_MS), frozenset()
    )
    (batch,) = [b for b in batches(iter([requests({})])) if len(b)]
    assert batch["known_for_ms"].to_pylist() == [2]


def test_the_distance_to_the_next_or_last_change_is_told() -> None:
    quotas = (
        quota(5e4, valid_until_ms=NOON_MS + 10),
        quota(7e4, valid_from_ms=NOON_MS + 10),
    )
    at = [{"recorded_estimate_us": (NOON_MS + ms) * 1000} for ms in (3, 8, 14)]
    found = amounts(at, *quotas)
    assert [a["change_distance_ms"] for a in found] == [3, 2, 4]
    assert [a["bound"] for a in found] == [5e4, 5e4, 7e4]
