from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quota_pages.addresses import Addresses, entity_id
from quota_pages.entity_page import (
    PANELS_MAX,
    EntityQuery,
    chart_of,
    entity_page,
    entity_view,
    table_rows,
)
from quota_pages.history import DAY_MS
from quota_pages.page import Place
from spark_jobs.judge.judge_decisions import roll_up_rates
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, NOON_MS, row, scope_in, write_rows

ALICE = entity_id("alice", "")
PLACE = Place(Addresses("/quota-audit"), "east", DAY, "entities")
HELD = {"throttled_requests": 1, "throttle_time_ms": 50}


def second(after_s: int, **columns: Any) -> dict[str, Any]:
    return row("rates", second_ms=NOON_MS + after_s * 1000, **columns)


def throttled(after_s: int, broker_id: int = 1, throttle_time_ms: int = 50) -> dict[str, Any]:
    return row(
        "decisions", broker_id=broker_id, recorded_at_ms=NOON_MS + after_s * 1000,
        logged_throttle_time_ms=throttle_time_ms, replayed_throttle_time_ms=throttle_time_ms,
        source_line=after_s + 1, sensor_seq=after_s - 2,
    )  # fmt: skip


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "brokers", [row("brokers", broker_id=b) for b in range(1, 10)])
    return scope


def write(scope: RunScope, rates: list[dict], decisions: list[dict]) -> None:
    write_rows(scope, "rates", rates)
    write_rows(scope, "decisions", decisions)
    roll_up_rates(scope)


def test_seconds_that_follow_one_another_are_one_throttled_stretch(scope: RunScope) -> None:
    rates = [second(s, **(HELD if s in (2, 3, 5) else {})) for s in range(8)]
    write(scope, rates, [throttled(s) for s in (2, 3, 5)])
    view = entity_view(scope, ALICE, EntityQuery())
    assert view is not None
    (panel,) = chart_of(scope, view)["panels"]
    assert panel["throttled"] == [
        [NOON_MS + 2000, NOON_MS + 4000, 2, 100],
        [NOON_MS + 5000, NOON_MS + 6000, 1, 50],
    ]
    # The sensor's first record begins a sample, and so does each that comes a second later.
    assert panel["samples"] == [NOON_MS + 2000, NOON_MS + 3000, NOON_MS + 5000]


def test_without_a_time_the_page_shows_when_the_client_was_there(scope: RunScope) -> None:
    write(scope, [second(0), second(600)], [])
    view = entity_view(scope, ALICE, EntityQuery())
    assert view is not None
    assert (view.wanted.from_ms, view.wanted.until_ms) == (NOON_MS, NOON_MS + 660_000)
    write(scope, [second(-36_000), second(36_000)], [])
    whole = entity_view(scope, ALICE, EntityQuery())
    assert whole is not None
    assert whole.wanted.until_ms - whole.wanted.from_ms == DAY_MS


def test_the_brokers_that_throttled_most_are_drawn_unless_others_are_asked_for(
    scope: RunScope,
) -> None:
    brokers = range(1, 10)
    rates = [second(0, broker_id=b, throttled_requests=1, throttle_time_ms=b) for b in brokers]
    write(scope, rates, [throttled(0, broker_id=b, throttle_time_ms=b) for b in brokers])
    view = entity_view(scope, ALICE, EntityQuery())
    assert view is not None
    assert [s.broker_id for s in view.shown] == [4, 5, 6, 7, 8, 9]
    assert len(view.shown) == PANELS_MAX
    assert len(view.history.series) == 9
    chosen = entity_view(scope, ALICE, EntityQuery(broker_ids=(2, 1)))
    assert chosen is not None
    assert [row["broker_id"] for row in table_rows(chosen)] == [1, 2]


def test_another_quota_of_the_client_can_be_chosen_and_an_unknown_one_is_not_invented(
    scope: RunScope,
) -> None:
    write(scope, [second(0), second(0, quota_type="request_percentage", rate=3.0)], [])
    view = entity_view(scope, ALICE, EntityQuery(quota_type="request_percentage"))
    assert view is not None
    assert view.shown[0].value.tolist() == [3.0]
    other = entity_view(scope, ALICE, EntityQuery(quota_type="consumer_byte_rate"))
    assert other is not None
    assert other.use.quota_type in {"producer_byte_rate", "request_percentage"}
    assert entity_view(scope, entity_id("bob", ""), EntityQuery()) is None


def test_a_time_without_traffic_says_so_and_leads_back(scope: RunScope) -> None:
    write(scope, [second(0)], [])
    page = entity_page(PLACE, scope, ALICE, EntityQuery(from_ms=NOON_MS - 9000, until_ms=NOON_MS))
    assert page is not None
    assert "Nothing was recorded from" in page
    assert "Show the day" in page


def test_numbers_of_the_chart_are_those_of_the_table_to_six_digits(scope: RunScope) -> None:
    write(scope, [second(0, rate=123_456.789), second(1, rate=0.0), second(2, rate=None)], [])
    view = entity_view(scope, ALICE, EntityQuery())
    assert view is not None
    (panel,) = chart_of(scope, view)["panels"]
    assert panel["value"] == [123_457.0, 0.0, None]
    assert [row["value"] for row in table_rows(view)] == [123_457.0, 0.0, None]
