"""Values of a user's client-ids that one value would do for: set it first, then take them away."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.apply.changes.quota_alteration import proposed_alterations
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.merge import merged
from spark_jobs.recommend.weigh.backtest import broker_rules, throttle_with
from spark_jobs.recommend.weigh.traffic import split_by_sensor
from spark_jobs.settings import RecommendSettings
from tests.builders.tables_builder import Row, row, table_of
from tests.spark_jobs.recommend.day import mutations, produces, shares, steady
from tests.spark_jobs.recommend.recommended_days import BROKERS, recommended_days, value

NAMES = ("app", "etl", "web")
ALICE = ("alice", None)
Found = dict[tuple[str | None, str | None], Row]


def own(name: str, rate: float = 8_000.0, bound: float = 50_000.0, **columns: Any) -> list[Row]:
    """A minute of one of alice's client-ids in a bucket of its own."""
    level = {"quota_level": "user+client-id", "quota_client_id": name, "client_id": name}
    return produces(steady(rate, 60), bound, **level | columns)


def values(bound: float = 50_000.0, names: tuple[str, ...] = NAMES, **columns: Any) -> list[Row]:
    return [value(bound, "alice", name, **columns) for name in names]


def day(*rates: float, bound: float = 50_000.0) -> list[Row]:
    rates = rates or (8_000.0, 9_000.0, 10_000.0)
    return [d for name, rate in zip(NAMES, rates, strict=True) for d in own(name, rate, bound)]


def merges(found: Found) -> Found:
    return {key: r for key, r in found.items() if r["kind"] == "merge"}


def test_first_the_user_gets_a_value_and_the_single_ones_stay() -> None:
    found = recommended_days([day()], values())
    assert set(merges(found)) == {ALICE}
    users = found[ALICE]
    assert (users["status"], users["current"], users["previous"], users["proposed"]) == (
        "proposed", None, None, 50_000.0,
    )  # fmt: skip
    assert (users["throttle_time_ms_before"], users["throttle_time_ms_after"]) == (0, 0)
    assert "bounds nobody as long as each has its own" in users["reason"]
    assert users["lower"] == json.loads(users["evidence"])["peak_rate_together"] < 50_000 / 1.2
    for name in NAMES:
        single = found["alice", name]
        assert (single["status"], single["kind"], single["proposed"]) == ("keep", None, None)
        assert "Not lowered: it is to go into one value" in single["reason"]
    assert recommended_days([day()], values(), merge=False)["alice", "app"]["kind"] == "lower"


def test_the_largest_single_value_is_the_users() -> None:
    given_values = [*values(40_000.0, NAMES[:2]), value(60_000.0, "alice", "web")]
    assert recommended_days([day()], given_values)[ALICE]["proposed"] == 60_000.0


def test_then_each_single_value_is_proposed_to_be_removed_and_the_users_kept() -> None:
    found = recommended_days([day()], [*values(), value(50_000.0)], reclaim_min_days=1)
    assert set(merges(found)) == {("alice", name) for name in NAMES}
    for row_ in merges(found).values():
        assert (row_["status"], row_["current"], row_["previous"], row_["proposed"]) == (
            "proposed", 50_000.0, 50_000.0, None,
        )  # fmt: skip
        assert (row_["throttle_time_ms_before"], row_["throttle_time_ms_after"]) == (0, 0)
    # It has no traffic yet, and is not reclaimed for that.
    assert (found[ALICE]["status"], found[ALICE]["kind"]) == ("keep", None)
    assert "is to hold 3 client-ids" in found[ALICE]["reason"]
    removed = proposed_alterations(merges(found).values())
    assert {(a.before, a.after) for a in removed} == {(50_000.0, None)}


def test_a_users_value_that_some_follow_already_is_neither_lowered_nor_left_out_of_the_sum() -> (
    None
):
    rest = produces(steady(5_000.0, 60), 50_000.0, client_id="cron")
    kept = recommended_days([day() + rest], [*values(), value(50_000.0)])
    assert (len(merges(kept)), kept[ALICE]["proposed"]) == (3, None)
    more = produces(steady(20_000.0, 60), 50_000.0, client_id="cron")
    assert merges(recommended_days([day() + more], [*values(), value(50_000.0)])) == {}


@pytest.mark.parametrize(
    "decisions",
    [
        pytest.param(day(8_000.0, 9_000.0, 30_000.0), id="together they come near the value"),
        pytest.param(day(8_000.0, 9_000.0, 60_000.0), id="one of them was throttled"),
        pytest.param(day()[: 2 * 600], id="one of them has no traffic"),
        pytest.param(day() + own("new", quota_client_id="", quota_level=None, bound=None),
                     id="a client-id without any quota would be bounded"),
        pytest.param(day() + own("new", quota_level="default-user+default-client-id"),
                     id="a client-id would leave its bucket under a default"),
        pytest.param(day() + own("new", quota_level="default-user", quota_client_id=""),
                     id="a client-id would leave the default of users"),
        pytest.param(
            day() + own("new", quota_user="", quota_client_id="new", quota_level="client-id"),
            id="a client-id would leave the bucket of its name",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_set", [False, True])
def test_nothing_is_merged_where(decisions: list[Row], is_set: bool) -> None:
    users = [value(50_000.0)] if is_set else []
    assert merges(recommended_days([decisions], [*values(), *users])) == {}


def test_nothing_is_merged_where_settings_or_names_say_so() -> None:
    for off in (
        {"merge": False},
        {"raise_only": True},
        {"merge_min_values": 4},
        {"lower_min_days": 2},
    ):
        assert merges(recommended_days([day()], values(), **off)) == {}
    internal = {"internal_principals": ("WEB",)}
    assert merges(recommended_days([day()], values(), **internal)) == {}
    assert merges(recommended_days([day()], values(source="static"))) == {}


def test_a_value_for_every_other_client_id_of_the_user_would_catch_them_before_the_users() -> None:
    catch_all = value(1_000.0, "alice", DEFAULT)
    assert merges(recommended_days([day()], [*values(), catch_all])) == {}


def test_contradicted_or_unenforced_decisions_merge_nothing() -> None:
    for kind in ("over_throttled", "not_enforced"):
        finding = row("findings", kind=kind, quota_client_id="etl")
        assert merges(recommended_days([day()], values(), [finding])) == {}


def test_a_throttle_on_any_day_at_hand_speaks_against_it() -> None:
    def with_app(rate: float) -> list[Row]:
        return [*own("app", rate, 10_000.0), *own("etl"), *own("web")]

    small = [value(10_000.0, "alice", "app"), *values(names=NAMES[1:])]
    days = [with_app(15_000.0), *[with_app(8_000.0)] * 3]
    # With the others it fitted into 50,000 on that day as well.
    assert merges(recommended_days(days, small, season_days=1)) == {}
    assert set(merges(recommended_days(days[1:], small, season_days=1))) == {ALICE}


def test_days_before_are_put_together_as_well() -> None:
    days = [day(15_000.0, 15_000.0, 15_000.0), day()]
    assert merges(recommended_days(days, values())) == {}


def test_the_users_value_needs_room_beside_all_others() -> None:
    def found(capacity: float) -> Found:
        limits = {"producer_byte_rate": capacity}
        return merges(recommended_days([day()], values(), broker_capacity=limits))

    assert set(found(200_000.0)) == {ALICE}
    assert found(199_000.0) == {}


def test_mutations_are_merged_by_the_token_bucket() -> None:
    changes = values(5.0, quota_type="controller_mutation_rate")
    decisions = [
        d
        for name in NAMES
        for d in mutations(
            [(i * 2_000, 1.0) for i in range(30)], 5.0,
            quota_level="user+client-id", quota_client_id=name, client_id=name,
        )
    ]  # fmt: skip
    users = recommended_days([decisions], changes)[ALICE]
    assert (users["kind"], users["proposed"]) == ("merge", 5.0)
    assert users["lower"] == pytest.approx(1.6, rel=0.1)


def test_request_quotas_are_not_merged() -> None:
    decisions = [d | {"quota_type": "request_percentage"} for d in day()]
    changes = values(quota_type="request_percentage")
    assert merges(recommended_days([decisions], changes)) == {}


requests = st.lists(
    st.tuples(st.integers(0, 59_000), st.integers(0, 60_000).map(float)), min_size=1, max_size=40
).map(sorted)


def sensor_rows(name: str, recorded: list[tuple[int, float]]) -> list[Row]:
    base = [(i * 200, 100.0) for i in range(300)]
    everything = sorted(base + recorded)
    level = {"quota_level": "user+client-id", "quota_client_id": name, "client_id": name}
    return produces(everything, 50_000.0, **level)


@given(st.tuples(requests, requests, requests), st.booleans())
@settings(max_examples=25)
def test_each_merge_applied_alone_and_all_together_throttle_nobody_in_the_replay(
    recorded: tuple[list, ...], is_set: bool
) -> None:
    decisions = [
        d for name, own_ in zip(NAMES, recorded, strict=True) for d in sensor_rows(name, own_)
    ]
    users = [value(50_000.0)] if is_set else []
    found = merges(recommended_days([decisions], [*values(), *users]))
    traffic = split_by_sensor(table_of("decisions", decisions))
    bound = found[ALICE]["proposed"] if ALICE in found else 50_000.0
    bucket = ("producer_byte_rate", "alice", "")
    for parts in [*([t] for t in traffic), traffic] if found else ():
        whole = merged(bucket, parts, bound)
        assert not throttle_with(whole, bound, broker_rules(BROKERS)).any()


@given(st.tuples(requests, requests))
@settings(max_examples=15)
def test_merged_traffic_is_what_one_bucket_would_have_recorded(recorded: tuple[list, ...]) -> None:
    bound = 1e9
    apart = [
        d
        for name, own_ in zip("ab", recorded, strict=True)
        for d in produces(own_, bound, quota_client_id=name, quota_level="user+client-id")
    ]
    together = shares(dict(zip("ab", recorded, strict=True)), bound)
    key = ("producer_byte_rate", "alice", "")
    one = merged(key, split_by_sensor(table_of("decisions", apart)), 1_000.0)
    (other,) = split_by_sensor(table_of("decisions", together))
    assert one.amounts.recorded_at_ms.tolist() == other.amounts.recorded_at_ms.tolist()
    assert len(np.unique(one.amounts.ask)) == len(apart)
    rules = broker_rules(BROKERS)
    if len({at for part in recorded for at, _ in part}) == len(apart):
        ours, theirs = (throttle_with(t, 1_000.0, rules).tolist() for t in (one, other))
        assert ours == theirs


def test_defaults_are_what_the_document_says() -> None:
    rule = RecommendSettings()
    assert (rule.merge, rule.merge_min_values, rule.split_share) == (True, 3, 0.8)
