"""What a broker logs of its request quota is inside what the replay allows for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.rates import fixed_times, request_intervals
from spark_jobs.replay.rates.fixed_times import APART_MS, RequestTimeFixing
from spark_jobs.replay.rates.stream_rows import OrderedRows
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.request_logs import (
    REQUESTS,
    WINDOW_MS,
    Row,
    bounds_ms,
    broker_throttles_ms,
    intervals,
    request,
    rows_logged,
)
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows

CUTS = st.sets(st.integers(1, 24), max_size=4)


@given(
    sent=REQUESTS,
    share=st.sampled_from([0.3, 0.8, 0.9, 0.95, 1.0, 1.05]),
    profile=st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8]),
    cuts=CUTS,
    chance=st.randoms(use_true_random=False),
)
@settings(max_examples=30)
def test_what_a_broker_throttles_is_inside_the_interval(
    sent: list[tuple[Any, ...]],
    share: float,
    profile: RateProfile,
    cuts: set[int],
    chance: random.Random,
) -> None:
    # Throttles are cut off at a window: the bound has to be near to what is spent.
    spent = sum(
        (handler_us + network_us / 2) * PERCENT_PER_US for _, handler_us, network_us, *_ in sent
    )
    rows = rows_logged(sent, share * max(spent, 0.1) / 10)
    found = intervals(rows, cuts, profile=profile)
    for _ in range(5):
        truth = broker_throttles_ms(rows, profile, chance)
        assert all(
            least <= true <= most
            for (least, most), true in zip(bounds_ms(found), truth, strict=True)
        ), (bounds_ms(found), truth)


@given(REQUESTS, CUTS)
@settings(max_examples=30)
def test_rows_come_out_once_each_in_order(sent: list[tuple[Any, ...]], cuts: set[int]) -> None:
    found = intervals(rows_logged(sent, 5.0), cuts)
    assert [row["source_line"] for row in found] == list(range(len(sent)))
    assert not any(row["is_proven"] for row in found)
    assert all(0 <= least <= most <= WINDOW_MS for least, most in bounds_ms(found))


@given(REQUESTS, CUTS)
@settings(max_examples=30)
def test_where_requests_are_cut_changes_nothing(
    sent: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    rows = rows_logged(sent, 5.0)
    assert intervals(rows, cuts) == intervals(rows)


def fixed(rows: list[Row], until_ms: int) -> int:
    """Return how many of ``rows`` are fixed where all before ``until_ms`` are there."""
    made = stream_rows(rows)
    of_sensor = OrderedRows.of(made, np.arange(len(rows))).stretch(0, len(rows))
    ((order, *_),) = RequestTimeFixing().fix(of_sensor, SensorStates.allocate([], [], []), until_ms)
    return len(order)


@given(REQUESTS, st.integers(0, 30_000))
@settings(max_examples=30)
def test_rows_that_overlap_are_fixed_together(sent: list[tuple[Any, ...]], until: int) -> None:
    rows = [r for r in rows_logged(sent, 5.0) if r["recorded_at_ms"] < NOON_MS + until]
    if not rows:
        return
    stop = fixed(rows, NOON_MS + until)
    before_ms = max((row["log_time_ms"] for row in rows[:stop]), default=0)
    assert before_ms < NOON_MS + until - APART_MS
    assert all(before_ms < row["earliest_ms"] for row in rows[stop:])


def test_without_network_time_the_throttle_is_known_to_the_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    rows = [request(i * 990, 60_000 - i, bound=5.8) for i in range(30)]
    rate, exact = Rate(RateProfile.RATE_3_8), []
    for row in rows:
        at_ms = row["recorded_at_ms"]
        rate.record(row["amount"], at_ms)
        measured, size_ms = rate.measure(at_ms), rate.window_size_ms(at_ms)
        exact.append(max(0, throttle_time_ms(measured, row["bound"], size_ms, WINDOW_MS)))
        rate.record(0.0, row["log_time_ms"])
    found = bounds_ms(intervals(rows))
    assert {0, WINDOW_MS} < set(exact)
    assert [least for least, _ in found] == exact
    # Of a logged microsecond the rest was cut: twelve times, at 5.8 percent a second.
    assert [most for _, most in found] == pytest.approx(exact, abs=1)


def test_nothing_is_said_before_two_spans_of_a_sensor_whose_past_is_in_part_unknown() -> None:
    rows = [request(at_ms, 1_000) for at_ms in (0, 11_000, 21_999, 22_000, 40_000)]
    found = bounds_ms(intervals(rows, is_state_known=False))
    assert found == [(None, None)] * 3 + [(0, 0)] * 2
    assert bounds_ms(intervals(rows)) == [(0, 0)] * 5


@pytest.mark.parametrize("cuts", [{1}, {2}, {3}, {1, 2, 3, 4}])
def test_the_two_spans_begin_with_the_first_row_wherever_requests_are_cut(cuts: set[int]) -> None:
    rows = [request(at_ms, 1_000) for at_ms in (0, 11_000, 21_999, 22_000, 40_000)]
    whole = intervals(rows, is_state_known=False)
    assert intervals(rows, cuts, is_state_known=False) == whole


@pytest.mark.parametrize(("samples", "is_said"), [(1, False), (3, False), (4, True), (11, True)])
def test_fewer_than_four_samples_are_not_spoken_of(samples: int, is_said: bool) -> None:
    found = bounds_ms(intervals([request(0, 500_000), request(50, 1_000)], samples=samples))
    assert [least is not None and most is not None for least, most in found] == [is_said] * 2
    assert [least is None and most is None for least, most in found] == [not is_said] * 2


def test_a_row_without_a_bound_has_no_interval_but_its_time_counts() -> None:
    unbound = request(0, 600_000, bound=float("nan"))
    found = bounds_ms(intervals([unbound, request(100, 0)]))
    # 60 percent in 10.1 s are above 5 percent a second.
    assert found == [(None, None), (WINDOW_MS, WINDOW_MS)]


def test_time_that_another_sensor_may_have_got_near_a_quota_change_surely_counts_nowhere() -> None:
    near = request(0, 600_000, change_distance_ms=999)
    far = request(0, 600_000, change_distance_ms=1_000)
    assert bounds_ms(intervals([near, request(100, 0)]))[1] == (0, WINDOW_MS)
    assert bounds_ms(intervals([far, request(100, 0)]))[1] == (WINDOW_MS, WINDOW_MS)


@pytest.mark.parametrize(
    ("lost_requests", "lost_percent", "most_ms"),
    [(0, 70.0, 0), (1, 52.0, 400), (1, None, WINDOW_MS), (None, None, 0)],
)
def test_lines_that_are_missing_raise_the_most_and_never_the_least(
    lost_requests: int | None, lost_percent: float | None, most_ms: int
) -> None:
    lost = {"lost_requests": lost_requests, "lost_amount_max": lost_percent}
    # 52 percent of 50, and the handshake is one request later.
    ((least, most),) = bounds_ms(intervals([request(0, 0, **lost)]))
    assert least == 0
    assert most == pytest.approx(most_ms, abs=1)


def test_only_the_first_request_of_a_connection_pays_for_a_handshake() -> None:
    # 52 percent and 2 for a handshake, where half a second after the first 52.5 are allowed.
    def last(*connections: str) -> tuple[int | None, int | None]:
        rows = [request(0, 520_000, connection="a")]
        rows += [request(100 + i, 0, connection=c) for i, c in enumerate(connections)]
        return bounds_ms(intervals([*rows, request(500, 0, connection="a")]))[-1]

    # Two percent more at five percent a second.
    assert last("a") == (0, 300)
    assert last("b") == (0, 700)


@pytest.mark.parametrize(("logged_ms", "most_ms"), [(100, 100), (200, 199), (314, 313), (400, 314)])
def test_reads_may_have_taken_twice_as_long_where_a_throttle_says_so(
    monkeypatch: pytest.MonkeyPatch, logged_ms: int, most_ms: int
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    # 52 percent, and one of the network: where 52.5 are allowed, 100 ms are due at most. With two
    # of the network 314 ms are due after a whole span, and less than the cap in any case.
    throttled = request(500, 0, logged_throttle_time_ms=logged_ms)
    found = intervals([request(0, 520_000, 10_000), throttled])
    assert bounds_ms(found)[-1] == (0, most_ms)


@pytest.mark.parametrize("cuts", [None, {1}])
@pytest.mark.parametrize(
    ("lag_ms", "begins_ms", "most_ms"), [(60, 0, 999), (30, 0, 345), (0, 0, 0), (60, -20_000, 0)]
)
def test_a_handshake_may_have_waited_as_long_as_a_line_may_be_late(
    lag_ms: int, begins_ms: int, most_ms: int, cuts: set[int] | None
) -> None:
    # 47 percent, twice the two of the handshake, and six where it waited, of 50 in ten seconds.
    begun = request(begins_ms, 0, connection="a", line_lag_max_ms=lag_ms)
    spent = request(1_000, 470_000, connection="a", line_lag_max_ms=0)
    throttled = request(1_500, 0, connection="a", line_lag_max_ms=0, logged_throttle_time_ms=1_000)
    assert bounds_ms(intervals([begun, spent, throttled], cuts))[-1] == (0, most_ms)


def busy(n: int, gap_ms: float) -> list[Row]:
    return [request(int(i * gap_ms), 10, connection="a", source_line=i) for i in range(n)]


@pytest.mark.parametrize("gap_ms", [0.0, 0.5, 10.0, 40.0, 100.0])
def test_a_busy_sensor_never_waits_for_more_rows_than_the_most(
    monkeypatch: pytest.MonkeyPatch, gap_ms: float
) -> None:
    monkeypatch.setattr(fixed_times, "ROWS_MIN", 8)
    monkeypatch.setattr(fixed_times, "ROWS_MAX", 64)
    rows = busy(160, gap_ms)
    assert len(rows) - fixed(rows, rows[-1]["recorded_at_ms"]) < 64


def test_a_connection_that_lasts_pays_for_its_handshake_once() -> None:
    gaps = [(0, 520_000), (100, 0), (5_000, 0), (5_001, 0), (5_100, 0)]
    rows = [request(at_ms, handler_us, connection="a") for at_ms, handler_us in gaps]
    assert bounds_ms(intervals(rows, {2})) == bounds_ms(intervals(rows))


def test_a_row_does_not_wait_once_nothing_that_overlaps_it_can_come() -> None:
    rows = [request(0, 10), request(1, 10)]
    assert fixed(rows, NOON_MS + APART_MS + 2) == 0
    assert fixed(rows, NOON_MS + APART_MS + 4) == 2


@pytest.mark.parametrize("cuts", [None, {1}])
@pytest.mark.parametrize(
    ("lag_ms", "logged_ms", "least_ms"), [(30, 0, 0), (9, 0, 1000), (30, 1000, 1000)]
)
def test_a_line_that_may_be_late_says_nothing_of_what_was_recorded_just_before_it(
    lag_ms: int, logged_ms: int, least_ms: int, cuts: set[int] | None
) -> None:
    # The long one is due for a whole window; the short one, if its line is late, came before it.
    long, short = request(1_000, 900_000), request(1_010, 100)
    after = short | {"line_lag_max_ms": lag_ms, "logged_throttle_time_ms": logged_ms}
    assert bounds_ms(intervals([long, after], cuts))[1] == (least_ms, 1000)


@pytest.mark.parametrize(
    ("lag_ms", "logged_ms", "least_ms"), [(10, 0, 0), (2, 0, 1000), (10, 1000, 1000)]
)
def test_a_late_line_may_have_begun_another_sample_long_before(
    lag_ms: int, logged_ms: int, least_ms: int
) -> None:
    # Of a sample from 0 ms on, the second is the first of the next one, and the long one is in it.
    sent = [(10, 10), (1_004, 10), (1_990, 900_000), (2_900, 10), (13_500, 100)]
    rows = [request(at_ms, handler_us, line_lag_max_ms=0) for at_ms, handler_us in sent]
    rows[0]["line_lag_max_ms"] = lag_ms
    # That sample left at 12,990 ms; one from 1,990 to 2,900 ms is still counted.
    rows[-1]["logged_throttle_time_ms"] = logged_ms
    assert bounds_ms(intervals(rows))[-1] == (least_ms, 1000)


@pytest.mark.parametrize(("lag_ms", "least_ms"), [(10, 0), (2, 1000)])
def test_a_late_line_counts_its_network_time_late_as_well(lag_ms: int, least_ms: int) -> None:
    """What is counted with a late line was recorded before the moment at which it was due, too."""
    # The long one is of a sample that ends before the second, if it was recorded 5 ms earlier.
    sent = [(10, 900_000), *((1_005 + 1_000 * i, 10) for i in range(10)), (11_007, 10)]
    rows = [request(at_ms, handler_us, line_lag_max_ms=0) for at_ms, handler_us in sent]
    rows[0]["line_lag_max_ms"] = lag_ms
    rows[-1]["logged_throttle_time_ms"] = 0
    assert bounds_ms(intervals(rows))[-1] == (least_ms, 1000)
