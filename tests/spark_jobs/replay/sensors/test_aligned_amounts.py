"""Sorted amounts of many sensors: each is gathered as its quota type asks for, none is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.sensors.aligned_amounts import align_amounts
from spark_jobs.replay.sensors.aligned_rows import ALIGNED_AMOUNTS
from spark_jobs.replay.sensors.amounts import AMOUNTS
from spark_jobs.replay.sensors.sensor_replay import (
    EXPIRED_AFTER_MS,
    REPLAYED,
    STATE,
    BrokerRules,
    CarriedState,
    replay_sensors,
)
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.warehouse.tables import QUOTA_STATE
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.amount_rows import amount, batch_of, cut, rows_of

_, _, *GATHERED = QUOTA_TYPES
REQUEST, MUTATION = GATHERED
RULES = {
    broker: BrokerRules(profile, 11, 1000, 11, 1000)
    for broker, profile in ((1, RateProfile.RATE_3_8), (2, RateProfile.RATE_3_3))
}
Row = dict[str, Any]


def aligned(
    rows: list[Row],
    cuts: set[int] | None = None,
    carried: dict[SensorKey, CarriedState] | None = None,
    rules: dict[int, BrokerRules] | None = None,
) -> list[pa.RecordBatch]:
    run = align_amounts(rules or RULES, carried or {})
    return list(run(cut(batch_of(rows), cuts or set())))


def sensor_of(row: Row) -> SensorKey:
    return row["broker_id"], row["quota_type"], row["quota_user"], row["quota_client_id"]


@st.composite
def sensors(draw: st.DrawFn) -> list[Row]:
    """Return the rows of a few sensors, each contiguous and in the order of its estimates."""
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from([1, 2]), st.sampled_from(GATHERED), st.sampled_from("ab")),
            unique=True, min_size=1, max_size=6,
        )
    )  # fmt: skip
    rows: list[Row] = []
    for broker_id, quota_type, user in sorted(keys):
        at_ms = 0
        gaps = st.sampled_from([0, 1, 2, 300, 1000, 12_000, EXPIRED_AFTER_MS + 1])
        for gap_ms, value in draw(
            st.lists(st.tuples(gaps, st.integers(0, 9_000)), min_size=1, max_size=8)
        ):
            at_ms += gap_ms
            rows.append(
                amount(
                    at_ms, float(value), broker_id=broker_id, quota_type=quota_type,
                    quota_user=user, source_line=len(rows), earliest_ms=at_ms - 3,
                    logged_throttle_time_ms=draw(st.sampled_from([0, 0, 0, 40])),
                    unlogged_amount_max=0.1 if quota_type == REQUEST else None,
                )
            )  # fmt: skip
    return rows


@given(sensors(), st.sets(st.integers(1, 48), max_size=6))
@settings(max_examples=30)
def test_nothing_is_lost_and_sensors_stay_contiguous(rows: list[Row], cuts: set[int]) -> None:
    batches = aligned(rows, cuts)
    assert all(batch.schema.equals(ALIGNED_AMOUNTS) for batch in batches)
    found = rows_of(batches)
    runs = [key for key, _ in itertools.groupby(found, sensor_of)]
    assert runs == [key for key, _ in itertools.groupby(rows, sensor_of)]
    kept = [name for name in AMOUNTS.names if name != "recorded_at_ms"]
    by_line = sorted(found, key=lambda row: row["source_line"])
    given_in = batch_of(rows).to_pylist()
    assert [[row[n] for n in kept] for row in by_line] == [[r[n] for n in kept] for r in given_in]
    still = [(r["source_line"], r["recorded_at_ms"]) for r in found if r["quota_type"] == REQUEST]
    assert still == [
        (r["source_line"], r["recorded_at_ms"]) for r in rows if r["quota_type"] == REQUEST
    ]


@given(sensors(), st.sets(st.integers(1, 48), max_size=6))
@settings(max_examples=25)
def test_where_batches_are_cut_changes_nothing(rows: list[Row], cuts: set[int]) -> None:
    assert rows_of(aligned(rows, cuts)) == rows_of(aligned(rows))


def out_before_the_end(quota_type: str, lines: list[int]) -> int:
    """Return how many rows came out while more of the sensor's could still come."""
    rows = batch_of(
        [amount(i, 1.0, quota_type=quota_type, source_line=n) for i, n in enumerate(lines)]
    )
    out = before_end = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal before_end
        yield rows
        before_end = out

    for batch in align_amounts(RULES, {})(batches()):
        out += len(batch)
    assert out == len(lines)
    return before_end


@pytest.mark.parametrize("quota_type", GATHERED)
def test_a_sensor_keeps_back_what_has_to_be_seen_together(quota_type: str) -> None:
    assert out_before_the_end(quota_type, [1, 2, 2, 3, 3]) == 0


@pytest.mark.parametrize("quota_type", GATHERED)
def test_only_the_request_quota_has_an_interval(quota_type: str) -> None:
    (row,) = rows_of(aligned([amount(0, 1.0, quota_type=quota_type, bound=5.0)]))
    told = row["throttle_time_min_ms"], row["throttle_time_max_ms"]
    assert told == ((0, 0) if quota_type == REQUEST else (None, None))


def request_times(*times_ms: int, **columns: Any) -> list[Row]:
    of_request = {"quota_type": REQUEST, "bound": 5.0, "unlogged_amount_max": 0.0}
    return [amount(at, 1.0, **of_request | columns) for at in times_ms]


HELD = CarriedState(0, 1, 0, ((NOON_MS - 9, NOON_MS - 9, 5.0),))
KEY = (1, REQUEST, "alice", "")


def is_said(rows: list[Row], carried: dict[SensorKey, CarriedState]) -> list[bool]:
    return [
        row["throttle_time_min_ms"] is not None for row in rows_of(aligned(rows, set(), carried))
    ]


def test_a_request_sensor_that_held_something_the_day_before_is_known_after_two_spans() -> None:
    rows = request_times(0, 21_999, 22_000)
    assert is_said(rows, {KEY: HELD}) == [False, False, True]
    assert is_said(rows, {(*KEY[:3], "other"): HELD}) == [True] * 3


def test_a_request_sensor_that_is_there_when_a_log_begins_is_known_after_two_spans() -> None:
    assert is_said(request_times(0, 21_999, 22_000, known_for_ms=999), {}) == [False, False, True]
    assert is_said(request_times(0, 22_000, known_for_ms=1_000), {}) == [True] * 2


def replayed(
    rows: list[Row], carried: dict[SensorKey, CarriedState]
) -> tuple[list[Row], dict[SensorKey, CarriedState]]:
    """Return the decisions of a day, and what it hands on as ``quota_state`` has it."""
    intervals: dict[SensorKey, Any] = {}
    align = align_amounts(RULES, carried, intervals)
    replay = replay_sensors(RULES, carried, Tolerances(2, 0, 0), intervals)
    found = pa.Table.from_batches(replay(align(cut(batch_of(rows), ()))), REPLAYED)
    is_state = pc.equal(found["row_kind"], STATE)
    states = found.filter(is_state).select(QUOTA_STATE.names).cast(QUOTA_STATE).to_pylist()
    decisions = found.filter(pc.invert(is_state)).to_pylist()
    return decisions, dict(CarriedState.of_row(row) for row in states)


def test_what_a_request_sensor_may_hold_goes_to_the_next_day_with_its_state() -> None:
    _, states = replayed(request_times(0, 900, 1_800), {})
    assert states.keys() == {KEY}
    after, _ = replayed(request_times(1_900, 2_750, amount=55.0), states)
    # 58 and 113 percent, where less than 55 are allowed.
    assert [row["throttle_time_min_ms"] is not None for row in after] == [True] * 2
    whole, _ = replayed(
        [*request_times(0, 900, 1_800), *request_times(1_900, 2_750, amount=55.0)], {}
    )
    told = ("throttle_time_min_ms", "throttle_time_max_ms", "replayed_throttle_time_ms", "rate")
    assert [[row[c] for c in told] for row in after] == [
        [row[c] for c in told] for row in whole[3:]
    ]
    assert max(row["throttle_time_max_ms"] for row in after) > 0


def test_what_was_held_under_other_settings_is_not_taken_over() -> None:
    _, states = replayed(request_times(*range(0, 9_000, 1_000)), {})
    kept = states[KEY].samples[:3]
    fewer = {broker: BrokerRules(rule.profile, 4, 1000, 11, 1000) for broker, rule in RULES.items()}
    rows = request_times(9_100, 31_000)
    found = rows_of(aligned(rows, set(), {KEY: replace(states[KEY], samples=kept)}, fewer))
    assert [row["throttle_time_min_ms"] is not None for row in found] == [False, True]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (request_times(0, restart_ms=NOON_MS - 5), [True]),
        (request_times(0, restart_ms=NOON_MS - 50), [False]),
        (request_times(EXPIRED_AFTER_MS), [True]),
        (request_times(0, EXPIRED_AFTER_MS + 1), [False, True]),
    ],
    ids=["restarted since", "restarted before", "idle since", "idle later"],
)
def test_what_was_held_the_day_before_is_forgotten_with_a_restart_or_after_an_hour(
    rows: list[Row], expected: list[bool]
) -> None:
    assert is_said(rows, {KEY: HELD}) == expected


def test_a_restarted_broker_counts_from_nothing() -> None:
    before = request_times(0)[0] | {"amount": 90.0}
    after = request_times(500, restart_ms=NOON_MS + 100)
    most = [row["throttle_time_max_ms"] for row in rows_of(aligned([before, *after]))]
    assert most == [1000, 0]


def test_empty_batches_are_passed_over() -> None:
    rows = batch_of(request_times(0, 10))
    run = align_amounts(RULES, {})
    found = list(run(iter([rows.slice(0, 0), rows, rows.slice(0, 0)])))
    assert [len(batch) for batch in found] == [2]
    assert list(run(iter([rows.slice(0, 0)]))) == []
