"""Which amounts of time a request puts on which sensors of the request quota."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.quota.rate_decision import RECORD
from spark_jobs.replay.sensors.amounts import expand_request_times
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.request_rows import quota, requests, resolutions

REQUEST = {"quota_type": "request_percentage"}


def amounts(rows: list[dict[str, Any]], *quotas: dict[str, Any]) -> list[dict[str, Any]]:
    batches = expand_request_times(resolutions(*quotas), frozenset({"CONTROLLER"}))
    return [a for batch in batches(iter([requests(*rows)])) for a in batch.to_pylist()]


@pytest.mark.parametrize(
    "of_a_broker",
    [
        {"is_replica": True},
        {"is_forwarded": True},
        {"listener": "CONTROLLER"},
        {"api_name": "ALTER_PARTITION"},
    ],
    ids=["follower", "forwarded", "controller listener", "exempt"],
)
def test_what_brokers_ask_of_each_other_is_exempt(of_a_broker: dict[str, Any]) -> None:
    assert amounts([of_a_broker], quota(10.0, **REQUEST)) == []


def test_handler_time_counts_in_percent_of_a_second() -> None:
    (found,) = amounts([{"api_name": "METADATA", "handler_time_us": 2_500}], quota(10.0, **REQUEST))
    assert (found["quota_type"], found["quota_user"]) == ("request_percentage", "alice")
    assert found["amount"] == 2_500 * 1000 * 1e-7
    assert (found["behaviour"], found["bound"], found["has_request_bound"]) == (RECORD, 10.0, True)


def test_a_produce_without_acks_takes_no_request_time() -> None:
    assert amounts([{"acks": 0}], quota(10.0, **REQUEST)) == []


def test_nothing_is_recorded_before_the_first_request_quota() -> None:
    early = {"recorded_estimate_us": (NOON_MS - 1) * 1000}
    assert amounts([early], quota(10.0, **REQUEST)) == []
    assert amounts([{}], quota(5e4)) == []
