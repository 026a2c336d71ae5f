from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.recommend.weigh.observation import (
    FREE_RUN,
    PEAK_RATE,
    AskedAmounts,
    demand_of,
    muted_ms,
    rolling_rate,
)
from tests.builders.tables_builder import Row
from tests.spark_jobs.recommend.day import produces, steady

throttles = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), max_size=20)


def asked(rows: list[Row]) -> AskedAmounts:
    columns = ("recorded_at_ms", "amount", "rate", "logged_throttle_time_ms")
    return AskedAmounts(*(np.array([r[name] for r in rows]) for name in columns))


@given(throttles)
def test_time_muted_is_the_union_of_the_throttles(given_throttles: list) -> None:
    ordered = sorted(given_throttles)
    at_ms = np.array([at for at, _ in ordered], np.int64)
    throttle_ms = np.array([t for _, t in ordered], np.int64)
    union = {ms for at, t in ordered for ms in range(at, at + t)}
    assert muted_ms(at_ms, throttle_ms) == len(union)


@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 99)), min_size=1, max_size=30))
def test_a_rolling_rate_counts_the_span_before_each_amount(amounts: list) -> None:
    ordered = sorted(amounts)
    at_ms = np.array([at for at, _ in ordered])
    rates = rolling_rate(at_ms, np.array([float(a) for _, a in ordered]), 11_000)
    last = at_ms[-1]
    expected = sum(a for at, a in ordered if last - 11_000 < at <= last) / 11.0
    assert rates[-1] == expected


def test_an_unthrottled_client_wanted_its_peak_rate() -> None:
    rows = produces(steady(500.0, seconds=60), bound=1_000.0)
    demand = demand_of(asked(rows), window_ms=1000, samples=11)
    assert demand.basis == PEAK_RATE
    assert demand.rate == max(r["rate"] for r in rows)


def test_a_client_held_back_wanted_the_pace_it_had_before_it_was() -> None:
    rows = produces(steady(3_000.0, seconds=30), 1_000.0, waits=True)
    reached = max(r["rate"] for r in rows)
    demand = demand_of(asked(rows), window_ms=1000, samples=11)
    assert reached < 1_500
    assert demand.basis == FREE_RUN
    assert 2_900 <= demand.rate <= 3_000


def test_a_burst_that_only_grazed_the_bound_is_no_pace() -> None:
    burst = steady(11_000.0, seconds=1, per_second=20)
    calm = steady(100.0, seconds=60, from_ms=20_000)
    rows = produces([*burst, *calm], 1_000.0, waits=True)
    assert any(r["logged_throttle_time_ms"] for r in rows)
    assert demand_of(asked(rows), window_ms=1000, samples=11).basis == PEAK_RATE


def test_where_nothing_was_asked_there_is_no_demand() -> None:
    rows = produces([(0, 0.0), (500, 0.0)], bound=1_000.0)
    assert demand_of(asked(rows), window_ms=1000, samples=11).rate == 0.0
