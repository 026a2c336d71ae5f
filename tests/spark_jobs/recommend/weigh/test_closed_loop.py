"""Proposals where clients wait: what a replay of them is asked, and what its answer changes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.recommend.closed_loop_forecast import sharing_clients
from spark_jobs.recommend.recommendations import observed, recommend
from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    ClosedLoop,
    ClosedLoopForecasts,
    ClosedLoopRequest,
    Forecasts,
    Harm,
    Waiting,
)
from spark_jobs.recommend.weigh.traffic import SensorId
from spark_jobs.settings import RecommendSettings
from tests.builders.tables_builder import Row, row, table_of
from tests.spark_jobs.recommend.day import produces, rates_of, steady

ALICE = ("producer_byte_rate", "alice", "")
READING = ("consumer_byte_rate", "alice", "")
BOB = ("producer_byte_rate", "bob", "")
BUSY = produces(steady(200_000.0, 60), 50_000.0, waits=True)


def throttled(ms: int) -> tuple[BrokerForecast, ...]:
    return (BrokerForecast(1, 7, ms, ms),)


def recommended(closed_loop: ClosedLoop | None, decisions: list[Row] = BUSY) -> Row:
    brokers = table_of("brokers", [row("brokers", broker_id=b) for b in (1, 2)])
    made = table_of("decisions", decisions)
    table = recommend(
        observed(made, rates_of(decisions), brokers),
        made,
        table_of("quota_changes", [row("quota_changes", bound=50_000.0)]),
        brokers,
        table_of("findings", []),
        RecommendSettings(),
        closed_loop=closed_loop,
    )
    (found,) = table.to_pylist()
    return found


def answering(before: Forecasts, after: Forecasts) -> ClosedLoop:
    return lambda _: ClosedLoopForecasts(before, after)


def test_what_is_proposed_is_replayed_for_the_sensors_that_it_bounds() -> None:
    asked: list[ClosedLoopRequest] = []
    without = recommended(None)
    found = recommended(lambda request: asked.append(request))
    assert found == without
    (request,) = asked
    assert request.values == {("producer_byte_rate", "alice", None): found["proposed"]}
    assert request.concerned == request.bound == {ALICE}


def test_where_nobody_is_throttled_nothing_is_replayed() -> None:
    calm = produces(steady(5_000.0, 60), 50_000.0)
    asked: list[ClosedLoopRequest] = []
    found = recommended(lambda request: asked.append(request), calm)
    assert found["kind"] == "lower"
    assert asked == []


def test_the_forecast_is_the_replay_s_and_the_evidence_says_so() -> None:
    found = recommended(answering({ALICE: throttled(90_000)}, {ALICE: throttled(30_000)}))
    assert (found["status"], found["throttle_time_ms_after"]) == ("proposed", 30_000)
    evidence = json.loads(found["evidence"])
    assert evidence["forecast"] == "closed_loop"
    assert evidence["closed_loop_throttle_time_ms_before"] == 90_000
    assert evidence["closed_loop_throttle_time_ms_after"] == 30_000
    assert evidence["throttled_requests_after"] == 7
    assert json.loads(recommended(None)["evidence"])["forecast"] == "as_logged"


def test_who_is_not_throttled_in_the_replay_is_not_in_the_forecast() -> None:
    found = recommended(answering({ALICE: throttled(90_000)}, {}))
    assert found["throttle_time_ms_after"] == 0


def test_a_neighbour_that_is_harmed_is_named() -> None:
    before = {ALICE: throttled(90_000), READING: throttled(1_000)}
    found = recommended(answering(before, {READING: throttled(21_000)}))
    assert found["status"] == "proposed"
    assert (
        "But replayed with clients that wait, consumer_byte_rate of alice would be throttled "
        "21 s instead of 1." in found["reason"]
    )
    (harmed,) = json.loads(found["evidence"])["harmed"]
    assert harmed == {
        "quota_type": "consumer_byte_rate",
        "quota_user": "alice",
        "quota_client_id": "",
        "throttle_time_ms_before": 1_000,
        "throttle_time_ms_after": 21_000,
    }


def test_what_harms_neighbours_more_than_it_helps_is_withheld() -> None:
    before = {ALICE: throttled(9_000)}
    found = recommended(answering(before, {READING: throttled(21_000)}))
    assert (found["status"], found["proposed"]) == ("withheld", None)
    assert "Withheld: replayed with clients that wait, " in found["reason"]
    assert found["reason"].endswith("21 s instead of 0: more than is gained.")


def test_strangers_and_small_differences_are_no_harm() -> None:
    after = {BOB: throttled(99_000), READING: throttled(900)}
    found = recommended(answering({ALICE: throttled(90_000)}, after))
    assert json.loads(found["evidence"])["harmed"] == []


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_harm_is_what_costs_more_than_it_gains(before: int, after: int, lost: int) -> None:
    waiting = Waiting(before, after, (Harm(BOB, 5, 5 + lost),))
    assert waiting.does_more_harm == (lost > max(before - after, 0))


NAMES = st.sampled_from("abcd")
SENSORS = st.tuples(st.just("producer_byte_rate"), NAMES, NAMES)
CLIENTS = st.tuples(NAMES, st.none() | NAMES)


@given(
    st.lists(st.tuples(SENSORS, CLIENTS), max_size=20),
    st.frozensets(SENSORS, max_size=2),
    st.frozensets(SENSORS, max_size=8),
)
def test_whoever_shares_a_bound_sensor_is_replayed_together(
    recorded: list[tuple[SensorId, tuple[str, str | None]]],
    concerned: frozenset[SensorId],
    others: frozenset[SensorId],
) -> None:
    bound = concerned | others
    found = sharing_clients(recorded, concerned, bound)
    for sensor, client in recorded:
        if sensor in concerned:
            assert client in found
        if sensor in bound and client in found:
            assert {c for s, c in recorded if s == sensor} <= found
    assert found <= {client for _, client in recorded}
