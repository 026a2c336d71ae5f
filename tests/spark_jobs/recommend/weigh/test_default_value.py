"""A default and the values of the few that need more."""

from __future__ import annotations

import json

import pytest

from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.recommend.weigh.proposal import least_default, needed_value, trade_off_curve
from spark_jobs.settings import RecommendSettings
from tests.builders.tables_builder import Row, row, table_of
from tests.spark_jobs.recommend.day import produces, rates_of, steady

BROKERS = table_of("brokers", [row("brokers", broker_id=1)])
SETTINGS = RecommendSettings()


def followers(*rates: float, bound: float = 10_000.0) -> list[Row]:
    rows = []
    for i, rate in enumerate(rates):
        user = f"user-{i}"
        rows += produces(
            steady(rate, 60), bound, waits=True, quota_user=user, user=user,
            quota_level="default-user",
        )  # fmt: skip
    return rows


def recommended(rows: list[Row], **settings: int) -> dict[str, Row]:
    table = table_of("decisions", rows)
    change = row("quota_changes", bound=10_000.0, quota_user=DEFAULT, quota_client_id=None)
    found = recommend(
        observed(table, rates_of(rows), BROKERS),
        table,
        table_of("quota_changes", [change]),
        BROKERS,
        table_of("findings", []),
        RecommendSettings(**settings),
    )
    return {r["quota_user"]: r for r in found.to_pylist()}


def test_the_curve_has_a_point_wherever_one_override_less_is_needed() -> None:
    rows = followers(1_000.0, 3_000.0, 3_010.0, 7_000.0)
    seen = observed(table_of("decisions", rows), rates_of(rows), BROKERS)
    curve = trade_off_curve(seen, SETTINGS)
    assert [point.overrides for point in curve] == [3, 1, 0]
    needs = [needed_value(each, SETTINGS) for each in seen]
    for point in curve:
        assert point.overrides == sum(need > point.default for need in needs)
        assert least_default(seen, point.overrides, SETTINGS) == point.default
    assert least_default(seen, 4, SETTINGS) == 0


def test_a_few_that_need_more_get_values_of_their_own() -> None:
    found = recommended(followers(15_000.0, 16_000.0, 2_000.0), overrides_max=2)
    assert (found[DEFAULT]["status"], found[DEFAULT]["proposed"]) == ("keep", None)
    assert {u for u, r in found.items() if r["kind"] == "new_override"} == {"user-0", "user-1"}
    curve = json.loads(found[DEFAULT]["evidence"])["default_and_overrides"]
    assert curve[-1][1] == 0


def test_where_many_need_more_the_default_is_raised_and_outliers_have_their_own() -> None:
    found = recommended(followers(15_000.0, 15_500.0, 16_000.0, 60_000.0, 2_000.0), overrides_max=1)
    default = found[DEFAULT]
    assert (default["status"], default["kind"], default["proposed"]) == (
        "proposed",
        "default",
        20_000,
    )
    assert {u for u, r in found.items() if r["kind"] == "new_override"} == {"user-3"}
    assert "more than the 1 that are given" in default["reason"]


@pytest.mark.parametrize("overrides_max", [0, 3])
def test_as_many_overrides_as_allowed_are_proposed_at_most(overrides_max: int) -> None:
    rates = [15_000.0 + 2_000 * i for i in range(6)]
    found = recommended(followers(*rates), overrides_max=overrides_max)
    overrides = [r for r in found.values() if r["kind"] == "new_override"]
    assert found[DEFAULT]["kind"] == "default"
    assert len(overrides) <= overrides_max
