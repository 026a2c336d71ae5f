"""A log in two intervals, one after the other, is decided as if it were one."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.rates.fixed_times import Fixing
from spark_jobs.replay.rates.stream_interval import StreamInterval
from spark_jobs.replay.rates.stream_tables import decisions, states
from spark_jobs.replay.sensors.sensor_states import CarriedState
from spark_jobs.warehouse.days import Interval
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.stream_logs import (
    FETCHES,
    PRODUCES,
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

LONG_MS = 10 * 86_400_000
LATE_MAX_MS = 4_000
States = dict[SensorKey, CarriedState]


def in_interval(
    rows: list[Row], interval: Interval, fixing: Fixing, carried: States, pieces: set[int]
) -> tuple[list[Row], States, States]:
    """Return what is decided of an interval's lines, what it hands on, and the states at its end.

    ``rows`` are all there are; those are read that a replay reads, in pieces.
    """
    since = [state.resumes_at[0] for state in carried.values() if state.resumes_at is not None]
    read = [
        row
        for row in rows
        if interval.from_ms <= row["log_time_ms"] < interval.until_ms
        or (
            row["log_time_ms"] < interval.from_ms
            and row["recorded_at_ms"] >= min(since, default=NOON_MS + LONG_MS)
        )
        or (row["log_time_ms"] >= interval.until_ms and row["order_us"] < interval.ahead_until_us)
    ]
    stream = opened(fixing, carried)
    whole = StreamInterval(stream, interval, 1, reads_around=True)
    found: list[Row] = []
    inside = sorted(piece for piece in pieces if 0 < piece < len(read))
    for begin, end in itertools.pairwise([0, *inside, len(read)]):
        until_ms = None if end == len(read) else read[end]["recorded_at_ms"]
        for part in whole.decided(stream_rows(read[begin:end], stream.codes), until_ms):
            found += decisions(part, stream, shared=False).to_pylist()
    ended = states(*whole.states()).to_pylist()
    return found, *(dict(map(of, ended)) for of in (CarriedState.handed_on, CarriedState.of_row))


def in_two(
    rows: list[Row],
    cut_ms: int,
    fixing: Fixing,
    *,
    pieces: set[int],
    ahead_ms: int = LONG_MS,
) -> list[Row]:
    """Return what is decided of ``rows`` where the log is cut at ``cut_ms`` after noon."""
    cut = NOON_MS + cut_ms
    before = Interval(0, cut, handover_ms=LATE_MAX_MS, ahead_ms=ahead_ms)
    after = Interval(cut, NOON_MS + LONG_MS)
    first, handed_on, _ = in_interval(rows, before, fixing, {}, pieces)
    second, _, _ = in_interval(rows, after, fixing, handed_on, pieces)
    assert all(row["log_time_ms"] < cut for row in first)
    assert all(row["log_time_ms"] >= cut for row in second)
    return by_sensor(first + second)


def written(rows: list[Row], late_ms: list[int]) -> list[Row]:
    """Return rows whose lines were written so much later, in turn."""
    late = itertools.cycle(late_ms)
    return [row | {"log_time_ms": row["recorded_at_ms"] + next(late)} for row in rows]


LATE = st.lists(st.sampled_from([0, 1, 30, 900, LATE_MAX_MS - 1]), min_size=1, max_size=7)
PIECES = st.sets(st.integers(1, 60), max_size=5)


@st.composite
def cuts(draw: st.DrawFn, rows: list[Row]) -> int:
    """Return a moment near a line, in ms after noon."""
    if not rows:
        return 0
    near = draw(st.sampled_from(rows))["log_time_ms"] - NOON_MS
    return near + draw(st.sampled_from([0, 1, -500, 20_000]))


@given(st.data(), logs(), LATE, PIECES)
@settings(max_examples=40)
def test_wherever_a_log_of_produces_is_cut_it_is_decided_as_one(
    data: st.DataObject, log: list[Row], late_ms: list[int], pieces: set[int]
) -> None:
    rows = written(log, late_ms)
    found = in_two(rows, data.draw(cuts(rows)), PRODUCES, pieces=pieces)
    assert found == by_sensor(decided(opened(PRODUCES), rows))


@given(st.data(), reads(), LATE, PIECES)
@settings(max_examples=40)
def test_wherever_a_log_of_fetches_is_cut_it_is_decided_as_one(
    data: st.DataObject, log: list[Row], late_ms: list[int], pieces: set[int]
) -> None:
    rows = written(log, late_ms)
    found = in_two(rows, data.draw(cuts(rows)), FETCHES, pieces=pieces)
    assert found == by_sensor(decided(opened(FETCHES), rows))


def test_a_throttled_client_that_went_away_is_handed_on_as_it_ended() -> None:
    rows = throttled_log([produce(at, 3_000.0) for at in range(0, 120_000, 500)])
    assert any(row["logged_throttle_time_ms"] for row in rows)
    evening = Interval(0, NOON_MS + LONG_MS)
    found, handed_on, ended = in_interval(rows, evening, PRODUCES, {}, set())
    assert len(found) == len(rows)
    assert handed_on == ended
    assert [state.resumes_at for state in handed_on.values()] == [None]


def test_of_a_client_that_goes_on_the_first_amount_that_is_not_fixed_is_handed_on() -> None:
    rows = throttled_log([produce(at, 3_000.0) for at in range(0, 120_000, 500)])
    cut = rows[-1]["recorded_at_ms"] + 1
    _, handed_on, ended = in_interval(rows, Interval(0, cut, handover_ms=1000), PRODUCES, {}, set())
    (state,), (at_the_end,) = handed_on.values(), ended.values()
    assert state.resumes_at is not None
    at_ms, file, line = state.resumes_at
    assert (at_ms, file, line) in {
        (r["recorded_at_ms"], r["source_file"], r["source_line"]) for r in rows
    }
    assert state.sensor_seq < at_the_end.sensor_seq == len(rows)
