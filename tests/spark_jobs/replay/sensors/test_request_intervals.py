"""What a broker logs of its request quota is inside what the replay allows for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.throttle_time import throttle_time_ms
from spark_jobs.replay.sensors import request_intervals
from spark_jobs.replay.sensors.amounts import AMOUNTS
from spark_jobs.replay.sensors.request_intervals import SETTLE_MS, RequestIntervals
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.amount_rows import (
    batch_of,
    cut,
    gathered,
    nothing_recorded,
    rows_of,
)
from tests.spark_jobs.replay.sensors.request_logs import (
    REQUESTS,
    WINDOW_MS,
    Row,
    bounds_ms,
    broker_throttles_ms,
    gathering,
    intervals,
    request,
    rows_logged,
)


@given(
    sent=REQUESTS,
    share=st.sampled_from([0.3, 0.8, 0.9, 0.95, 1.0, 1.05]),
    profile=st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8]),
    rows_min=st.sampled_from([3, 2_048]),
    chance=st.randoms(use_true_random=False),
)
@settings(max_examples=30)
def test_what_a_broker_throttles_is_inside_the_interval(
    sent: list[tuple[Any, ...]],
    share: float,
    profile: RateProfile,
    rows_min: int,
    chance: random.Random,
) -> None:
    # Throttles are cut off at a window: the bound has to be near to what is spent.
    spent = sum(
        (handler_us + network_us / 2) * PERCENT_PER_US for _, handler_us, network_us, *_ in sent
    )
    rows = rows_logged(sent, share * max(spent, 0.1) / 10)
    with gathering(rows_min, 16_384):
        found = intervals(rows, profile=profile)
    for _ in range(5):
        truth = broker_throttles_ms(rows, profile, chance)
        assert all(
            least <= true <= most
            for (least, most), true in zip(bounds_ms(found), truth, strict=True)
        ), (bounds_ms(found), truth)


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30)
def test_rows_come_out_once_each_in_order_with_two_columns_more(
    sent: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    rows = rows_logged(sent, 5.0)
    with gathering(3, 9):
        found = intervals(rows, sorted(cuts))
    whole = batch_of(rows).to_pylist()
    assert [{name: row[name] for name in AMOUNTS.names} for row in found] == whole
    assert not any(row["is_proven"] for row in found)
    assert all(0 <= least <= most <= WINDOW_MS for least, most in bounds_ms(found))


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30)
def test_where_batches_are_cut_changes_nothing(sent: list[tuple[Any, ...]], cuts: set[int]) -> None:
    rows = rows_logged(sent, 5.0)
    assert intervals(rows, sorted(cuts)) == intervals(rows)


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30)
def test_rows_that_are_settled_early_have_the_same_interval(
    sent: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    # One connection each: whether a connection is new is known whatever was settled before.
    rows = [row | {"connection": f"c{i}"} for i, row in enumerate(rows_logged(sent, 5.0))]
    with gathering(3, 16_384):
        early = intervals(rows, sorted(cuts))
    assert early == intervals(rows)


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30)
def test_rows_that_overlap_come_out_together(sent: list[tuple[Any, ...]], cuts: set[int]) -> None:
    with gathering(3, 16_384):
        sensor = RequestIntervals(nothing_recorded())
        batches = gathered(sensor, cut(batch_of(rows_logged(sent, 5.0)), cuts))
    for i, batch in enumerate(batches[:-1]):
        later = rows_of(batches[i + 1 :])
        before_ms = max(row["log_time_ms"] for row in batch.to_pylist())
        assert before_ms < min(row["earliest_ms"] for row in later)


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


@pytest.mark.parametrize("cuts", [[1], [2], [3], [1, 2, 3, 4]])
def test_the_two_spans_begin_with_the_first_row_wherever_batches_are_cut(cuts: list[int]) -> None:
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
    lost = {"lost_requests": lost_requests, "lost_bytes_max": lost_percent}
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


def busy(n: int, gap_ms: float) -> list[Row]:
    return [request(int(i * gap_ms), 10, connection="a", source_line=i) for i in range(n)]


@pytest.mark.parametrize("gap_ms", [0.0, 0.5, 10.0, 40.0, 100.0, SETTLE_MS])
@pytest.mark.parametrize("step", [1, 64])
def test_a_busy_sensor_never_waits_for_more_rows_than_the_most(gap_ms: float, step: int) -> None:
    rows_max = 64
    rows = batch_of(busy(160, gap_ms))
    with gathering(8, rows_max):
        sensor = RequestIntervals(nothing_recorded())
        waiting, most = 0, 0
        for batch in cut(rows, range(0, 160, step)):
            waiting += len(batch) - sum(map(len, sensor.take(batch)))
            most = max(most, waiting)
        assert waiting == sum(map(len, sensor.flush()))
    assert 0 < most < rows_max


def test_a_sensor_that_speeds_up_never_waits_for_more_rows_than_the_most_either() -> None:
    rows_max = 64
    slow = busy(40, 100.0)
    fast = [request(4_000 + i // 20, 10, connection="a", source_line=40 + i) for i in range(400)]
    with gathering(8, rows_max):
        sensor = RequestIntervals(nothing_recorded())
        waiting = 0
        for batch in cut(batch_of([*slow, *fast]), range(0, 440, 16)):
            waiting += len(batch) - sum(map(len, sensor.take(batch)))
            assert waiting < rows_max + 8
        assert waiting == sum(map(len, sensor.flush()))


def test_a_connection_that_lasts_pays_for_its_handshake_once() -> None:
    gaps = [(0, 520_000), (100, 0), (5_000, 0), (5_001, 0), (5_100, 0)]
    rows = [request(at_ms, handler_us, connection="a") for at_ms, handler_us in gaps]
    at_once = bounds_ms(intervals(rows))
    with gathering(2, 64):
        assert bounds_ms(intervals(rows)) == at_once


def test_a_row_does_not_wait_once_nothing_that_overlaps_it_can_come() -> None:
    with gathering(2, 64):
        sensor = RequestIntervals(nothing_recorded())
        early = batch_of([request(0, 10), request(1, 10)])
        assert list(sensor.take(early)) == []
        late = batch_of([request(SETTLE_MS + 4, 10), request(SETTLE_MS + 5, 10)])
        assert [len(batch) for batch in sensor.take(late)] == [2]
        assert [row["recorded_at_ms"] for row in rows_of(sensor.flush())] == [
            NOON_MS + SETTLE_MS + 4,
            NOON_MS + SETTLE_MS + 5,
        ]
