"""What a broker logs of its request quota is inside what the replay allows for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.tables import QUOTA_STATE
from spark_jobs.transforms import request_intervals
from spark_jobs.transforms.amounts import AMOUNTS
from spark_jobs.transforms.request_intervals import HANDSHAKE_US, SETTLE_MS, RequestIntervals
from tests.spark_jobs.transforms.amount_rows import (
    amount,
    batch_of,
    cut,
    gathered,
    nothing_recorded,
    rows_of,
)
from tests.tables_builder import NOON_MS

WINDOW_MS = 1000
Row = dict[str, Any]


def request(at_ms: int, handler_us: int, network_us: float = 0.0, **columns: Any) -> Row:
    """Return a request whose handler time took ``handler_us``; its line came 2 ms later."""
    of_request = {
        "quota_type": "request_percentage",
        "log_time_ms": at_ms + 2,
        "bound": 5.0,
        "unlogged_amount_max": network_us * PERCENT_PER_US,
    }
    return amount(at_ms, handler_us * PERCENT_PER_US, **of_request | columns)


def intervals(
    rows: list[Row],
    cuts: list[int] | None = None,
    *,
    samples: int = 11,
    profile: RateProfile = RateProfile.RATE_3_8,
    is_state_known: bool = True,
) -> list[Row]:
    states = nothing_recorded(samples=samples, profile=profile)
    sensor = RequestIntervals(states, is_state_known=is_state_known)
    return rows_of(gathered(sensor, cut(batch_of(rows), cuts or [])))


def intervals_of_two_days(
    rows: list[Row], midnight: int, profile: RateProfile = RateProfile.RATE_3_8
) -> list[Row]:
    """Return what the rows from ``midnight`` on get where those before are another day's."""
    before = RequestIntervals(nothing_recorded(profile=profile))
    gathered(before, [batch_of(rows[:midnight])])
    kind = QUOTA_STATE.field("intervals").type
    held = pa.array([before.held()], kind)[0].as_py()
    after = RequestIntervals(nothing_recorded(profile=profile), held=held)
    return rows_of(gathered(after, [batch_of(rows[midnight:])]))


def bounds_ms(rows: list[Row]) -> list[tuple[int | None, int | None]]:
    return [(row["throttle_time_min_ms"], row["throttle_time_max_ms"]) for row in rows]


@contextmanager
def gathering(rows_min: int, rows_max: int) -> Iterator[None]:
    """Make sensors settle after fewer rows, so that few rows show it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_intervals, "ROWS_MIN", rows_min)
        patch.setattr(request_intervals, "ROWS_MAX", rows_max)
        yield


GAPS_MS = st.one_of(
    st.integers(0, 30),
    st.sampled_from([400, 998, 999, 1000, 1001, 1999, 5_000, 9_990, 11_000, 12_000]),
)
# (ms since the request before, handler time, network time at most, connection, interval, lag)
REQUEST = st.tuples(
    GAPS_MS,
    st.integers(0, 600_000),
    st.integers(0, 100_000),
    st.sampled_from("abc"),
    st.integers(0, 15),
    st.integers(0, 5),
)
REQUESTS = st.lists(REQUEST, min_size=1, max_size=25)


def rows_logged(sent: list[tuple[Any, ...]], bound: float) -> list[Row]:
    """Return the rows of ``sent``, the estimates at the begin of the admissible times."""
    rows, at_ms = [], 0
    for line, (gap_ms, handler_us, network_us, connection, width_ms, lag_ms) in enumerate(sent):
        at_ms += gap_ms
        rows.append(
            request(
                at_ms, handler_us, network_us, latest_ms=at_ms + width_ms, bound=bound,
                log_time_ms=at_ms + width_ms + lag_ms + 1, connection=connection, source_line=line,
            )
        )  # fmt: skip
    return rows


def broker_throttles_ms(rows: list[Row], profile: RateProfile, chance: random.Random) -> list[int]:
    """Return what a broker would throttle, one way in which ``rows`` can have come about."""

    def somewhere(most: float) -> float:
        return most * chance.choice((0.0, 1.0, chance.random()))

    # (time, among equal ones, is of the network, request, percent)
    events: list[tuple[int, float, bool, int, float]] = []
    greeted: set[str] = set()
    for i, row in enumerate(rows):
        at_ms = row["earliest_ms"] + round(somewhere(row["latest_ms"] - row["earliest_ms"]))
        turn = chance.random()
        uncut = row["amount"] + somewhere(PERCENT_PER_US)
        events.append((at_ms, turn, False, i, uncut))
        network = somewhere(row["unlogged_amount_max"])
        if row["connection"] not in greeted:
            network += somewhere(HANDSHAKE_US * PERCENT_PER_US)
        greeted.add(row["connection"])
        sent_ms = max(at_ms, row["log_time_ms"] - chance.randint(0, 1))
        events.append((sent_ms, turn + (1.0 - turn) * chance.random(), True, i, network))
    rate, found = Rate(profile), [0] * len(rows)
    for at_ms, _, is_of_network, i, percent in sorted(events):
        rate.record(percent, at_ms)
        if is_of_network:
            continue
        measured, bound = rate.measure(at_ms), rows[i]["bound"]
        if not is_acceptable(measured, bound):
            found[i] = throttle_time_ms(measured, bound, rate.window_size_ms(at_ms), WINDOW_MS)
    return found


@given(
    sent=REQUESTS,
    share=st.sampled_from([0.3, 0.8, 0.9, 0.95, 1.0, 1.05]),
    profile=st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8]),
    rows_min=st.sampled_from([3, 2_048]),
    chance=st.randoms(use_true_random=False),
)
@settings(max_examples=30, deadline=None)
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
@settings(max_examples=30, deadline=None)
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
@settings(max_examples=30, deadline=None)
def test_where_batches_are_cut_changes_nothing(sent: list[tuple[Any, ...]], cuts: set[int]) -> None:
    rows = rows_logged(sent, 5.0)
    assert intervals(rows, sorted(cuts)) == intervals(rows)


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30, deadline=None)
def test_rows_that_are_settled_early_have_the_same_interval(
    sent: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    # One connection each: whether a connection is new is known whatever was settled before.
    rows = [row | {"connection": f"c{i}"} for i, row in enumerate(rows_logged(sent, 5.0))]
    with gathering(3, 16_384):
        early = intervals(rows, sorted(cuts))
    assert early == intervals(rows)


@given(REQUESTS, st.sets(st.integers(1, 24), max_size=4))
@settings(max_examples=30, deadline=None)
def test_rows_that_overlap_come_out_together(sent: list[tuple[Any, ...]], cuts: set[int]) -> None:
    with gathering(3, 16_384):
        sensor = RequestIntervals(nothing_recorded())
        batches = gathered(sensor, cut(batch_of(rows_logged(sent, 5.0)), cuts))
    for i, batch in enumerate(batches[:-1]):
        later = rows_of(batches[i + 1 :])
        before_ms = max(row["log_time_ms"] for row in batch.to_pylist())
        assert before_ms < min(row["earliest_ms"] for row in later)


@given(
    before=st.lists(REQUEST, min_size=1, max_size=12),
    after=st.lists(REQUEST, min_size=1, max_size=12),
    share=st.sampled_from([0.3, 0.8, 0.9, 0.95, 1.0, 1.05]),
    profile=st.sampled_from([RateProfile.RATE_3_3, RateProfile.RATE_3_8]),
    chance=st.randoms(use_true_random=False),
)
@settings(max_examples=150, deadline=None)
def test_what_a_broker_throttles_after_midnight_is_inside_what_is_handed_on(
    before: list[tuple[Any, ...]],
    after: list[tuple[Any, ...]],
    share: float,
    profile: RateProfile,
    chance: random.Random,
) -> None:
    sent, midnight = [*before, *after], len(before)
    spent = sum(
        (handler_us + network_us / 2) * PERCENT_PER_US for _, handler_us, network_us, *_ in sent
    )
    rows = rows_logged(sent, share * max(spent, 0.1) / 10)
    found = bounds_ms(intervals_of_two_days(rows, midnight, profile))
    written_ms = max(row["log_time_ms"] for row in rows[:midnight])
    for row, (least, most) in zip(rows[midnight:], found, strict=True):
        # Only where a request may have come before one of the day before is nothing said.
        assert (least is None) == (most is None) == (row["earliest_ms"] <= written_ms)
    for _ in range(5):
        truth = broker_throttles_ms(rows, profile, chance)[midnight:]
        assert all(
            least is None or most is None or least <= true <= most
            for (least, most), true in zip(found, truth, strict=True)
        ), (found, truth)


def without_a_pause(n: int, chance: random.Random) -> list[Row]:
    """Return requests of one connection with a few milliseconds between, near their bound."""
    rows, at_ms = [], 0
    for i in range(n):
        at_ms += chance.randint(5, 40)
        rows.append(request(at_ms, int(chance.expovariate(1 / 1150)), source_line=i))
    return rows


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
def test_a_busy_sensor_is_known_as_well_after_midnight_as_before(
    monkeypatch: pytest.MonkeyPatch, profile: RateProfile
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    rows = without_a_pause(2_500, random.Random(5))
    assert intervals_of_two_days(rows, 1_000, profile) == intervals(rows, profile=profile)[1_000:]


@pytest.mark.parametrize("profile", [RateProfile.RATE_3_3, RateProfile.RATE_3_8])
def test_when_samples_begin_is_not_guessed_from_where_the_log_of_a_busy_sensor_begins(
    monkeypatch: pytest.MonkeyPatch, profile: RateProfile
) -> None:
    monkeypatch.setattr(request_intervals, "HANDSHAKE_US", 0.0)
    guessed_wrong = 0
    for seed in range(4):
        chance = random.Random(seed)
        rows = without_a_pause(3_000, chance)
        truth = broker_throttles_ms(rows, profile, chance)[800:]
        assert sum(ms > 0 for ms in truth) > 300
        found = bounds_ms(intervals(rows[800:], profile=profile, is_state_known=False))
        told = [
            (*bounds, true)
            for bounds, true in zip(found, truth, strict=True)
            if bounds[0] is not None
        ]
        assert len(told) > 800
        assert all(least <= true <= most for least, most, true in told)
        guessed = bounds_ms(intervals(rows[800:], profile=profile))[-len(told) :]
        guessed_wrong += sum(
            not least <= true <= most
            for (least, most), (*_, true) in zip(guessed, told, strict=True)
        )
    assert guessed_wrong > 100, "a wrong guess would not be seen"


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
