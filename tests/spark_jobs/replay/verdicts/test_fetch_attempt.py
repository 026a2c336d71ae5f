"""A throttled fetch tried to read what its client could read, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.replay.verdicts.fetch_attempt import (
    ODD_ATTEMPTS,
    Attempt,
    FetchLimits,
    FetchRows,
    judge_fetch_attempts,
)

BOUND = 500_000.0
# 100 ms at the bound.
SLACK = 50_000.0


def fetches(*amounts: tuple[float, bool], position: int = 0) -> FetchRows:
    """Return fetches 2 s apart: bytes, and whether they were throttled."""
    n = len(amounts)
    throttled = np.array([t for _, t in amounts], bool)
    return FetchRows(
        sensor=np.zeros(n, np.int64),
        position=np.full(n, position),
        recorded_at_ms=1_700_000_000_000 + 2000 * np.arange(n),
        interval_ms=np.zeros(n, np.int64),
        line_lag_max_ms=np.zeros(n, np.int64),
        amount=np.array([a for a, _ in amounts]),
        is_unrecorded=throttled,
        has_records=~throttled,
        has_errors=np.zeros(n, bool),
        bound=np.full(n, BOUND),
        fetch_max_bytes=np.full(n, 52_428_800.0),
        span_ms=np.full(n, 11_000),
        logged_ms=np.where(throttled, 2000, 0),
        request_throttle_max_ms=np.zeros(n, np.int64),
        is_let_through=np.zeros(n, bool),
    )


def judged(rows: FetchRows, limits: FetchLimits | None = None) -> list[Attempt]:
    return [
        Attempt(a) for a in judge_fetch_attempts(rows, limits or FetchLimits()).attempt.tolist()
    ]


def test_tries_that_never_shrink_and_end_in_an_answer_are_plausible() -> None:
    rows = fetches((2e5, True), (6e5, True), (6e5, True), (9e5, False))
    assert judged(rows) == [Attempt.PLAUSIBLE] * 3 + [Attempt.NOT_THROTTLED]


@pytest.mark.parametrize(
    ("excess", "expected"), [(SLACK, Attempt.PLAUSIBLE), (SLACK + 1, Attempt.TOO_LARGE)]
)
def test_a_try_above_what_was_handed_out_was_throttled_for_too_long(
    excess: float, expected: Attempt
) -> None:
    assert judged(fetches((9e5 + excess, True), (9e5, False)))[0] is expected


def test_one_wrong_try_among_growing_ones_is_found_and_condemns_no_other() -> None:
    large = fetches((2e5, True), (15e5, True), (6e5, True), (9e5, True), (20e5, False))
    assert judged(large)[:4] == [
        Attempt.PLAUSIBLE,
        Attempt.TOO_LARGE,
        Attempt.PLAUSIBLE,
        Attempt.PLAUSIBLE,
    ]
    small = fetches((6e5, True), (8e5, True), (1e5, True), (9e5, True), (20e5, False))
    assert judged(small)[:4] == [
        Attempt.PLAUSIBLE,
        Attempt.PLAUSIBLE,
        Attempt.TOO_SMALL,
        Attempt.PLAUSIBLE,
    ]


def test_what_an_accused_try_can_have_been_is_the_nearest_size_in_line() -> None:
    rows = fetches((2e5, True), (15e5, True), (6e5, True), (1e5, True), (9e5, True), (20e5, False))
    found = judge_fetch_attempts(rows, FetchLimits())
    assert found.attempt[[1, 3]].tolist() == [Attempt.TOO_LARGE, Attempt.TOO_SMALL]
    assert found.amount.tolist() == [2e5, 6e5, 6e5, 6e5, 9e5, 20e5]


@pytest.mark.parametrize(("impossible", "expected"), [(1, Attempt.TOO_LARGE), (2, Attempt.UNKNOWN)])
def test_nobody_is_accused_by_a_state_that_other_tries_contradict(
    impossible: int, expected: Attempt
) -> None:
    too_large = [(6e5, True), (15e5, True), (9e5, False)]
    rows = fetches(*[(0.0, True)] * impossible, *too_large)
    assert judged(rows)[-2] == expected


@pytest.mark.parametrize(
    ("let_through", "expected"), [(1, Attempt.TOO_LARGE), (2, Attempt.UNKNOWN)]
)
def test_nobody_is_accused_by_a_state_that_lets_others_through(
    let_through: int, expected: Attempt
) -> None:
    rows = fetches((3e5, False), (3e5, False), (6e5, True), (15e5, True), (9e5, False))
    at_ms = rows.recorded_at_ms[0] + 300 * np.arange(5)
    rows = replace(rows, recorded_at_ms=at_ms, is_let_through=np.arange(5) < let_through)
    assert judged(rows)[-2] == expected


@pytest.mark.parametrize(
    ("try_bytes", "expected"),
    [
        (158_203.0, Attempt.PLAUSIBLE),
        # More than the limit and what a response has besides records.
        (168_000.0, Attempt.TOO_LARGE),
    ],
)
def test_a_try_fills_the_limit_where_other_partitions_come_first(
    try_bytes: float, expected: Attempt
) -> None:
    # Kafka 3.8.1, 15 806 B/s: a fetch ends at 158 060 bytes. Two partitions of 64 KiB leave 27 kB,
    # into which no batch of the third one fits; one of the first two fills them.
    rows = fetches((131_221.0, False), (try_bytes, True), (131_221.0, True), (131_221.0, False))
    assert judged(replace(rows, bound=np.full(4, 15_806.0)))[1] is expected


def test_a_try_of_what_no_limit_cuts_is_no_more_than_was_handed_out() -> None:
    # One more batch, which is no larger than the largest answer, had found room.
    rows = fetches((60_000.0, False), (90_000.0, True), (60_000.0, True), (60_000.0, False))
    assert judged(replace(rows, bound=np.full(4, 15_806.0)))[1] is Attempt.TOO_LARGE


def test_of_two_tries_that_contradict_each_other_neither_is_accused() -> None:
    rows = fetches((9e5, True), (6e5, True), (20e5, False))
    assert judged(rows)[:2] == [Attempt.PLAUSIBLE, Attempt.PLAUSIBLE]


def test_an_answer_without_records_hands_out_nothing() -> None:
    rows = fetches((9e5, True), (16.0, False))
    empty = replace(rows, has_records=np.zeros(2, bool))
    assert judged(empty)[0] is Attempt.UNKNOWN


def test_without_an_answer_a_size_that_the_client_was_given_before_is_plausible() -> None:
    assert judged(fetches((9e5, False), (9e5, True)))[1] is Attempt.PLAUSIBLE
    assert judged(fetches((9e5, False), (12e5, True)))[1] is Attempt.UNKNOWN


def test_another_position_is_no_evidence() -> None:
    rows = fetches((9e5, True), (2e5, False))
    assert judged(rows)[0] is Attempt.TOO_LARGE
    apart = replace(rows, position=np.array([0, 1]))
    assert judged(apart)[0] is Attempt.UNKNOWN


@pytest.mark.parametrize(
    ("asked", "limits", "largest"),
    [
        # The quota's cut: 500 000 B/s in 10 samples of 1 s.
        (52_428_800.0, FetchLimits(), 5e6 * 1.05),
        (52_428_800.0, FetchLimits(cuts_to_quota=False), 52_428_800 * 1.05),
        (3e6, FetchLimits(), 3e6 * 1.05),
        # One batch, whatever the limit is.
        (1.0, FetchLimits(batch_max_bytes=2e6), 2e6 * 1.05),
        (float("nan"), FetchLimits(), 5e6 * 1.05),
    ],
)
def test_a_fetch_never_holds_more_than_it_asked_for_its_quota_or_one_batch(
    asked: float, limits: FetchLimits, largest: float
) -> None:
    def of_size(size: float) -> Attempt:
        rows = fetches((size, True), (1e9, False))
        return judged(replace(rows, fetch_max_bytes=np.full(2, asked)), limits)[0]

    assert of_size(largest + SLACK) is Attempt.PLAUSIBLE
    assert of_size(largest + SLACK + 1.0) is Attempt.OVER_LIMIT


def test_what_the_request_quota_may_have_asked_for_gives_no_size_back() -> None:
    rows = replace(
        fetches((30e5, True), (9e5, False)), request_throttle_max_ms=np.array([2000, 2000])
    )
    assert judged(rows)[0] is Attempt.BY_REQUEST_QUOTA
    longer = replace(rows, logged_ms=np.array([2001, 0]))
    assert judged(longer)[0] is Attempt.TOO_LARGE


def test_the_widest_record_interval_of_the_window_widens_the_slack() -> None:
    rows = fetches((1e5, False), (9e5 + SLACK + 1.0, True), (9e5, False))
    assert judged(rows)[1] is Attempt.TOO_LARGE
    vague = replace(rows, interval_ms=np.array([1, 0, 0]))
    assert judged(vague)[1] is Attempt.PLAUSIBLE
    other_sensor = replace(vague, sensor=np.array([0, 1, 1]), position=np.array([7, 0, 0]))
    assert judged(other_sensor)[1] is Attempt.TOO_LARGE


@given(st.lists(st.floats(1.0, 4e6), min_size=1, max_size=12), st.floats(0.0, 4e5))
def test_tries_of_growing_data_are_never_accused(sizes: list[float], more: float) -> None:
    growing = sorted(sizes)
    rows = fetches(*((size, True) for size in growing), (growing[-1] + more, False))
    assert set(judged(rows)[:-1]) == {Attempt.PLAUSIBLE}


def test_a_try_after_a_record_at_a_sample_s_end_may_be_a_window_more_or_less() -> None:
    # A second of the bound too much, and a record 999 ms after the sample before it began.
    rows = fetches((60_000, True), (60_000 + BOUND, True), (60_000, False))
    times = rows.recorded_at_ms[0] + np.array([0, 999, 2_999])
    doubtful = replace(rows, recorded_at_ms=times, interval_ms=np.full(3, 3))
    assert judged(doubtful)[:2] == [Attempt.PLAUSIBLE, Attempt.PLAUSIBLE]
    sure = replace(doubtful, recorded_at_ms=rows.recorded_at_ms[0] + np.array([0, 900, 2_999]))
    assert judged(sure)[:2] == [Attempt.PLAUSIBLE, Attempt.TOO_LARGE]
    more = replace(doubtful, amount=doubtful.amount + np.array([0, BOUND, 0]))
    assert judged(more)[:2] == [Attempt.PLAUSIBLE, Attempt.TOO_LARGE]


def test_what_was_kept_at_the_window_s_far_end_may_be_in_it_or_not() -> None:
    rows = fetches((2 * BOUND, False), (1.0, False), (60_000 + 3 * BOUND, True), (60_000, False))
    at_ms = rows.recorded_at_ms[0] + np.array([0, 999, 11_500, 13_000])
    doubtful = replace(rows, recorded_at_ms=at_ms, interval_ms=np.full(4, 3))
    assert judged(doubtful)[2] == Attempt.PLAUSIBLE
    gone = replace(doubtful, recorded_at_ms=at_ms + np.array([0, 0, 1_000, 1_000]))
    assert judged(gone)[2] == Attempt.TOO_LARGE
    more = replace(doubtful, amount=doubtful.amount + np.array([0, 0, BOUND, 0]))
    assert judged(more)[2] == Attempt.TOO_LARGE


def test_a_try_at_whole_samples_of_a_young_window_may_be_a_window_more_or_less() -> None:
    # Kafka 3.9.1, 31 samples: a cold broker's first fetches took 76 ms, then it was asked again
    # 5 s after them, give or take those. From 5 000 ms on only 0 ms of its window count.
    rows = logged(
        (0, 76, 131_184.0, 0), (37, 28, 131_184.0, 0), (42, 3, 131_184.0, 0),
        (52, 8, 130_653.0, 4_895), (4_975, 3, 145_578.0, 4_967), (9_944, 3, 130_578.0, 3_998),
        (13_945, 3, 130_578.0, 3_997), (17_943, 2, 130_563.0, 3_998),
        bound=15_000.0, samples=31,
    )  # fmt: skip
    limits = FetchLimits(samples=31)
    assert set(judged(rows, limits)[3:]) == {Attempt.PLAUSIBLE}
    more = replace(rows, amount=rows.amount + 15_000.0 * (np.arange(8) == 4))
    assert judged(more, limits)[4] is Attempt.TOO_LARGE
    # 200 ms earlier their windows are what they are.
    earlier = np.where(np.arange(8) >= 4, 200, 0)
    sure = replace(rows, recorded_at_ms=rows.recorded_at_ms - earlier)
    assert judged(sure, limits)[4] is Attempt.TOO_LARGE


def test_so_may_one_at_whole_samples_after_the_ones_before_have_left() -> None:
    # Kafka 4.1.0, 11 samples: the oldest sample began 8 998 ms before the fifth of these.
    rows = logged(
        (0, 7, 131_236.0, 2_996), (2_997, 2, 131_156.0, 2_996), (5_995, 3, 131_156.0, 2_998),
        (8_996, 3, 131_184.0, 0), (8_998, 2, 151_096.0, 3_116), (12_115, 2, 131_176.0, 3_000),
        (15_117, 3, 131_176.0, 2_996), (18_117, 2, 131_176.0, 2_997), (21_115, 3, 131_184.0, 0),
        bound=20_000.0, samples=11,
    )  # fmt: skip
    assert set(judged(rows)) == {Attempt.PLAUSIBLE, Attempt.NOT_THROTTLED}


def test_what_is_read_after_an_error_is_no_evidence_of_the_tries_before_it() -> None:
    # Kafka 3.9.1 at its end: after 114 answers of FENCED_LEADER_EPOCH more are throttled.
    rows = logged(
        (0, 3, 15_497.0, 672), (702, 2, 49_487.0, 3_236), (3_941, 3, 97_472.0, 6_196),
        (10_533, 5, 130.0, 0), (10_536, 2, 12_732.0, 931), (11_470, 2, 98_000.0, 6_200),
        bound=15_000.0, samples=31,
    )  # fmt: skip
    limits = FetchLimits(samples=31)
    fenced = np.arange(6) == 3
    unserved = replace(rows, has_records=np.zeros(6, bool))
    assert judged(unserved, limits)[4] is Attempt.TOO_SMALL
    assert judged(replace(unserved, has_errors=fenced), limits)[4] is Attempt.UNKNOWN
    # Of two partitions one was not served: its part of the tries was not handed out.
    half = replace(rows, amount=rows.amount + np.where(fenced, 20_000.0, 0.0))
    assert judged(half, limits)[2] is Attempt.TOO_LARGE
    assert judged(replace(half, has_errors=fenced), limits)[2] is Attempt.UNKNOWN


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(186.0, Attempt.PLAUSIBLE), (178.0 + SLACK, Attempt.PLAUSIBLE), (90_000.0, Attempt.TOO_SMALL)],
)
def test_the_last_try_before_an_error_may_have_met_it_already(
    amount: float, expected: Attempt
) -> None:
    # Kafka 3.8.1: a fetch of 186 bytes is throttled as its partitions have gone to another broker.
    served = (4e5, False)
    rows = fetches(served, (2e5, True), (2e5, True), (amount, True), (178.0, False))
    fenced = replace(rows, has_errors=np.arange(5) == 4, has_records=np.arange(5) < 1)
    assert judged(fenced)[3] is expected


@pytest.mark.parametrize(("apart_ms", "is_accused"), [(0, False), (50, True)])
def test_a_try_may_have_met_another_before_it_was_taken_back(
    apart_ms: int, is_accused: bool
) -> None:
    # Kafka 4.4.0: 5,814 ms for 65,607 bytes, for another 65,620 were held in that millisecond.
    rows = logged(
        (0, 1, 65_600.0, 1_630), (1_630, 1, 131_227.0, 5_814),
        (1_630 + apart_ms, 1, 65_620.0, 2_905), (7_446, 1, 65_609.0, 0),
        bound=22_553.0, samples=11,
    )  # fmt: skip
    rows = replace(rows, position=np.array([0, 0, 1, 0]))
    assert (judged(rows, FetchLimits(samples=11))[1] is Attempt.TOO_LARGE) == is_accused


def test_a_consumer_that_closes_reads_nothing_and_is_no_try() -> None:
    # Kafka 4.4.0: the last fetch has sessionEpoch -1 and no topics, and is throttled by 231 ms.
    tries = (
        (0, 1, 65_590.0, 1_776), (1_777, 1, 65_590.0, 1_932), (3_712, 1, 26.0, 231),
    )  # fmt: skip
    closed = judged(logged(*tries, bound=37_000.0, samples=11))
    assert not set(closed) & set(ODD_ATTEMPTS)
    read_on = judged(logged(*tries, (3_950, 1, 65_590.0, 0), bound=37_000.0, samples=11))
    assert read_on[2] is Attempt.TOO_SMALL


def logged(*fetched: tuple[int, int, float, int], bound: float, samples: int) -> FetchRows:
    """Return fetches as (ms, width of its admissible times, bytes, throttle)."""
    at_ms, width_ms, size, throttle_ms = (np.array(column) for column in zip(*fetched, strict=True))
    n = len(fetched)
    return replace(
        fetches(*zip(size.tolist(), (throttle_ms > 0).tolist(), strict=True)),
        recorded_at_ms=1_700_000_000_000 + at_ms,
        interval_ms=width_ms,
        bound=np.full(n, bound),
        span_ms=np.full(n, samples * 1_000),
        logged_ms=throttle_ms,
    )


@pytest.mark.parametrize(("lag_ms", "is_accused"), [(0, True), (2_000, False)])
def test_a_fetch_about_as_soon_as_a_try_may_have_been_recorded_before_it(
    lag_ms: int, is_accused: bool
) -> None:
    # The try seems to have read what another connection was handed out after it as replayed.
    rows = fetches((2e5, False), (5e5, True), (3e5, False), (2e5, False))
    rows = replace(
        rows,
        position=np.array([0, 0, 1, 0]),
        line_lag_max_ms=np.array([0, 0, lag_ms, 0]),
    )
    assert (judged(rows)[1] in ODD_ATTEMPTS) == is_accused


@pytest.mark.parametrize(
    ("line_lag_max_ms", "expected"), [(200, Attempt.PLAUSIBLE), (100, Attempt.TOO_LARGE)]
)
def test_a_try_whose_line_came_late_began_its_sample_earlier(
    line_lag_max_ms: int, expected: Attempt
) -> None:
    # Kafka 3.2.3, 3 samples of 2 s: the second is 738 bytes more than its records, 116 ms of the
    # quota. So much earlier it began a sample, and one more had left by the fourth.
    sizes = (12_859.0, True), (13_601.0, True), (12_863.0, False), (24_935.0, True)
    rows = fetches(*sizes, (12_863.0, False))
    rows = replace(
        rows,
        recorded_at_ms=rows.recorded_at_ms[0] + np.array([0, 2_136, 4_017, 4_030, 6_049]),
        line_lag_max_ms=np.full(5, line_lag_max_ms),
        bound=np.full(5, 6_400.0),
        span_ms=np.full(5, 6_000),
    )
    # Not cut to the quota, so that only the late line explains the fourth.
    limits = FetchLimits(cuts_to_quota=False, samples=3, keeps_overlapping=False, state_slack_ms=10)
    assert judged(rows, limits)[3] is expected


@pytest.mark.parametrize(("line_lag_max_ms", "is_accused"), [(200, False), (100, True)])
def test_a_try_that_seems_to_be_nearly_a_window_less_was_recorded_before_its_late_line(
    line_lag_max_ms: int, *, is_accused: bool
) -> None:
    # Kafka 4.4.0, 3 samples of 1 s: the third is 5,274 bytes less than its records, 879 ms of the
    # quota. It was recorded 121 ms earlier, so its sample had left by the sixth.
    tries = (12_063.0, False), (12_063.0, True), (6_789.0, True), (12_063.0, False)
    rows = fetches(*tries, (11_337.0, True), (12_969.0, True), (12_063.0, False))
    at_ms = np.array([23_810, 23_844, 25_873, 27_024, 27_029, 28_779, 30_046])
    rows = replace(
        rows,
        recorded_at_ms=rows.recorded_at_ms[0] + at_ms,
        line_lag_max_ms=np.full(7, line_lag_max_ms),
        bound=np.full(7, 6_000.0),
        span_ms=np.full(7, 3_000),
    )
    limits = FetchLimits(samples=3)
    assert (judged(rows, limits)[5] in ODD_ATTEMPTS) == is_accused


@pytest.mark.parametrize(("line_lag_max_ms", "is_accused"), [(265, False), (100, True)])
def test_a_try_that_is_never_answered_came_before_its_line_by_as_much_as_it_may(
    line_lag_max_ms: int, *, is_accused: bool
) -> None:
    # Kafka 4.4.0: the third was recorded 130 ms before its line, when the first still counted.
    tries = (69_065.0, False), (69_059.0, True), (179_773.0, True), (110_564.0, True)
    rows = fetches(*tries, (113_510.0, True), (113_514.0, True))
    rows = replace(
        rows,
        recorded_at_ms=rows.recorded_at_ms[0]
        + np.array([17_291, 17_297, 28_423, 38_955, 43_966, 54_388]),
        line_lag_max_ms=np.full(6, line_lag_max_ms),
        bound=np.array([6_900.0] * 2 + [11_345.0] * 4),
    )
    assert (judged(rows)[2] in ODD_ATTEMPTS) == is_accused
