"""A client-id that fills a bucket it shares is proposed a value of its own, not the bucket more."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.read_traffic import amounts_by_client, parts_of
from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    ClosedLoopForecasts,
    ClosedLoopRequest,
)
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS
from tests.builders.tables_builder import NOON_MS, Row, row, table_of
from tests.spark_jobs.recommend.day import produces, shares, steady
from tests.spark_jobs.recommend.recommended_days import recommended_days, value

ALICE, ETL = ("alice", None), ("alice", "etl")
KEY = ("producer_byte_rate", "alice", "")


def crowd(
    etl: float = 90_000.0, app: float = 5_000.0, bound: float = 50_000.0, **columns: Any
) -> list[Row]:
    """A minute of two client-ids of alice that share a bucket of 50,000 B/s."""
    return shares({"etl": steady(etl, 60), "app": steady(app, 60)}, bound, **columns)


def test_the_client_id_that_fills_the_bucket_is_parted_from_it() -> None:
    day = crowd()
    found = recommended_days([day], [value(50_000.0)])
    split, users = found[ETL], found[ALICE]
    assert (split["status"], split["kind"], split["current"], split["previous"]) == (
        "proposed", "split", 50_000.0, None,
    )  # fmt: skip
    # Its own demand with headroom, not that of both.
    assert split["proposed"] == 120_000.0
    assert (users["status"], users["kind"], users["proposed"]) == ("keep", None, None)
    assert "'etl' makes 9" in users["reason"]
    assert set(found) == {ALICE, ETL}


def test_what_it_leads_to_is_the_whole_bucket_against_its_own_and_what_is_left_there() -> None:
    day = crowd()
    split = recommended_days([day], [value(50_000.0)])[ETL]
    throttled = {
        name: sum(d["replayed_throttle_time_ms"] for d in day if d["client_id"] == name)
        for name in ("etl", "app")
    }
    assert throttled["app"] > 5_000
    assert split["throttle_time_ms_before"] == sum(throttled.values())
    assert split["throttle_time_ms_after"] == 0
    evidence = json.loads(split["evidence"])
    assert evidence["share_of_amounts"] > 0.9
    (neighbours,) = evidence["neighbours"]
    assert neighbours == {
        "days": 1, "client_ids": 1,
        "throttle_time_ms_before": throttled["app"], "throttle_time_ms_after": 0,
    }  # fmt: skip
    assert evidence["brokers"][0]["throttle_time_ms_before"] == split["throttle_time_ms_before"]
    assert evidence["throttled_requests_before"] == sum(
        d["replayed_throttle_time_ms"] > 0 for d in day
    )


def test_where_clients_wait_it_is_the_bucket_s_clients_that_are_replayed() -> None:
    asked: list[ClosedLoopRequest] = []

    def replay(request: ClosedLoopRequest) -> ClosedLoopForecasts:
        asked.append(request)
        return ClosedLoopForecasts({}, {KEY: (BrokerForecast(1, 3, 7_000, 7_000),)})

    split = recommended_days([crowd()], [value(50_000.0)], closed_loop=replay)[ETL]
    (request,) = asked
    assert request.concerned == {KEY}
    assert request.values == {("producer_byte_rate", *ETL): split["proposed"]}
    assert (split["kind"], split["throttle_time_ms_after"]) == ("split", 7_000)


def test_what_is_left_in_the_bucket_is_counted_with_what_the_split_leads_to() -> None:
    # A burst of the neighbour that the bucket without etl holds back as well, for a second.
    day = shares({"etl": steady(90_000.0, 60), "app": [(20_000, 560_000.0)]}, 50_000.0)
    split = recommended_days([day], [value(50_000.0)])[ETL]
    left = json.loads(split["evidence"])["neighbours"][0]["throttle_time_ms_after"]
    assert split["kind"] == "split"
    assert split["throttle_time_ms_after"] == left > 0


@pytest.mark.parametrize("quota_type", ["consumer_byte_rate", "controller_mutation_rate"])
def test_fetches_and_mutations_are_parted_as_well(quota_type: str) -> None:
    unit = 1.0 if quota_type == "controller_mutation_rate" else 20_000.0
    etl = [(i * 250, unit) for i in range(320)]
    app = [(i * 4_000 + 100, unit / 4) for i in range(20)]
    day = shares({"etl": etl, "app": app}, 2.0 * unit, quota_type)
    found = recommended_days([day], [value(2.0 * unit, quota_type=quota_type)])
    split = found[ETL]
    assert (split["status"], split["kind"]) == ("proposed", "split")
    assert split["proposed"] > 2.0 * unit
    assert split["throttle_time_ms_after"] < 0.15 * split["throttle_time_ms_before"]


def test_a_user_that_follows_a_default_is_parted_at_the_level_of_the_client_id() -> None:
    day = crowd(quota_level="default-user")
    found = recommended_days([day], [value(50_000.0, DEFAULT)])
    assert (found[ETL]["kind"], found[ETL]["current"]) == ("split", 50_000.0)
    assert (found[ALICE]["status"], found[ALICE]["proposed"]) == ("keep", None)
    assert found[DEFAULT, None]["status"] == "keep"


def raised(found: dict[tuple[str | None, str | None], Row]) -> bool:
    assert ETL not in found
    return (found[ALICE]["status"], found[ALICE]["kind"]) == ("proposed", "raise")


def test_one_client_id_alone_in_the_bucket_is_raised_as_before() -> None:
    day = produces(steady(90_000.0, 60), 50_000.0, waits=True, client_id="etl")
    assert raised(recommended_days([day], [value(50_000.0)]))


def test_a_smaller_share_than_the_setting_asks_for_is_raised_with_the_others() -> None:
    day, values = crowd(etl=70_000.0, app=25_000.0), [value(50_000.0)]
    assert raised(recommended_days([day], values))
    assert recommended_days([day], values, split_share=0.6)[ETL]["kind"] == "split"


def test_neighbours_that_are_throttled_without_it_as_well_are_raised_with_it() -> None:
    day, values = crowd(etl=90_000.0, app=70_000.0), [value(50_000.0)]
    assert raised(recommended_days([day], values, split_share=0.51))


def test_a_client_id_that_cannot_be_named_or_calls_itself_default_is_not_parted() -> None:
    for name in ("", DEFAULT):
        day = shares({name: steady(90_000.0, 60), "app": steady(5_000.0, 60)}, 50_000.0)
        assert raised(recommended_days([day], [value(50_000.0)]))


def test_a_client_id_with_a_value_of_its_own_by_now_is_not_parted_again() -> None:
    found = recommended_days([crowd()], [value(50_000.0), value(120_000.0, *ETL)])
    assert {key: r["kind"] for key, r in found.items()} == {ALICE: None, ETL: None}


def test_a_value_that_was_set_since_is_no_reason_to_raise_the_bucket_it_left() -> None:
    later = NOON_MS + DAY_MS - 1_000
    own = value(120_000.0, *ETL, valid_from_ms=later)
    after = produces(
        steady(90_000.0, 60), 120_000.0,
        client_id="etl", quota_client_id="etl", quota_level="user+client-id",
    ) + produces(steady(5_000.0, 60), 50_000.0, client_id="app")  # fmt: skip
    found = recommended_days([crowd(), after], [value(50_000.0), own])
    assert (found[ALICE]["status"], found[ALICE]["proposed"]) == ("keep", None)
    assert "values of their own since ('etl')" in found[ALICE]["reason"]
    assert found[ETL]["status"] == "keep"


def test_a_bucket_that_is_too_small_without_who_left_it_is_raised_for_those_that_are_left() -> None:
    own = value(120_000.0, *ETL, valid_from_ms=NOON_MS + DAY_MS - 1_000)
    after = produces(
        steady(90_000.0, 60), 120_000.0,
        client_id="etl", quota_client_id="etl", quota_level="user+client-id",
    ) + produces(steady(70_000.0, 60), 50_000.0, client_id="app", waits=True)  # fmt: skip
    found = recommended_days([crowd(app=70_000.0), after], [value(50_000.0), own])
    assert (found[ALICE]["kind"], found[ALICE]["proposed"]) == ("raise", 100_000.0)
    assert "values of their own since ('etl')" in found[ALICE]["reason"]


def test_internal_client_ids_are_not_parted() -> None:
    day = shares({"my-mirror-maker": steady(90_000.0, 60), "app": steady(5_000.0, 60)}, 50_000.0)
    assert ("alice", "my-mirror-maker") not in recommended_days([day], [value(50_000.0)])


def test_a_client_that_ignores_its_throttles_is_not_parted() -> None:
    finding = row("findings", kind="under_throttled", hypothesis="client_ignores_throttle")
    found = recommended_days([crowd()], [value(50_000.0)], [finding])
    assert {key: r["kind"] for key, r in found.items()} == {ALICE: "not_the_quota"}


def test_a_split_takes_one_step_as_a_raise_does_and_is_allowed_where_values_are_only_raised() -> (
    None
):
    found = recommended_days(
        [crowd(etl=300_000.0)], [value(50_000.0)], max_raise=2, raise_only=True
    )
    assert (found[ETL]["kind"], found[ETL]["proposed"]) == ("split", 100_000.0)
    assert found[ETL]["clamped_by"] == "max_raise"


def test_where_there_is_no_room_for_a_whole_value_the_raise_comes_back() -> None:
    def kinds(capacity: float) -> dict[tuple[str | None, str | None], str]:
        limits = {"producer_byte_rate": capacity}
        found = recommended_days([crowd()], [value(50_000.0)], broker_capacity=limits)
        return {key: r["kind"] for key, r in found.items() if r["status"] == "proposed"}

    assert kinds(170_000.0) == {ETL: "split"}
    assert kinds(100_000.0) == {ALICE: "raise"}


def test_a_split_is_tried_on_the_days_it_did_not_know() -> None:
    found = recommended_days([crowd()] * 4, [value(50_000.0)])[ETL]
    assert (found["status"], found["kind"], found["proposed"]) == ("proposed", "split", 120_000.0)
    assert (found["days_seen"], found["backtest_trials"], found["backtest_kept"]) == (4, 3, 3)
    for trial in json.loads(found["evidence"])["backtest"]:
        assert trial["throttle_time_ms_before"] > 10_000
        assert trial["throttle_time_ms_after"] == 0


def test_a_split_that_would_have_failed_is_not_made_and_the_raise_stands_for_itself() -> None:
    # On every other day the other client-id wakes up and asks for more than the bucket holds.
    days = [crowd(app=app) for app in (5_000.0, 80_000.0, 5_000.0, 80_000.0, 5_000.0)]
    found = recommended_days(days, [value(50_000.0)], season_days=1)
    assert ETL not in found


def test_only_requests_of_the_bucket_are_counted_by_client_id() -> None:
    other = crowd(quota_user="bob", user="bob")
    data = ds.dataset(table_of("decisions", crowd(etl=20_000.0) + other))
    amounts = amounts_by_client(data, [KEY])
    assert amounts == {KEY: pytest.approx({"etl": 1_200_000.0, "app": 300_000.0})}
    assert amounts_by_client(data, []) == {}


rates = st.sampled_from([2_000.0, 30_000.0, 120_000.0])


@given(etl=rates, app=rates, bound=st.sampled_from([10_000.0, 50_000.0]))
@settings(max_examples=15)
def test_both_parts_of_a_bucket_are_the_whole_of_it(etl: float, app: float, bound: float) -> None:
    data = ds.dataset(table_of("decisions", crowd(etl, app, bound)))
    (parts,) = parts_of(data, {KEY: ("etl",)})
    assert parts.alone is not None
    assert parts.others is not None
    for name in ("amount", "replayed_throttle_time_ms"):
        whole = getattr(parts.whole.amounts, name)
        both = [getattr(part.amounts, name) for part in (parts.alone, parts.others)]
        assert sorted(whole.tolist()) == sorted(both[0].tolist() + both[1].tolist())


@given(etl=st.integers(30, 200), app=st.integers(1, 60))
@settings(max_examples=12)
def test_a_split_leaves_the_neighbours_hardly_throttled_and_sums_up_to_what_is_left(
    etl: int, app: int
) -> None:
    found = recommended_days([crowd(etl * 1_000.0, app * 1_000.0)], [value(50_000.0)])
    if ETL not in found:
        return
    rule = RecommendSettings()
    split = found[ETL]
    (neighbours,) = json.loads(split["evidence"])["neighbours"]
    before, after = (neighbours[f"throttle_time_ms_{at}"] for at in ("before", "after"))
    assert after <= max(rule.left_share_max * before, rule.min_throttle_ms)
    assert split["throttle_time_ms_after"] >= after
    assert split["throttle_time_ms_after"] < split["throttle_time_ms_before"]
    assert found[ALICE]["proposed"] is None
