"""The meter, by the document's worked numbers and beside the libraries' own classes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.whatif.policies.broker_side.broker_side_v1 import (
    M1_ALPHA,
    TICK_INTERVAL_MS,
    OneMinuteRate,
    Ticks,
)
from tests.oracle.jars import maven_jar, run_java
from tests.oracle.jvm_quota import bits

PROGRAM = Path(__file__).parents[4] / "oracle" / "java" / "MeterOracle.java"
LIBRARY = {Ticks.WHEN_TOUCHED: "dropwizard", Ticks.FIXED_SCHEDULE: "yammer"}
T = 1_700_000_000_000
READ = -1
SEED, METERS, ROWS = 20261205, 200, 150
# Dropwizard's maxTicks comes after some 12.8 h; the random traffic is never idle for as long.
IDLE_MS_MAX = 30_000_000
TOO_IDLE_MS = 47_000_000

each_schedule = pytest.mark.parametrize("ticks", list(Ticks))


class Row(NamedTuple):
    """An amount marked at a time, or the rate read."""

    meter: int
    now_ms: int
    amount: int


def rates(rows: Iterable[Row], ticks: Ticks) -> list[float]:
    meters: dict[int, OneMinuteRate] = {}
    found = []
    for row in rows:
        meter = meters.setdefault(row.meter, OneMinuteRate(row.now_ms, ticks))
        if row.amount == READ:
            found.append(meter.rate(row.now_ms))
        else:
            meter.mark(row.amount, row.now_ms)
    return found


def library_rates(rows: Iterable[Row], ticks: Ticks) -> list[float]:
    """Return the rates that the library's own meter has, bit for bit."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations is not None
    jars_of_spark = Path(found.submodule_search_locations[0]) / "jars"
    (dropwizard,) = jars_of_spark.glob("metrics-core-4.2.*.jar")
    jars = [dropwizard, maven_jar("com.yammer.metrics:metrics-core:2.2.0")]
    text = "".join(f"{row.meter} {row.now_ms} {row.amount}\n" for row in rows)
    printed = run_java(PROGRAM, jars, LIBRARY[ticks], stdin=text)
    return np.array(printed.split(), np.int64).view(np.float64).tolist()


@cache
def random_rows() -> list[Row]:
    chance, rows = random.Random(SEED), []
    steps = [0, 1, 700, 4_999, 5_000, 5_001, 10_000, 12_345, 60_000, 3_600_000, IDLE_MS_MAX]
    weights = [10, 10, 60, 4, 20, 4, 10, 20, 4, 1, 0.2]
    for meter in range(METERS):
        now_ms = chance.randrange(T)
        for _ in range(ROWS):
            step_ms = chance.choices(steps, weights)[0]
            # Now and then a thread reads the clock and comes too late.
            late_ms = chance.choice([0] * 9 + [3])
            if meter % 2:
                # Whole seconds: often in the very millisecond of a tick.
                step_ms, late_ms = 1_000 * (step_ms // 700), 0
            now_ms += step_ms
            is_read = chance.random() < 0.5
            amount = chance.randrange(2 ** chance.choice([4, 20, 31, 54]))
            rows.append(Row(meter, now_ms - late_ms, READ if is_read else amount))
    return rows


@each_schedule
def test_must_rates_after_60_0_0_and_300_bytes(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    found = []
    for interval, amount in enumerate([60, 0, 0, 300]):
        start_ms = T + interval * TICK_INTERVAL_MS
        meter.mark(amount, start_ms + 1)
        found.append(meter.rate(start_ms + TICK_INTERVAL_MS + 1))
    assert found[0] == 12
    assert found[1:] == pytest.approx([11.040533, 10.157781, 14.142945], abs=5e-7)


def test_must_alpha_is_one_less_e_to_the_minus_5_60ths() -> None:
    assert M1_ALPHA == 0.07995558537067671


@each_schedule
def test_a_meter_is_0_until_its_first_tick(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(1_000, T)
    assert meter.rate(T + 4_999) == 0.0
    assert meter.rate(T + 5_001) == 200.0


@each_schedule
def test_the_first_tick_after_creation_initialises_even_with_0_bytes(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(300, T + 5_001)
    assert meter.rate(T + 10_001) == pytest.approx(M1_ALPHA * 60)
    assert meter.count == 300


@each_schedule
def test_between_ticks_the_rate_stays_that_of_the_last_one(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(60, T)
    for now_ms in (T + 5_001, T + 7_000, T + 9_999):
        assert meter.rate(now_ms) == 12.0
        meter.mark(1_000, now_ms)


@each_schedule
def test_ticks_missed_are_caught_up_and_the_bytes_belong_to_the_first(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(60, T)
    meter.mark(300, T + 15_001)
    assert meter.rate(T + 15_002) == pytest.approx(10.157781, abs=5e-7)
    assert meter.rate(T + 20_001) == pytest.approx(14.142945, abs=5e-7)


@each_schedule
def test_ticks_are_anchored_at_the_creation_not_at_the_last_touch(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(60, T)
    assert meter.rate(T + 8_000) == 12.0
    assert meter.rate(T + 9_999) == 12.0
    assert meter.rate(T + 10_001) < 12.0


def test_dropwizard_waits_for_more_than_5_s_and_the_schedule_does_not() -> None:
    rows = [Row(0, T, 60), Row(0, T + 5_000, READ), Row(0, T + 5_000, 60), Row(0, T + 5_001, READ)]
    assert rates(rows, Ticks.WHEN_TOUCHED) == [0.0, 24.0]
    assert rates(rows, Ticks.FIXED_SCHEDULE) == [12.0, 12.0]


def test_the_schedules_differ_only_by_what_comes_in_the_millisecond_of_a_tick() -> None:
    some = random_rows()[: 20 * ROWS]
    first_ms: dict[int, int] = {}
    rows = []
    for row in some:
        created_ms = first_ms.setdefault(row.meter, row.now_ms)
        is_at_tick = row.now_ms > created_ms and (row.now_ms - created_ms) % TICK_INTERVAL_MS == 0
        rows.append(row._replace(now_ms=row.now_ms + is_at_tick))
    assert rates(rows, Ticks.WHEN_TOUCHED) == rates(rows, Ticks.FIXED_SCHEDULE)
    assert rates(some, Ticks.WHEN_TOUCHED) != rates(some, Ticks.FIXED_SCHEDULE)


@each_schedule
def test_a_late_clock_counts_for_the_interval_in_progress(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(60, T)
    assert meter.rate(T + 5_001) == 12.0
    meter.mark(60, T - 1_000)
    assert meter.rate(T + 10_001) == 12.0


@each_schedule
def test_a_year_of_idleness_ends_at_next_to_nothing_and_costs_no_time(ticks: Ticks) -> None:
    meter = OneMinuteRate(T, ticks)
    meter.mark(10**12, T)
    assert 0.0 <= meter.rate(T + 365 * 86_400_000) < 1e-300


@each_schedule
@given(
    marks=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 10**9)), max_size=30),
    at_ms=st.lists(st.integers(0, 600_000), max_size=10),
)
def test_reading_does_not_change_the_rate(
    ticks: Ticks, marks: list[tuple[int, int]], at_ms: list[int]
) -> None:
    now_ms, rows = 0, [Row(0, 0, 0)]
    for step_ms, amount in marks:
        now_ms += step_ms
        rows.append(Row(0, now_ms, amount))
    # Not in the millisecond of a tick: there, a touch before makes Dropwizard tick later.
    rows = [row._replace(now_ms=10 * row.now_ms + 7 * (row.now_ms > 0)) for row in rows]
    last = Row(0, rows[-1].now_ms + 10, READ)
    reads = [Row(0, 10 * moment + 7, READ) for moment in at_ms if 10 * moment + 7 < last.now_ms]
    with_reads = sorted([*rows[1:], *reads], key=lambda row: row.now_ms)
    assert rates([rows[0], *with_reads, last], ticks)[-1] == rates([*rows, last], ticks)[-1]


@each_schedule
@given(amounts=st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_a_rate_is_never_outside_the_rates_of_the_intervals(
    ticks: Ticks, amounts: list[int]
) -> None:
    meter = OneMinuteRate(T, ticks)
    for interval, amount in enumerate(amounts):
        meter.mark(amount, T + interval * TICK_INTERVAL_MS + 1)
    rate = meter.rate(T + len(amounts) * TICK_INTERVAL_MS + 1)
    slack = 1e-9 * (max(amounts) + 1)
    assert min(amounts) / 5 - slack <= rate <= max(amounts) / 5 + slack


@pytest.mark.jvm
@each_schedule
def test_rates_are_those_of_the_librarys_own_meter_to_the_last_bit(ticks: Ticks) -> None:
    expected = library_rates(random_rows(), ticks)
    found = rates(random_rows(), ticks)
    differing = np.flatnonzero(bits(expected) != bits(found))
    assert [(int(i), expected[i], found[i]) for i in differing[:3]] == []
    assert np.count_nonzero(found) > 10_000


@pytest.mark.jvm
def test_the_other_schedule_is_not_the_librarys() -> None:
    found = rates(random_rows(), Ticks.FIXED_SCHEDULE)
    differs = bits(library_rates(random_rows(), Ticks.WHEN_TOUCHED)) != bits(found)
    assert np.mean(differs) > 0.1


@pytest.mark.jvm
def test_dropwizards_cap_on_idle_time_is_off() -> None:
    long_after_ms = T + TOO_IDLE_MS
    idle = [Row(0, T, 60), Row(0, long_after_ms, READ)]
    # Never read before the 12.8 h: there, the capped meter starts as if it were new.
    again = [Row(0, long_after_ms, 300), Row(0, long_after_ms + 5_001, READ)]
    assert library_rates(idle + again, Ticks.WHEN_TOUCHED)[1] == pytest.approx(60.0)
    assert rates(idle + again, Ticks.WHEN_TOUCHED)[1] == pytest.approx(M1_ALPHA * 60)
    # Once a meter has ticked, the cap makes no difference that a threshold could see.
    ticked = [Row(0, T, 60), Row(0, T + 5_001, READ), *idle[1:], *again]
    capped, found = (of(ticked, Ticks.WHEN_TOUCHED) for of in (library_rates, rates))
    assert capped[1] != found[1]
    assert max(capped[1], found[1]) < 1e-298
    assert capped[2] == found[2] == pytest.approx(M1_ALPHA * 60)
