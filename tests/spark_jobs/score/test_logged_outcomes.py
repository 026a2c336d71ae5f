"""Lines of a request log → what a score compares with."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.score.logged_outcomes import LoggedOutcomes, QuotaChange, read_outcomes

CONNECTION = "127.0.0.1:9092-127.0.0.1:50000-0-1"
LINE_MS = 1_700_000_000_000


def line(
    api: str, request: dict[str, Any], response: Any, correlation_id: int = 7, **more: Any
) -> bytes:
    body = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKeyName": api,
            "correlationId": correlation_id,
            "clientId": "app",
        },
        "request": request,
        "response": response,
        "connection": CONNECTION,
        "principal": "User:alice",
        "throttleTimeMs": 0,
        "localTimeMs": 2.5,
        "remoteTimeMs": 4.0,
        "responseQueueTimeMs": 0.25,
        "sendTimeMs": 0.75,
        **more,
    }
    stamp = dt.datetime.fromtimestamp(LINE_MS / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S,000")
    return f"[{stamp}] DEBUG Completed request:{json.dumps(body)} (kafka.request.logger)".encode()


def outcomes(*lines: bytes) -> LoggedOutcomes:
    logged = LoggedOutcomes()
    read_outcomes(lines, 1, dt.UTC, logged)
    return logged


def quota(quota_type: str, *, removes: bool = False, **entity: str | None) -> bytes:
    parts = [{"entityType": k.replace("_", "-"), "entityName": v} for k, v in entity.items()]
    op = {"key": quota_type, "value": 1.0, "remove": removes}
    entries = [{"entity": parts, "ops": [op]}]
    return line("ALTER_CLIENT_QUOTAS", {"entries": entries}, {}, 1)


def topics(*results: tuple[str, int]) -> dict[str, Any]:
    return {"topics": [{"name": name, "errorCode": code} for name, code in results]}


def test_a_blank_behind_the_marker_changes_nothing() -> None:
    produce = line("PRODUCE", {}, {})
    assert outcomes(produce).produces
    spaced = produce.replace(b"request:{", b"request: {")
    assert outcomes(spaced).produces == outcomes(produce).produces


def test_a_produce_may_have_been_recorded_from_its_handler_to_its_completed_response() -> None:
    logged = outcomes(line("PRODUCE", {}, {"throttleTimeMs": 3}, throttleTimeMs=3))
    (key,), (produce,) = logged.produces.keys(), logged.produces.values()
    assert key == (1, CONNECTION, 7, None)
    assert produce.throttle_time_ms == 3
    assert produce.completed_ms == LINE_MS - 1.0
    assert produce.earliest_ms == LINE_MS - 1.0 - 6.5 - 2.5
    assert produce.latest_ms == LINE_MS - 1.0 + 2.5
    assert produce.entities == {("user", "alice"), ("client-id", "app")}


def test_a_produce_without_a_response_counts_too() -> None:
    assert len(outcomes(line("PRODUCE", {}, "", throttleTimeMs=9)).produces) == 1


def test_forwarded_mutations_hide_their_twins_on_the_broker() -> None:
    twin = line("CREATE_TOPICS", {}, topics(("a", 0), ("b", 89)))
    decided = line("CREATE_TOPICS", {}, topics(("a", 0), ("b", 89)), 8, isForwarded=True)
    assert set(outcomes(twin).mutations) == {(1, CONNECTION, 7, "a"), (1, CONNECTION, 7, "b")}
    both = outcomes(twin, decided).mutations
    assert {(key[2], key[3]): one.is_admitted for key, one in both.items()} == {
        (8, "a"): True,
        (8, "b"): False,
    }


def test_topics_that_failed_for_another_reason_were_never_decided() -> None:
    assert outcomes(line("CREATE_TOPICS", {}, topics(("a", 36)))).mutations == {}


@pytest.mark.parametrize(
    ("entity", "is_spared"),
    [
        ({"user": "alice"}, True),
        ({"client_id": "app"}, True),
        ({"user": None}, True),
        ({"user": "bob"}, False),
        ({"user": "bob", "client_id": None}, False),
    ],
)
def test_a_request_quota_spares_whom_it_names(
    entity: dict[str, str | None], is_spared: bool
) -> None:
    logged = outcomes(quota("request_percentage", **entity), line("PRODUCE", {}, {}))
    (produce,) = logged.produces.values()
    assert logged.is_spared(produce) is is_spared


def test_decisions_are_due_from_a_moment_after_the_first_quota_of_their_type() -> None:
    produce = line("PRODUCE", {}, {}, sendTimeMs=0)
    logged = outcomes(quota("producer_byte_rate", user="alice"), produce)
    assert list(logged.due_decisions(apart_ms=0.0)) == [(1, CONNECTION, 7, None)]
    assert list(logged.due_decisions(apart_ms=5.0)) == []
    assert list(outcomes(quota("consumer_byte_rate", user="a"), produce).due_decisions(0.0)) == []


def test_no_decision_is_due_once_the_last_quota_of_its_type_is_removed() -> None:
    logged = outcomes(line("PRODUCE", {}, {}, sendTimeMs=0))

    def change(before_ms: float, user: str, *, is_set: bool) -> None:
        at_ms = LINE_MS - before_ms
        one = QuotaChange(at_ms, frozenset({("user", user)}), is_set)
        logged.take_quota("producer_byte_rate", one)

    change(90, "alice", is_set=True)
    change(20, "alice", is_set=False)
    assert list(logged.due_decisions(apart_ms=0.0)) == []
    change(50, "bob", is_set=True)
    assert len(list(logged.due_decisions(apart_ms=0.0))) == 1


def test_a_line_that_removes_the_last_quota_ends_what_is_due() -> None:
    both = [
        quota("producer_byte_rate", user="a"),
        quota("producer_byte_rate", user="a", removes=True),
    ]
    produce = line("PRODUCE", {}, {}, sendTimeMs=0)
    assert list(outcomes(both[0], produce).due_decisions(0.0))
    assert not list(outcomes(*both, produce).due_decisions(0.0))


@pytest.mark.parametrize(
    ("quota_type", "after_ms", "is_due"),
    [
        ("producer_byte_rate", 900, True),
        ("producer_byte_rate", 1_100, False),
        ("consumer_byte_rate", 1_100, True),
    ],
)
def test_no_decision_is_due_before_the_broker_s_own_log_tells_of_a_quota(
    quota_type: str, after_ms: int, *, is_due: bool
) -> None:
    produce = line("PRODUCE", {}, {}, sendTimeMs=-1_000)
    logged = outcomes(quota("producer_byte_rate", user="alice"), produce)
    own = event(quota_type, LINE_MS + after_ms, "alice", None, "server_log")
    logged.take_known_quotas([own, {**own, "broker_id": 2, "latest_ms": LINE_MS + 1_100}])
    assert bool(list(logged.due_decisions(apart_ms=5.0))) == is_due


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"java.io.IOException: PRODUCE",
        line("PRODUCE", {}, {})[:-60],
        line("PRODUCE", {}, {}).replace(b"[2023-11-14", b"[2023-13-14"),
        line("FETCH", {}, {}),
    ],
)
def test_lines_of_no_use_are_passed_over(text: bytes) -> None:
    assert outcomes(text) == LoggedOutcomes()


TEXT = (
    b"[2023-11-14 22:13:20,000] DEBUG Completed request:RequestHeader(apiKey=PRODUCE, apiVersion=8,"
    b" clientId=my app, correlationId=7) -- {acks=-1,timeout=30000,numPartitions=1},"
    b"response:{responses=[],throttle_time_ms=3} from connection 127.0.0.1:9092-127.0.0.1:50000-1;"
    b"totalTime:9.5,requestQueueTime:1.0,localTime:2.5,remoteTime:4.0,throttleTime:0.113,"
    b"responseQueueTime:0.25,sendTime:0.75,securityProtocol:SASL_PLAINTEXT,"
    b"principal:User:alice,listener:SASL_PLAINTEXT (kafka.request.logger)"
)


def test_a_line_of_text_gives_the_same_as_one_of_json() -> None:
    ((key, produce),) = outcomes(TEXT).produces.items()
    assert key == (1, "127.0.0.1:9092-127.0.0.1:50000-1", 7, None)
    (of_json,) = outcomes(line("PRODUCE", {}, {}, throttleTimeMs=3)).produces.values()
    entities = frozenset({("user", "alice"), ("client-id", "my app")})
    assert produce == replace(of_json, entities=entities)


def test_a_line_of_text_without_a_throttle_of_its_own_compares_with_nothing() -> None:
    assert outcomes(TEXT.replace(b"{responses=[],throttle_time_ms=3}", b"null")).produces == {}


def event(
    quota_type: str, at_ms: int, user: str | None, client_id: str | None, source: str = "journal"
) -> dict[str, Any]:
    return {
        "quota_type": quota_type,
        "broker_id": 1 if source == "server_log" else None,
        "source": source,
        "earliest_ms": at_ms,
        "latest_ms": at_ms,
        "bound": 1.0,
        "quota_user": user,
        "quota_client_id": client_id,
    }


def test_quotas_known_from_elsewhere_count_where_no_line_sets_one() -> None:
    events = [
        event("producer_byte_rate", LINE_MS - 50, "alice", None),
        event("producer_byte_rate", LINE_MS - 90, "bob", None),
        event("request_percentage", LINE_MS, None, "app"),
    ]
    from_elsewhere = outcomes(line("PRODUCE", {}, {}))
    from_elsewhere.take_known_quotas(events)
    produces = from_elsewhere.quota_changes["producer_byte_rate"]
    assert sorted(change.at_ms for change in produces) == [LINE_MS - 90, LINE_MS - 50]
    assert all(from_elsewhere.is_spared(one) for one in from_elsewhere.produces.values())
    from_lines = outcomes(quota("consumer_byte_rate", user="alice"))
    from_lines.take_known_quotas(events)
    assert set(from_lines.quota_changes) == {"consumer_byte_rate"}


def test_a_request_quota_of_a_default_spares_everyone() -> None:
    logged = outcomes(line("PRODUCE", {}, {}))
    logged.take_known_quotas([event("request_percentage", 0, "<default>", None)])
    assert logged.has_request_quota_for_all
