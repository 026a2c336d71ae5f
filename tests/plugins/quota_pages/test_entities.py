from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quota_pages.addresses import Addresses, entity_id
from quota_pages.entities_page import ROWS_MAX, EntitiesQuery, entities_of, entities_page
from quota_pages.page import Place
from spark_jobs.judge.judge_decisions import roll_up_rates
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, row, write_rows

PLACE = Place(Addresses("/quota-audit"), "east", DAY, "entities")


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    return RunScope(tmp_path, "east", DAY)


def day(**columns: Any) -> dict[str, Any]:
    return row("rate_rollups", span_ms=86_400_000, **columns)


def test_a_client_is_one_row_over_all_brokers(scope: RunScope) -> None:
    write_rows(scope, "rate_rollups", [
        day(broker_id=1, rate=40_000.0, throttled_requests=2, throttle_time_ms=90),
        day(broker_id=2, rate=60_000.0, bound_min=30_000.0, throttle_time_ms=10),
        row("rate_rollups", span_ms=60_000, throttle_time_ms=100),
    ])  # fmt: skip
    (alice,) = entities_of(scope)
    assert (alice.brokers, alice.bound_min, alice.bound_max) == (2, 30_000.0, 50_000.0)
    assert (alice.throttled_requests, alice.throttle_time_ms, alice.use) == (2, 100, 1.2)


def test_the_longest_throttled_come_first_then_the_closest_to_their_bound(scope: RunScope) -> None:
    write_rows(scope, "rate_rollups", [
        day(quota_user="free", rate=9.0, bound_min=None, bound_max=None),
        day(quota_user="idle", rate=1.0),
        day(quota_user="busy", rate=49_000.0),
        day(quota_user="held", rate=1.0, throttle_time_ms=5),
    ])  # fmt: skip
    assert [one.quota_user for one in entities_of(scope)] == ["held", "busy", "idle", "free"]


def test_an_id_is_of_one_pair_of_names_and_no_other() -> None:
    names = [("alice", ""), ("", "alice"), ("al", "ice"), ("alice", "x"), ("[", '"'), ("", "")]
    assert len({entity_id(*pair) for pair in names}) == len(names)
    assert entity_id("alice", "") == "2f881f87db1cc107"  # links that were sent on stay good


def test_a_day_that_is_audited_again_is_read_again(scope: RunScope) -> None:
    write_rows(scope, "rates", [row("rates")])
    roll_up_rates(scope)
    assert [one.quota_user for one in entities_of(scope)] == ["alice"]
    write_rows(scope, "rates", [row("rates", quota_user="bob")])
    roll_up_rates(scope)
    assert [one.quota_user for one in entities_of(scope)] == ["bob"]


def test_a_day_without_roll_ups_says_how_to_get_them(scope: RunScope) -> None:
    assert "quota-audit judge" in entities_page(PLACE, scope, EntitiesQuery())


def test_the_list_is_searched_in_any_case_and_shown_in_parts(scope: RunScope) -> None:
    write_rows(scope, "rate_rollups", [day(quota_user=f"Team-{i:03}") for i in range(ROWS_MAX + 5)])
    page = entities_page(PLACE, scope, EntitiesQuery(text="team"))
    assert page.count("user &#39;Team-") == ROWS_MAX
    assert "Page 1 of 2" in page
    last = entities_page(PLACE, scope, EntitiesQuery(text="team", page=99))
    assert last.count("user &#39;Team-") == 5
    one = entities_page(PLACE, scope, EntitiesQuery(text="TEAM-104"))
    assert one.count("user &#39;Team-") == 1
    assert "No client of this day fits" in entities_page(PLACE, scope, EntitiesQuery(text="bob"))
    of_type = EntitiesQuery(quota_type="consumer_byte_rate")
    assert "No client of this day fits" in entities_page(PLACE, scope, of_type)
