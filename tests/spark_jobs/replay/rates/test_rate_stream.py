"""A stream of sensors, all open: what is decided does not depend on how the rows came in."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.rates.fixed_times import ROWS_MAX, Fixing
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_interval import Handover
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.rates.stream_tables import states
from spark_jobs.replay.sensors.sensor_states import CarriedState
from spark_jobs.replay.verdicts.verdicts import RATE_VERDICTS
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.stream_logs import (
    FETCHES,
    PRODUCES,
    RULES,
    TOLERANCES,
    Row,
    by_sensor,
    decided,
    logs,
    opened,
    produce,
    reads,
    throttled_log,
)
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows


def ended(stream: RateStream) -> pa.Table:
    """Return the states at the end, where all is fixed."""
    return states(stream, Handover(stream))


@given(logs(), st.sets(st.integers(1, 60), max_size=6))
@settings(max_examples=60)
def test_where_produces_are_cut_changes_nothing(rows: list[Row], cuts: set[int]) -> None:
    whole, parts = opened(), opened()
    assert by_sensor(decided(parts, rows, cuts)) == by_sensor(decided(whole, rows))
    in_order = [("quota_user", "ascending")]
    assert ended(parts).sort_by(in_order) == ended(whole).sort_by(in_order)


@given(reads(), st.sets(st.integers(1, 60), max_size=6))
@settings(max_examples=60)
def test_where_fetches_are_cut_changes_nothing(rows: list[Row], cuts: set[int]) -> None:
    found = by_sensor(decided(opened(FETCHES), rows, cuts))
    assert found == by_sensor(decided(opened(FETCHES), rows))


@given(logs())
@settings(max_examples=40)
def test_every_row_is_decided_once_and_in_a_place_of_its_own(rows: list[Row]) -> None:
    found = decided(opened(), rows)
    assert sorted(r["source_line"] for r in found) == [r["source_line"] for r in rows]
    places = [(r["quota_user"], r["sensor_epoch"], r["sensor_seq"]) for r in found]
    assert len(set(places)) == len(places)


@given(logs())
@settings(max_examples=40)
def test_as_estimated_every_rate_is_what_the_readable_rule_says(rows: list[Row]) -> None:
    rates: dict[tuple[str, int], Rate] = {}
    found = {r["source_line"]: r for r in decided(opened(Fixing()), rows)}
    for row in rows:
        decision = found[row["source_line"]]
        life = (row["quota_user"], decision["sensor_epoch"])
        rate = rates.setdefault(life, Rate(RULES.profile))
        rate.record(row["amount"], row["recorded_at_ms"])
        assert decision["rate"] == rate.measure(row["recorded_at_ms"])


def test_a_day_that_takes_over_the_states_goes_on_with_them() -> None:
    rows = throttled_log([produce(at, 700.0) for at in range(0, 60_000, 500)])
    whole = opened(Fixing())
    expected = decided(whole, rows)
    first = opened(Fixing())
    before = decided(first, rows[:60])
    carried = dict(CarriedState.of_row(row) for row in ended(first).to_pylist())
    second = opened(Fixing(), carried)
    after = decided(second, rows[60:])
    places = [(r["sensor_epoch"], r["sensor_seq"]) for r in before + after]
    assert places == [(r["sensor_epoch"], r["sensor_seq"]) for r in expected]
    assert ended(second) == ended(whole)


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
    stream = opened()
    found = decided(stream, rows, is_over=False)
    of_calm = [r["recorded_at_ms"] for r in found if r["quota_user"] == "calm"]
    # All but two looks and what has passed since the last one.
    assert max(of_calm) >= rows[-1]["recorded_at_ms"] - 2 * PRODUCES.look_ms
    assert max(r["sensor_seq"] for r in found if r["quota_user"] == "busy") > ROWS_MAX // 2


@pytest.mark.parametrize("fixing", [PRODUCES, FETCHES, Fixing()], ids=type)
def test_without_rows_nothing_is_decided(fixing: Fixing) -> None:
    assert opened(fixing).decide(None) is None
    assert opened(fixing).decide(NOON_MS) is None


def test_a_restarted_broker_and_an_hour_of_silence_begin_a_sensors_next_epoch() -> None:
    rows = [produce(at, 9_000.0) for at in (0, 500, 4_000)]
    rows += [produce(at, 10.0, restart_ms=NOON_MS + 5_000) for at in (6_000, 6_500)]
    later = 6_501 + EXPIRED_AFTER_MS
    rows += [produce(later, 10.0, restart_ms=NOON_MS + 5_000)]
    found = decided(opened(Fixing()), rows)
    places = [(r["sensor_epoch"], r["sensor_seq"]) for r in found]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert [r["rate"] for r in found][3:] == [1.0, 20.0 / 10.5, 1.0]


def test_rows_of_every_column_stay_together() -> None:
    rows = [produce(at, float(at), quota_user=u) for at, u in ((5, "b"), (6, "a"), (7, "b"))]
    made = stream_rows(rows)
    turned = made.take(np.array([2, 0]))
    for field in fields(StreamRows)[1:]:
        column, picked = getattr(made, field.name), getattr(turned, field.name)
        assert np.array_equal(picked, column[[2, 0]], equal_nan=column.dtype.kind == "f")
    assert turned.own_lines()["source_line"].to_pylist() == [7, 5]


def test_the_table_of_verdicts_has_a_row_for_every_check() -> None:
    assert len(RATE_VERDICTS) == 15
    assert {verdict for verdict, _ in RATE_VERDICTS} == {
        "no_quota", "indeterminate", "agree", "under_throttled", "over_throttled",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("at_ms", "restart_ms", "place"),
    [
        (1_000, 0, (4, 7)),
        (1_000, NOON_MS - 60_000, (4, 7)),
        (1_000, NOON_MS + 500, (5, 0)),
        (EXPIRED_AFTER_MS + 1, 0, (5, 0)),
    ],
    ids=["goes on", "started long before", "restarted since", "idle for an hour"],
)
def test_a_state_of_the_day_before_is_forgotten_like_any_other(
    at_ms: int, restart_ms: int, place: tuple[int, int]
) -> None:
    state = CarriedState(4, 7, 0, ((NOON_MS - 500, NOON_MS, 5_000.0),))
    stream = opened(Fixing(), {SensorKey(1, "producer_byte_rate", "alice", ""): state})
    (found,) = decided(stream, [produce(at_ms, 10.0, restart_ms=restart_ms)])
    assert (found["sensor_epoch"], found["sensor_seq"]) == place
    assert found["rate"] == (1.0 if place[0] == 5 else pytest.approx(5_010 / 10.5))


def test_a_state_kept_under_other_settings_is_lost_with_the_restart_between() -> None:
    samples = tuple((NOON_MS - i * 1000, NOON_MS - i * 1000, 5e6) for i in range(13))
    key = SensorKey(1, "producer_byte_rate", "alice", "")
    stream = opened(Fixing(), {key: CarriedState(0, 40, 0, samples)})
    (found,) = decided(stream, [produce(0, 10.0)])
    assert (found["sensor_epoch"], found["sensor_seq"]) == (1, 0)
    assert found["replayed_throttle_time_ms"] == 0


@pytest.mark.parametrize("gap_ms", [3_600_001, EXPIRED_AFTER_MS, EXPIRED_AFTER_MS + 1])
def test_what_is_left_after_an_hour_decides_as_an_empty_sensor_does(gap_ms: int) -> None:
    history = [produce(at_ms, 50_000.0) for at_ms in range(0, 15_000, 400)]
    later = [produce(15_000 + gap_ms + at_ms, 700.0) for at_ms in range(0, 30_000, 350)]
    columns = ("rate", "window_size_ms", "replayed_throttle_time_ms")
    kept = decided(opened(Fixing()), history + later)[len(history) :]
    fresh = decided(opened(Fixing()), later)
    assert [[d[c] for c in columns] for d in kept] == [[d[c] for c in columns] for d in fresh]


def test_a_decision_without_a_bound_has_no_replayed_throttle() -> None:
    (found,) = decided(opened(), [produce(0, 5.0, bound=float("nan"))])
    assert (found["verdict"], found["replayed_throttle_time_ms"]) == ("no_quota", None)
    assert found["bound"] is None


def verdicts_of_blocked(logged_ms: int, throttle_max_ms: int | None) -> set[str]:
    """Return what is said of produces that a bound of 1 B/s is to block, each throttled so."""
    rules = replace(RULES, throttle_max_ms=throttle_max_ms)
    states = StreamStates(rules, "producer_byte_rate")
    stream = RateStream(1, SensorCodes(), states, Fixing(), TOLERANCES, {}, unrecords=False)
    row = produce(100, 3e6, bound=1.0, logged_throttle_time_ms=logged_ms)
    return {decision["verdict"] for decision in decided(stream, [row])}


def test_a_throttle_of_weeks_is_what_the_brokers_version_makes_of_it() -> None:
    # 3 MB at 1 B/s are 34.6 days: up to 4.3 that wraps to less than nothing.
    assert verdicts_of_blocked(0, throttle_max_ms=None) == {"agree"}
    assert verdicts_of_blocked(INT_MAX, throttle_max_ms=INT_MAX) == {"agree"}
    assert verdicts_of_blocked(INT_MAX, throttle_max_ms=None) != {"agree"}
    assert verdicts_of_blocked(0, throttle_max_ms=INT_MAX) != {"agree"}
