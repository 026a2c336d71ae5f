"""A lane of sensors, all open: what is decided does not depend on how the rows came in."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.align.events import Window
from spark_jobs.judge.verdicts import RATE_VERDICTS, Tolerances
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.transforms.lane_rows import LaneRows
from spark_jobs.transforms.lane_settling import (
    ROWS_MAX,
    AsEstimated,
    FetchSettling,
    ProduceSettling,
    Settling,
)
from spark_jobs.transforms.lane_states import LaneStates
from spark_jobs.transforms.lane_tables import decisions, states
from spark_jobs.transforms.rate_lane import Decided, RateLane
from spark_jobs.transforms.sensor_codes import SensorCodes
from spark_jobs.transforms.sensor_replay import (
    EXPIRED_AFTER_MS,
    BrokerRules,
    CarriedState,
    SensorKey,
)
from tests.spark_jobs.transforms.amount_rows import amount
from tests.spark_jobs.transforms.lane_rows_made import lane_rows
from tests.tables_builder import NOON_MS

RULES = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)
WINDOW = Window(11, 1000, True)
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)
PRODUCES, FETCHES = ProduceSettling.of(WINDOW), FetchSettling.of(WINDOW)
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
Row = dict[str, Any]


def opened(
    settling: Settling = PRODUCES, carried: dict[SensorKey, CarriedState] | None = None
) -> RateLane:
    quota_type = CONSUMER if isinstance(settling, FetchSettling) else PRODUCER
    held = LaneStates(RULES, quota_type)
    is_fetch = quota_type == CONSUMER
    return RateLane(1, SensorCodes(), held, settling, TOLERANCES, carried or {}, unrecords=is_fetch)


def produce(at_ms: int, size: float, **columns: Any) -> Row:
    """Return a produce ``at_ms`` after noon whose record time is known to 2 ms."""
    earlier = dict.fromkeys(("earliest_ms", "likely_from_ms"), at_ms - 2)
    return amount(at_ms, size, **earlier | {"source_line": at_ms} | columns)


def fetch(at_ms: int, size: float, throttle_ms: int = 0, **columns: Any) -> Row:
    of_fetch = {
        "quota_type": CONSUMER,
        "api_name": "FETCH",
        "logged_throttle_time_ms": throttle_ms,
        "has_records": not throttle_ms,
        "request_bytes": 90,
        "fetch_max_bytes": 52_428_800,
        "source_line": at_ms,
    }
    return amount(at_ms, float("nan") if throttle_ms else size, **of_fetch | columns)


def throttled_log(rows: list[Row]) -> list[Row]:
    """Return ``rows`` with the throttles that Kafka's rule gives at their times."""
    rates: dict[str, Rate] = {}
    told = []
    for row in rows:
        rate = rates.setdefault(row["quota_user"], Rate(RULES.profile))
        at_ms = row["recorded_at_ms"]
        rate.record(row["amount"], at_ms)
        measured = rate.measure(at_ms)
        window_ms = rate.window_size_ms(at_ms)
        over = max(measured - row["bound"], 0.0) / row["bound"] * window_ms
        told.append(row | {"logged_throttle_time_ms": int(over + 0.5)})
    return told


def decided(
    lane: RateLane, rows: list[Row], cuts: set[int] | None = None, *, is_over: bool = True
) -> list[Row]:
    """Return the decisions of ``rows``, in order of time, taken in pieces that end at ``cuts``."""
    inside = sorted(cut for cut in cuts or () if 0 < cut < len(rows))
    found: list[Decided] = []
    for begin, end in itertools.pairwise([0, *inside, len(rows)]):
        lane.take(lane_rows(rows[begin:end], lane.codes))
        is_last = is_over and end == len(rows)
        until_ms = None if is_last else rows[min(end, len(rows) - 1)]["recorded_at_ms"]
        part = lane.decide(until_ms)
        found += [part] if part is not None else []
    if is_over and (rest := lane.decide(None)) is not None:
        found.append(rest)
    return [row for part in found for row in decisions(part, lane, shared=False).to_pylist()]


def by_sensor(rows: list[Row]) -> list[Row]:
    """Return decisions sensor by sensor, each in its order."""
    return sorted(rows, key=lambda r: (r["quota_user"], r["sensor_epoch"], r["sensor_seq"]))


GAPS = st.sampled_from([0, 1, 3, 300, 999, 1000, 5_000, 23_000, EXPIRED_AFTER_MS + 1])
SIZES = st.integers(1, 9_000)


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Return produces of three users in order of time; one user is never near its bound."""
    rows: list[Row] = []
    at_ms = restart_ms = 0
    for gap_ms, user, size, restarts in draw(
        st.lists(
            st.tuples(GAPS, st.sampled_from("abc"), SIZES, st.sampled_from([False] * 9 + [True])),
            max_size=60,
        )
    ):
        at_ms += gap_ms
        restart_ms = NOON_MS + at_ms if restarts else restart_ms
        bound = 1e9 if user == "c" else 1000.0
        rows.append(
            produce(at_ms, float(size), quota_user=user, bound=bound, restart_ms=restart_ms)
            | {"source_line": len(rows)}
        )
    told = throttled_log(rows)
    lie = draw(st.integers(0, 400))
    return [r | {"logged_throttle_time_ms": lie} if i % 17 == 16 else r for i, r in enumerate(told)]


@given(logs(), st.sets(st.integers(1, 60), max_size=6))
@settings(max_examples=60, deadline=None)
def test_where_produces_are_cut_changes_nothing(rows: list[Row], cuts: set[int]) -> None:
    whole, parts = opened(), opened()
    assert by_sensor(decided(parts, rows, cuts)) == by_sensor(decided(whole, rows))
    in_order = [("quota_user", "ascending")]
    assert states(parts).sort_by(in_order) == states(whole).sort_by(in_order)


@st.composite
def reads(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    at_ms = 0
    steps = st.tuples(GAPS, st.sampled_from("ab"), SIZES, st.sampled_from([0, 0, 40, 2_000]))
    for gap_ms, user, size, throttle_ms in draw(st.lists(steps, max_size=60)):
        at_ms += gap_ms
        rows.append(
            fetch(at_ms, float(size), throttle_ms, quota_user=user, connection=user)
            | {"source_line": len(rows)}
        )
    return rows


@given(reads(), st.sets(st.integers(1, 60), max_size=6))
@settings(max_examples=60, deadline=None)
def test_where_fetches_are_cut_changes_nothing(rows: list[Row], cuts: set[int]) -> None:
    found = by_sensor(decided(opened(FETCHES), rows, cuts))
    assert found == by_sensor(decided(opened(FETCHES), rows))


@given(logs())
@settings(max_examples=40, deadline=None)
def test_every_row_is_decided_once_and_in_a_place_of_its_own(rows: list[Row]) -> None:
    found = decided(opened(), rows)
    assert sorted(r["source_line"] for r in found) == [r["source_line"] for r in rows]
    places = [(r["quota_user"], r["sensor_epoch"], r["sensor_seq"]) for r in found]
    assert len(set(places)) == len(places)


@given(logs())
@settings(max_examples=40, deadline=None)
def test_as_estimated_every_rate_is_what_the_readable_rule_says(rows: list[Row]) -> None:
    rates: dict[tuple[str, int], Rate] = {}
    found = {r["source_line"]: r for r in decided(opened(AsEstimated()), rows)}
    for row in rows:
        decision = found[row["source_line"]]
        life = (row["quota_user"], decision["sensor_epoch"])
        rate = rates.setdefault(life, Rate(RULES.profile))
        rate.record(row["amount"], row["recorded_at_ms"])
        assert decision["rate"] == rate.measure(row["recorded_at_ms"])


def test_a_day_that_takes_over_the_states_goes_on_with_them() -> None:
    rows = throttled_log([produce(at, 700.0) for at in range(0, 60_000, 500)])
    whole = opened(AsEstimated())
    expected = decided(whole, rows)
    first = opened(AsEstimated())
    before = decided(first, rows[:60])
    carried = dict(CarriedState.of_row(row) for row in states(first).to_pylist())
    second = opened(AsEstimated(), carried)
    after = decided(second, rows[60:])
    places = [(r["sensor_epoch"], r["sensor_seq"]) for r in before + after]
    assert places == [(r["sensor_epoch"], r["sensor_seq"]) for r in expected]
    assert states(second) == states(whole)


def test_an_explained_throttle_is_proven_and_agrees() -> None:
    rows = throttled_log([produce(at, 900.0) for at in range(0, 60_000, 450)])
    moved = [r | {"recorded_at_ms": r["recorded_at_ms"] + 2, "latest_ms": r["latest_ms"] + 2}
             for r in rows]  # fmt: skip
    found = decided(opened(), moved)
    throttled = [r for r in found if r["logged_throttle_time_ms"] > 0]
    assert len(throttled) > 50
    assert {r["verdict"] for r in throttled} == {"agree"}
    assert sum(r["is_proven"] for r in throttled) > len(throttled) / 2


def test_a_sensor_near_its_bound_is_searched_and_others_wait_for_nobody() -> None:
    busy = [produce(at, 100.0, quota_user="busy") for at in range(0, 200_000, 10)]
    calm = [produce(at, 1.0, quota_user="calm", bound=1e9) for at in range(5, 200_000, 1_000)]
    rows = throttled_log(sorted(busy + calm, key=lambda r: r["recorded_at_ms"]))
    assert len(busy) > ROWS_MAX
    lane = opened()
    found = decided(lane, rows, is_over=False)
    of_calm = [r["recorded_at_ms"] for r in found if r["quota_user"] == "calm"]
    # All but two looks and what has passed since the last one.
    assert max(of_calm) >= rows[-1]["recorded_at_ms"] - 2 * PRODUCES.look_ms
    assert max(r["sensor_seq"] for r in found if r["quota_user"] == "busy") > ROWS_MAX // 2


@pytest.mark.parametrize("settling", [PRODUCES, FETCHES, AsEstimated()], ids=type)
def test_without_rows_nothing_is_decided(settling: Settling) -> None:
    assert opened(settling).decide(None) is None
    assert opened(settling).decide(NOON_MS) is None


def test_a_restarted_broker_and_an_hour_of_silence_begin_a_sensors_next_epoch() -> None:
    rows = [produce(at, 9_000.0) for at in (0, 500, 4_000)]
    rows += [produce(at, 10.0, restart_ms=NOON_MS + 5_000) for at in (6_000, 6_500)]
    later = 6_501 + EXPIRED_AFTER_MS
    rows += [produce(later, 10.0, restart_ms=NOON_MS + 5_000)]
    found = decided(opened(AsEstimated()), rows)
    places = [(r["sensor_epoch"], r["sensor_seq"]) for r in found]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert [r["rate"] for r in found][3:] == [1.0, 20.0 / 10.5, 1.0]


def test_rows_of_every_column_stay_together() -> None:
    rows = [produce(at, float(at), quota_user=u) for at, u in ((5, "b"), (6, "a"), (7, "b"))]
    made = lane_rows(rows)
    turned = made.take(np.array([2, 0]))
    for field in fields(LaneRows)[1:]:
        column, picked = getattr(made, field.name), getattr(turned, field.name)
        assert np.array_equal(picked, column[[2, 0]], equal_nan=column.dtype.kind == "f")
    assert turned.own_lines()["source_line"].to_pylist() == [7, 5]


def test_the_table_of_verdicts_has_a_row_for_every_check() -> None:
    assert len(RATE_VERDICTS) == 14
    assert {verdict for verdict, _ in RATE_VERDICTS} == {
        "no_quota", "indeterminate", "agree", "under_throttled", "over_throttled",
    }  # fmt: skip
