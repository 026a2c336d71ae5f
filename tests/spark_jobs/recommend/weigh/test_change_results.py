"""What became of changes that were applied."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.recommend.weigh.change_results import change_results
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.tables import CHANGE_RESULTS
from tests.builders.tables_builder import NOON_MS, Row, row

SETTINGS = RecommendSettings()
FROM_MS = NOON_MS
MADE = {"outcome": "applied", "action": "apply", "is_read_back": True, "takes_back": None}


def applied(minutes_before: int = 60, **others: Any) -> Row:
    times = {
        "started_ms": FROM_MS - minutes_before * 60_000 - 1_000,
        "ended_ms": FROM_MS - minutes_before * 60_000,
    }
    return row(
        "applied_changes",
        **MADE
        | times
        | {"throttle_time_ms_before": 40_000, "throttle_time_ms_after": 2_000}
        | others,
    )


def results(changes: list[Row], *demand: Row) -> list[dict[str, Any]]:
    found = change_results(changes, demand, FROM_MS, SETTINGS)
    assert all(set(r) == set(CHANGE_RESULTS.names) for r in found)
    return found


@pytest.mark.parametrize(
    ("throttle_time_ms", "result"),
    [(0, "as_predicted"), (2_300, "as_predicted"), (2_301, "not_as_predicted")],
)
def test_throttling_may_be_a_seventh_more_than_predicted(
    throttle_time_ms: int, result: str
) -> None:
    half = throttle_time_ms // 2
    day = [
        row("demand", broker_id=1, throttle_time_ms=half),
        row("demand", broker_id=2, throttle_time_ms=throttle_time_ms - half),
    ]
    (found,) = results([applied()], *day)
    assert (found["result"], found["throttle_time_ms"]) == (result, throttle_time_ms)
    assert (found["throttle_time_ms_before"], found["throttle_time_ms_predicted"]) == (
        40_000,
        2_000,
    )


def test_where_the_client_asks_for_more_by_now_it_is_said() -> None:
    day = row("demand", throttle_time_ms=9_000, demand=250_000.0)
    (found,) = results([applied(value_before=5e4, value_after=1e5)], day)
    assert found["explanation"] == (
        "From 50,000 B/s to 100,000 B/s: throttled for 9.0 s, where 2.0 s were predicted: it asks "
        "for 250,000 B/s by now."
    )


def test_a_client_that_did_not_come_says_nothing() -> None:
    (found,) = results([applied()], row("demand", quota_user="bob"))
    assert (found["result"], found["requests"]) == ("no_traffic", 0)


def test_a_client_whose_value_was_removed_is_followed_to_its_default() -> None:
    day = row("demand", quota_level="default-user", throttle_time_ms=9_000)
    (found,) = results([applied(value_after=None, throttle_time_ms_after=0)], day)
    assert found["result"] == "not_as_predicted"
    assert found["explanation"].startswith("From 50,000 B/s to no value of its own")


def test_the_newest_change_of_a_value_stands() -> None:
    old, new = applied(90, application_id="old"), applied(30, application_id="new")
    assert [r["application_id"] for r in results([new, old])] == ["new"]
    again = applied(10, application_id="again", outcome="already_so")
    assert [r["application_id"] for r in results([old, again])] == ["old"]


def test_what_was_taken_back_failed_or_came_later_is_not_looked_at() -> None:
    back = applied(30, action="rollback", takes_back="x")
    assert results([applied(60), back]) == []
    assert results([applied(60, outcome="failed")]) == []
    assert results([applied(60, outcome="intended", ended_ms=None)]) == []
    assert results([applied(-10)]) == []
