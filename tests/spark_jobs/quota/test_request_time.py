"""Thread time of requests as the request quota counts it, as far as lines tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.interval_states import IntervalStates, RateIntervals
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import (
    LIKELY_REQUESTS_MIN,
    SHARES_TOLD,
    LikelyReads,
    RequestRows,
    ToldShares,
    likely_network_time_us,
    network_time_max_us,
    record_interval_ms,
    replay_requests,
)
from spark_jobs.quota.states import SensorStates

T0 = 1_700_000_000_000


def requests(handler_us: list[float], network_us: float = 0.0, gap_ms: int = 100) -> RequestRows:
    n = len(handler_us)
    at_ms = T0 + gap_ms * np.arange(n)
    return RequestRows(
        sensor=np.zeros(n, np.int64),
        earliest_ms=at_ms,
        latest_ms=at_ms,
        line_from_ms=at_ms + 2,
        log_time_ms=at_ms + 2,
        handler_time_us=np.array(handler_us),
        network_time_max_us=np.full(n, network_us),
        surely_counted=np.ones(n, bool),
        bound=np.full(n, 5.0),
        unlogged_max=np.zeros(n),
    )


def states() -> IntervalStates:
    return IntervalStates.of(SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000]))


@pytest.mark.parametrize(
    ("remote_us", "in_handler", "expected"),
    [
        # Handled at 989.7 ms; the line's stamp is cut, and up to a millisecond late.
        (300, True, (988, 990)),
        (300, False, (988, 990)),
        # A short wait: at either end of it.
        (10_000, False, (979, 990)),
        (10_000, True, (979, 980)),
        # A long wait: whoever ended it recorded then.
        (500_000, False, (984, 990)),
        (500_000, True, (489, 490)),
    ],
)
def test_the_quota_counts_where_the_handler_time_ends_or_the_wait(
    remote_us: int, in_handler: bool, expected: tuple[int, int]
) -> None:
    first, last = record_interval_ms([T0 + 1000], [remote_us], [4_000], [6_000], [in_handler])
    assert (first[0] - T0, last[0] - T0) == expected


def test_network_time_is_the_send_time_a_usual_read_the_bytes_and_a_handshake() -> None:
    found = network_time_max_us([50.0, 60.0], [np.nan, 10_000.0], 200.0, [20_000.0, 0.0])
    assert found.tolist() == [20_250.0, 280.0]


def test_handler_time_is_percent_of_a_second_and_a_cut_microsecond_more() -> None:
    found = replay_requests(requests([600_000.0]), states())
    assert found.rate_min[0] == pytest.approx(6.0)
    assert found.rate_max[0] == pytest.approx(6.00001)
    # (6 - 5) / 5 of 10 s is 2 s; one window is the most.
    assert (found.throttle_time_min_ms[0], found.throttle_time_max_ms[0]) == (1000, 1000)


def test_network_time_counts_from_the_next_request_on() -> None:
    found = replay_requests(requests([100_000.0, 100_000.0], network_us=50_000.0), states())
    assert found.rate_max[0] == pytest.approx(1.0, rel=1e-3)
    assert found.rate_min[1] == pytest.approx(20.0 / 10.1)
    assert found.rate_max[1] == pytest.approx(25.0 / 10.1, rel=1e-3)


def test_a_request_that_another_sensor_may_have_got_counts_at_most() -> None:
    rows = replace(requests([100_000.0, 100_000.0]), surely_counted=np.array([False, True]))
    found = replay_requests(rows, states())
    assert found.rate_min[1] == pytest.approx(10.0 / 10.1)
    assert found.rate_max[1] == pytest.approx(20.0 / 10.1, rel=1e-3)


def test_answers_come_in_the_order_asked_whatever_the_order_of_record() -> None:
    rows = requests([600_000.0, 0.0, 0.0])
    backwards = RequestRows(**{f: getattr(rows, f)[::-1] for f in RequestRows.__slots__})
    found, turned = replay_requests(rows, states()), replay_requests(backwards, states())
    assert found.throttle_time_min_ms.tolist() == turned.throttle_time_min_ms[::-1].tolist()
    assert found.rate_max.tolist() == turned.rate_max[::-1].tolist()


def test_what_a_send_took_longer_than_any_read_of_as_many_bytes_was_waiting() -> None:
    found = likely_network_time_us([70.0, 9e3, 9e3], [np.nan, 0, 5e4], [np.nan, 0, 1e5], 300.0)
    assert found[0].tolist() == [70.0, 300.0, 600.0]
    assert found[1].tolist() == [70, 300, 300]


SENDS = st.lists(
    st.tuples(st.sampled_from([0, 1, 40, 900, 12_000]), st.integers(1, 900)),
    min_size=1,
    max_size=60,
)


@given(SENDS, st.integers(0, 60))
def test_likely_reads_are_learned_alike_wherever_requests_are_cut(
    sent: list[tuple[int, int]], cut: int
) -> None:
    at_ms = np.cumsum([gap for gap, _ in sent], dtype=np.int64)
    sent_us = np.array([us for _, us in sent], np.int64)
    whole = LikelyReads(11_000).most_us(at_ms, sent_us)
    parts = LikelyReads(11_000)
    cuts = [c for c in (slice(0, cut), slice(cut, None)) if len(at_ms[c])]
    found = np.concatenate([parts.most_us(at_ms[c], sent_us[c]) for c in cuts])
    assert found.tolist() == whole.tolist()


@pytest.mark.parametrize("n", [LIKELY_REQUESTS_MIN, 90, 400])
def test_the_reads_of_a_span_hardly_ever_sum_up_to_more_than_is_likely(n: int) -> None:
    # Drawn as the sends are, most of them short and a few long, though no send holds any waiting.
    rng = np.random.default_rng(n)
    above = 0
    for _ in range(2_000):
        reads_us, sends_us = np.minimum(rng.lognormal(4.0, 0.6, (2, n)), 300.0)
        likely_us = LikelyReads(11_000).most_us(np.arange(n), np.rint(sends_us).astype(np.int64))
        above += reads_us.sum() > n * likely_us[-1]
    assert above <= 20


def test_of_few_requests_nothing_is_likely() -> None:
    def likely_us(gap_ms: int) -> list[float]:
        at_ms = np.arange(LIKELY_REQUESTS_MIN + 2) * gap_ms
        return LikelyReads(11_000).most_us(at_ms, np.full(len(at_ms), 70)).tolist()

    few = LIKELY_REQUESTS_MIN - 1
    assert likely_us(11_000 // few) == [np.inf] * few + [70.0] * 3
    # Eleven seconds hold no more than eleven of them.
    assert set(likely_us(1_000)) == {np.inf}


def told(
    logged_ms: list[int], share: float = 0.4, can_tell: bool = True, gap_ms: int = 100
) -> list[tuple[int, int]]:
    """Return what throttles tell where the rate lies at ``share`` between 4 and 6 percent."""
    n = len(logged_ms)
    # A bound for each logged throttle, such that the rate is at the share of the way.
    bound = (4.0 + 2.0 * share) / (1.0 + np.array(logged_ms) / 10_500)
    zeros = np.zeros(n, np.int64)
    rates = RateIntervals(np.full(n, 4.0), np.full(n, 6.0), zeros, zeros)
    found = ToldShares(11_000, 1_000).throttles_ms(
        np.arange(n) * gap_ms, np.array(logged_ms), bound, rates, np.full(n, can_tell)
    )
    return list(zip(*(column.tolist() for column in found), strict=True))


def test_throttles_tell_of_the_requests_after_them_and_not_of_themselves() -> None:
    found = told([300] * (SHARES_TOLD + 2))
    assert found[:SHARES_TOLD] == [(0, 1000)] * SHARES_TOLD
    for least, most in found[SHARES_TOLD:]:
        assert 250 < least <= 300 <= most < 350


@pytest.mark.parametrize(
    ("logged_ms", "options"),
    [
        ([300] * (SHARES_TOLD - 1) + [0] * 3, {}),  # too few
        ([0] * 20, {}),
        ([1000] * 20, {}),  # cut at the window
        ([300] * 20, {"can_tell": False}),
        ([300] * 20, {"share": -0.2}),  # less, or more, than was likely: a fault, a warm-up
        ([300] * 20, {"share": 1.2}),
        ([300] * 20, {"gap_ms": 3_000}),  # not in one span
    ],
)
def test_what_tells_nothing_leaves_all_open(
    logged_ms: list[int], options: dict[str, float]
) -> None:
    assert set(told(logged_ms, **options)) == {(0, 1000)}


@given(st.lists(st.sampled_from([0, 0, 150, 300, 301, 700, 1000]), max_size=40), st.integers(0, 40))
def test_shares_are_told_alike_wherever_requests_are_cut(logged: list[int], cut: int) -> None:
    n = len(logged)
    logged_ms, at_ms, bound = np.array(logged, np.int64), np.arange(n) * 400, np.full(n, 4.5)
    zeros, can_tell = np.zeros(n, np.int64), np.ones(n, bool)
    rates = RateIntervals(4.0 + at_ms / 1e5, np.full(n, 6.0), zeros, zeros)

    def part(shares: ToldShares, rows: slice) -> list[list[int]]:
        own = RateIntervals(*(column[rows] for column in rates))
        columns = at_ms[rows], logged_ms[rows], bound[rows]
        found = shares.throttles_ms(*columns, own, can_tell[rows])
        return np.stack(found, axis=1).tolist()

    shares = ToldShares(11_000, 1_000)
    parts = [*part(shares, slice(0, cut)), *part(shares, slice(cut, None))]
    assert parts == part(ToldShares(11_000, 1_000), slice(None))
