"""Recommendations from several days: trends, bursts, trials on days they did not know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    ClosedLoop,
    ClosedLoopForecasts,
    ClosedLoopRequest,
)
from tests.builders.tables_builder import Row
from tests.spark_jobs.recommend.day import produces, steady
from tests.spark_jobs.recommend.recommended_days import recommended_days, value


def minute(rate: float, bound: float = 50_000.0, **columns: object) -> list[Row]:
    return produces(steady(rate, 60), bound, waits=True, **columns)


def recommended(
    days: list[list[Row]],
    changes: list[Row],
    closed_loop: ClosedLoop | None = None,
    **settings: Any,
) -> dict[str | None, Row]:
    """Return the last day's rows by user; the i-th day's decisions are of that day."""
    found = recommended_days(days, changes, None, closed_loop, **settings)
    return {user: row for (user, _), row in found.items()}


def test_a_raise_is_tried_on_the_days_it_did_not_know() -> None:
    found = recommended([minute(80_000.0)] * 4, [value(50_000.0)])["alice"]
    assert (found["status"], found["kind"], found["proposed"]) == ("proposed", "raise", 100_000)
    assert (found["days_seen"], found["backtest_trials"], found["backtest_kept"]) == (4, 3, 3)
    trials = json.loads(found["evidence"])["backtest"]
    assert [t["day"] for t in trials] == ["2026-11-11", "2026-11-12", "2026-11-13"]
    for trial in trials:
        assert trial["throttle_time_ms_before"] > 10_000
        assert trial["throttle_time_ms_after"] == 0
        assert trial["headroom_before"] < 0 < trial["headroom_after"]


def test_a_raise_that_would_have_harmed_neighbours_more_did_not_keep_its_promise() -> None:
    reading = ("consumer_byte_rate", "alice", "")

    def harmful(_: ClosedLoopRequest) -> ClosedLoopForecasts:
        return ClosedLoopForecasts({}, {reading: (BrokerForecast(1, 9, 10**6, 10**6),)})

    found = recommended([minute(80_000.0)] * 4, [value(50_000.0)], harmful)["alice"]
    assert (found["status"], found["backtest_trials"], found["backtest_kept"]) == ("withheld", 3, 0)
    assert [t["harmed"] for t in json.loads(found["evidence"])["backtest"]] == [1, 1, 1]


def test_a_proposal_that_would_have_failed_is_withheld_with_its_value_and_the_reason() -> None:
    # Every other day is more than any day before led one to expect.
    days = [minute(rate, 10_000.0) for rate in (15_000.0, 60_000.0, 25_000.0, 90_000.0)]
    found = recommended(days, [value(10_000.0)], max_raise=20)["alice"]
    assert (found["status"], found["proposed"]) == ("withheld", None)
    assert (found["backtest_kept"], found["backtest_trials"]) == (1, 3)
    assert "Withheld: made at the end of earlier days" in found["reason"]
    assert (
        recommended(days, [value(10_000.0)], max_raise=20, min_kept_share=0)["alice"]["status"]
        == "proposed"
    )


def test_a_burst_that_came_once_raises_nothing() -> None:
    days = [minute(80_000.0 if i == 3 else 20_000.0) for i in range(6)]
    found = recommended(days, [value(50_000.0)])["alice"]
    assert found["status"] == "keep"
    assert json.loads(found["evidence"])["burst_days"] == ["2026-11-13"]


def test_a_client_that_grows_gets_what_it_will_ask_for() -> None:
    rates = [60_000.0 + 8_000.0 * i for i in range(6)]
    found = recommended([minute(rate) for rate in rates], [value(50_000.0)])["alice"]
    assert found["proposed"] >= 1.2 * (100_000.0 + 7 * 7_000)
    assert "rises by" in found["reason"]
    assert json.loads(found["evidence"])["rises_by_day"] == pytest.approx(8_000, rel=0.1)


def test_nothing_is_lowered_before_it_was_seen_long_enough_nor_where_values_are_only_raised() -> (
    None
):
    days, values = [minute(2_000.0)] * 3, [value(50_000.0)]
    assert recommended(days, values)["alice"]["kind"] == "lower"
    young = recommended(days, values, lower_min_days=4)["alice"]
    assert (young["status"], "before it was seen on 4 days" in young["reason"]) == ("keep", True)
    only = recommended(days, values, raise_only=True)["alice"]
    assert (only["status"], "values are only raised" in only["reason"]) == ("keep", True)


def test_a_value_that_nobody_uses_is_reclaimed_after_some_days() -> None:
    days, values = [minute(20_000.0)] * 3, [value(50_000.0), value(9_000.0, "gone")]
    kept = recommended(days, values)["gone"]
    assert (kept["status"], kept["kind"]) == ("not_enough_data", None)
    found = recommended(days, values, reclaim_min_days=3)["gone"]
    assert (found["status"], found["kind"]) == ("proposed", "reclaim")
    assert (found["previous"], found["proposed"]) == (9_000, None)
    assert "gone" not in recommended(days, values, reclaim_min_days=3, raise_only=True)


def test_a_default_is_there_for_who_comes_and_never_reclaimed() -> None:
    values = [value(50_000.0), value(9_000.0, "<default>")]
    assert "<default>" not in recommended([minute(20_000.0)], values, reclaim_min_days=1)


def test_what_was_seen_on_an_earlier_day_is_used() -> None:
    days = [minute(20_000.0), minute(20_000.0, quota_user="bob", user="bob")]
    values = [value(50_000.0), value(50_000.0, "bob")]
    found = recommended(days, values, reclaim_min_days=2)
    assert {user: r["kind"] for user, r in found.items()} == {"alice": None, "bob": None}
    assert found["alice"]["throttle_time_ms_before"] == 0


def test_a_raised_default_and_the_overrides_beside_it_are_tried_apart() -> None:
    def followers(*rates: float) -> list[Row]:
        return [
            made
            for i, rate in enumerate(rates)
            for made in minute(
                rate, 10_000.0, quota_user=f"u{i}", user=f"u{i}", quota_level="default-user"
            )
        ]

    day = followers(15_000.0, 16_000.0, 30_000.0)
    found = recommended([day] * 3, [value(10_000.0, "<default>")], overrides_max=1)
    assert {user: r["kind"] for user, r in found.items()} == {
        "<default>": "default",
        "u2": "new_override",
    }
    for each in found.values():
        assert (each["status"], each["backtest_trials"], each["backtest_kept"]) == (
            "proposed",
            2,
            2,
        )
        # Neither counts what the other one mends.
        assert each["throttle_time_ms_after"] == 0


def test_internal_principals_are_listed_and_left_alone() -> None:
    name = "my-Cruise-Control"
    days = [minute(80_000.0, quota_user=name, user=name)]
    found = recommended(days, [value(50_000.0, name)])[name]
    assert (found["status"], found["proposed"]) == ("keep", None)
    assert found["reason"] == f"Left out: {name!r} is the name of an internal principal."


def test_raises_share_what_is_left_of_a_brokers_capacity() -> None:
    day = [
        *minute(80_000.0),
        *minute(55_000.0, quota_user="bob", user="bob"),
        *minute(20_000.0, quota_user="calm", user="calm"),
    ]
    values = [value(50_000.0), value(50_000.0, "bob"), value(50_000.0, "calm")]

    def proposed(capacity: float) -> dict[str, float | None]:
        settings = {"broker_capacity": {"producer_byte_rate": capacity}}
        return {u: r["proposed"] for u, r in recommended([day], values, **settings).items()}

    assert proposed(1e6) == {"alice": 100_000, "bob": 80_000, "calm": None}
    # 150,000 are given; the smaller raise goes first, and the other gets what is left.
    assert proposed(200_000.0) == {"alice": 60_000, "bob": 80_000, "calm": None}
    assert proposed(180_000.0) == {"alice": None, "bob": 80_000, "calm": None}
    cut = recommended([day], values, broker_capacity={"producer_byte_rate": 200_000.0})["alice"]
    assert cut["clamped_by"] == "broker_capacity"


def test_a_lone_leader_is_named_instead_of_a_raise() -> None:
    day = minute(75_000.0, broker_id=2) + minute(500.0, broker_id=1)
    found = recommended([day], [value(50_000.0)])["alice"]
    assert (found["status"], found["kind"], found["proposed"]) == ("keep", "not_the_quota", None)
