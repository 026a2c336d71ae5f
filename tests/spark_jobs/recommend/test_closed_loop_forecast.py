"""A day's throttled clients under other values, against the same clients had they had them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from spark_jobs.recommend.closed_loop_forecast import closed_loop_forecast
from spark_jobs.recommend.weigh.forecast import (
    ClosedLoopForecasts,
    ClosedLoopRequest,
    throttle_time_of,
)
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, write_rows
from tests.spark_jobs.recommend.day import fetches, produces, steady

PRODUCED, READ = "producer_byte_rate", "consumer_byte_rate"
ALICE, READER = (PRODUCED, "alice", ""), (READ, "bob", "reader")
TIGHT, WANTED, SECONDS = 50_000.0, 200_000.0, 90
EVERYTHING = 10**6


def request_of(decision: Row) -> Row:
    """Return the request that a decision is about; a throttled fetch brought nothing."""
    is_fetch = decision["api_name"] == "FETCH"
    served = 0 if decision["is_unrecorded"] else round(decision["amount"])
    return row(
        "requests",
        **{name: decision[name] for name in ("broker_id", "user", "client_id", "source_line")},
        source_file=decision["source_file"],
        connection=decision["connection"],
        log_time_ms=decision["recorded_at_ms"] + 1,
        recorded_estimate_us=decision["recorded_at_ms"] * 1000,
        api_name=decision["api_name"],
        api_key=1 if is_fetch else 0,
        acks=None if is_fetch else 1,
        request_bytes=60 if is_fetch else served,
        response_bytes=served if is_fetch else 60,
        total_time_us=1_000,
        request_queue_time_us=0,
        handler_time_us=1_000,
        remote_time_us=0,
        response_queue_time_us=0,
        send_time_us=0,
        throttle_time_ms=decision["logged_throttle_time_ms"],
        topics=[{"topic": "orders", "records_bytes": served}],
    )


def alice(bound: float) -> list[Row]:
    """A producer that begins slowly, then wants four times what it may, waits, and is stopped."""
    recorded = steady(TIGHT / 2, 20) + steady(WANTED, SECONDS, from_ms=20_000)
    end_ms = NOON_MS + (20 + SECONDS) * 1000
    return [r for r in produces(recorded, bound, waits=True) if r["recorded_at_ms"] < end_ms]


def reader(bound: float) -> list[Row]:
    key = {"quota_user": "bob", "quota_client_id": "reader", "user": "bob", "client_id": "reader"}
    rows = fetches(
        steady(80_000.0, 60, per_second=5), bound, **key,
        connection="127.0.0.1:9092-127.0.0.1:50001-1", quota_level="user+client-id",
    )  # fmt: skip
    return [r | {"source_line": 10_000 + r["source_line"]} for r in rows]


def replayed_ms(rows: list[Row]) -> int:
    return sum(r["replayed_throttle_time_ms"] for r in rows)


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    scope = scope_in(tmp_path)
    decisions = alice(TIGHT) + reader(60_000.0)
    write_rows(scope, "decisions", decisions)
    write_rows(scope, "requests", [request_of(d) for d in decisions])
    write_rows(scope, "brokers", [row("brokers", broker_id=1)])
    values = [
        row("quota_changes", bound=TIGHT),
        row("quota_changes", quota_type=READ, quota_user="bob", quota_client_id="reader",
            bound=60_000.0),
    ]  # fmt: skip
    changes = dataclasses.replace(scope).partition_dir("quota_changes")
    assert "date=" not in str(changes), "the timeline is the cluster's"
    write_rows(scope, "quota_changes", values)
    return scope


def forecast(
    scope: RunScope, values: dict[tuple[str, str | None, str | None], float | None],
    requests_max: int = EVERYTHING,
) -> ClosedLoopForecasts | None:  # fmt: skip
    both = frozenset([ALICE, READER])
    return closed_loop_forecast(scope, ClosedLoopRequest(values, both, both), requests_max)


def test_under_the_day_s_values_clients_are_throttled_as_they_were(scope: RunScope) -> None:
    found = forecast(scope, {})
    assert found is not None
    for key, rows in ((ALICE, alice(TIGHT)), (READER, reader(60_000.0))):
        assert replayed_ms(rows) > 10_000
        assert throttle_time_of(found.before, key) == pytest.approx(replayed_ms(rows), rel=0.01)
        assert found.after[key] == found.before[key]


def test_a_producer_that_gets_half_of_what_it_wants_is_throttled_for_the_rest(
    scope: RunScope,
) -> None:
    found = forecast(scope, {(PRODUCED, "alice", None): 2 * TIGHT})
    assert found is not None
    truth = replayed_ms(alice(2 * TIGHT))
    assert truth > 10_000
    assert throttle_time_of(found.after, ALICE) == pytest.approx(truth, rel=0.1)
    assert found.after[READER] == found.before[READER]


def test_with_what_it_wants_nobody_is_throttled(scope: RunScope) -> None:
    found = forecast(
        scope, {(PRODUCED, "alice", None): 2 * WANTED, (READ, "bob", "reader"): 200_000.0}
    )
    assert found is not None
    assert found.after == {}


def test_a_new_override_takes_its_client_out_of_the_shared_bucket(scope: RunScope) -> None:
    found = forecast(scope, {(PRODUCED, "alice", "app"): 2 * WANTED})
    assert found is not None
    assert ALICE in found.before
    assert ALICE not in found.after


def test_more_requests_than_allowed_are_not_replayed(scope: RunScope) -> None:
    requests = len(alice(TIGHT)) + len(reader(60_000.0))
    assert forecast(scope, {}, requests) is not None
    assert forecast(scope, {}, requests - 1) is None
