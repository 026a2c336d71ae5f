from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.ingest.quota_sources.logged_alterations import APPLIED_WITHIN_MS, logged_alterations


def alteration(
    bound: float | None = 100.0, quota_type: str = "producer_byte_rate"
) -> dict[str, Any]:
    return {
        "quota_type": quota_type,
        "quota_user": "alice",
        "quota_client_id": None,
        "bound": bound,
    }


def request(log_time_ms: int = 1_000, **fields: Any) -> dict[str, Any]:
    return {
        "quota_alterations": [alteration()],
        "client_id": "admin",
        "correlation_id": 7,
        "is_forwarded": False,
        "log_time_ms": log_time_ms,
        "remote_time_us": 30_000,
        "response_queue_time_us": 400,
        "send_time_us": 600,
        "source_file": "broker=1/kafka-request.log",
        "source_line": log_time_ms,
        **fields,
    }


def test_a_change_took_effect_between_its_commit_and_shortly_after_the_answer() -> None:
    (event,) = logged_alterations([request()])
    assert (event.earliest_ms, event.latest_ms) == (969, 999 + APPLIED_WITHIN_MS)
    assert (event.bound, event.broker_id, event.source) == (100.0, None, "log")


def test_a_forwarded_request_counts_once_with_the_controllers_times() -> None:
    received = request(1_010, source_file="broker=2/kafka-request.log")
    forwarded = request(1_000, is_forwarded=True)
    assert logged_alterations([received, forwarded]) == logged_alterations([forwarded])


def test_a_request_whose_controller_logged_nothing_counts_by_the_brokers_line() -> None:
    assert len(logged_alterations([request()])) == 1


def test_later_requests_of_the_same_number_are_other_requests() -> None:
    rows = [request(1_000, is_forwarded=True), request(60_000)]
    assert [e.latest_ms for e in logged_alterations(rows)] == [1_049, 60_049]


@pytest.mark.parametrize(
    "fields",
    [
        {"validate_only": True},
        {"error_codes": [42]},
        {"error_codes": [42, 29]},
        {"quota_alterations": []},
        {"quota_alterations": [alteration(quota_type="connection_creation_rate")]},
    ],
)
def test_what_was_refused_or_is_no_client_quota_changes_nothing(fields: dict[str, Any]) -> None:
    assert logged_alterations([request(**fields)]) == []


@pytest.mark.parametrize("error_codes", [None, [], [0], [0, 42]])
def test_a_request_that_was_not_refused_as_a_whole_counts(error_codes: list[int] | None) -> None:
    assert len(logged_alterations([request(error_codes=error_codes)])) == 1


def test_every_change_of_a_request_is_an_event_and_a_removal_has_no_bound() -> None:
    both = [alteration(), alteration(None, "consumer_byte_rate")]
    events = logged_alterations([request(quota_alterations=both)])
    assert [(e.quota_type, e.bound) for e in events] == [
        ("producer_byte_rate", 100.0),
        ("consumer_byte_rate", None),
    ]
