"""The throttle in a mutation's response ends when the bucket's debt does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.kernels import replay_token_bucket
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates
from spark_jobs.replay.verdicts.mutation_throttle import (
    AGREE,
    LATE_LINE,
    NOT_JUDGED,
    OVER_THROTTLED,
    REQUEST_QUOTA,
    UNDER_THROTTLED,
    MutationThrottleRows,
    full_bucket_interval_ms,
    judge_mutation_throttles,
    mutation_throttles,
    response_interval_ms,
)

T0 = 1_700_000_000_000
TOLERANCE_MS = 5


def requests(
    mutations: list[tuple[int, int, float, bool]],
    logged_ms: dict[int, int],
    is_strict: bool = True,
    answered_after_ms: int = 30,
    interval_ms: int = 0,
    is_atomic: bool = True,
) -> MutationThrottleRows:
    """Return mutations (request, at ms, partitions, admitted) at 10 partitions/s, replayed."""
    n = len(mutations)
    request, at_ms, amount, admitted = (np.array(column) for column in zip(*mutations, strict=True))
    states = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
    strict, bound = np.full(n, is_strict), np.full(n, 10.0)
    found = replay_token_bucket(
        np.zeros(n), T0 + at_ms, amount, bound, strict, admitted, *states.bucket_arrays()
    )
    response_ms = T0 + at_ms + answered_after_ms
    return MutationThrottleRows(
        sensor=np.zeros(n, np.int64),
        request=request,
        unit=request if is_atomic else np.arange(n),
        recorded_at_ms=T0 + at_ms,
        interval_ms=np.full(n, interval_ms),
        bound=bound,
        burst=bound * 11.0,
        tokens_before=found.tokens_before,
        replayed_ms=found.throttle_time_ms,
        is_strict=strict,
        admitted=admitted,
        is_state_known=found.is_state_known,
        spent=np.where(strict & ~admitted, 0.0, amount),
        has_request_bound=np.zeros(n, bool),
        response_earliest_ms=response_ms,
        response_latest_ms=response_ms,
        logged_ms=np.array([logged_ms.get(r, 0) for r in request]),
        debt_slack_ms=np.full(1, np.nan),
        debt_bound=np.full(1, np.nan),
    )


# A full bucket of 110: 200 leave -90, so the debt ends 9 s after that, whenever it is looked at.
REFUSED = [(1, 0, 200.0, True), (2, 1000, 5.0, False), (3, 4000, 5.0, False)]


def judged(rows: MutationThrottleRows) -> np.ndarray:
    return judge_mutation_throttles(rows, mutation_throttles(rows), TOLERANCE_MS)


def test_what_is_left_of_the_debt_is_said_less_the_wait_for_the_response() -> None:
    rows = requests(REFUSED, {2: 7970, 3: 4970})
    said = mutation_throttles(rows)
    assert said.throttle_min_ms.tolist() == said.throttle_max_ms.tolist() == [0, 7970, 4970]
    assert judged(rows).tolist() == [AGREE] * 3


@pytest.mark.parametrize(
    ("excess_ms", "expected"),
    [
        (5, AGREE),
        (6, LATE_LINE),
        (5 + LINE_LAG_MAX_MS, LATE_LINE),
        (6 + LINE_LAG_MAX_MS, OVER_THROTTLED),
        (-5, AGREE),
        (-6, LATE_LINE),
        (-5 - LATE_LINE_MS, LATE_LINE),
        (-6 - LATE_LINE_MS, UNDER_THROTTLED),
    ],
)
def test_a_throttle_that_ends_at_another_time_than_the_debt_is_wrong(
    excess_ms: int, expected: int
) -> None:
    rows = requests(REFUSED, {2: 7970 + excess_ms, 3: 4970})
    found = judged(rows)
    assert found.tolist() == [AGREE, expected, AGREE]


def test_only_the_record_time_of_a_full_bucket_leaves_the_end_open() -> None:
    rows = requests(REFUSED, {2: 7970, 3: 4970}, interval_ms=40)
    narrow = replace(rows, interval_ms=np.array([0, 40, 40]))
    assert mutation_throttles(narrow).throttle_max_ms.tolist() == [0, 7970, 4970]
    wide = mutation_throttles(rows)
    assert wide.throttle_min_ms.tolist() == [0, 7930, 4930]
    assert wide.throttle_max_ms.tolist() == [0, 8010, 5010]


@pytest.mark.parametrize(
    ("answered_after_ms", "logged_ms", "expected"),
    [
        # The debt of the first ends after 9 s; the second is answered around that, by its line.
        (8990, 0, LATE_LINE),
        (8930, 0, UNDER_THROTTLED),
        (9020, 30, LATE_LINE),
        (9350, 30, OVER_THROTTLED),
        (9050, 0, AGREE),
    ],
)
def test_a_line_that_is_late_may_be_on_the_other_side_of_the_debts_end(
    answered_after_ms: int, logged_ms: int, expected: int
) -> None:
    mutations = [(1, 0, 200.0, True), (2, 10, 5.0, False)]
    rows = requests(mutations, {2: logged_ms}, answered_after_ms=answered_after_ms - 10)
    assert judged(rows).tolist() == [AGREE, expected]


def test_an_admitted_strict_mutation_is_not_throttled_even_where_it_leaves_a_debt() -> None:
    rows = requests([(1, 0, 200.0, True)], {1: 9000})
    assert mutation_throttles(rows).throttle_max_ms[0] == 0
    assert judged(rows)[0] == OVER_THROTTLED


def test_a_permissive_mutation_is_throttled_by_the_debt_it_leaves() -> None:
    rows = requests([(1, 0, 200.0, True), (2, 1000, 10.0, True)], {1: 8970, 2: 8970}, False)
    assert mutation_throttles(rows).throttle_min_ms.tolist() == [8970, 8970]
    assert judged(rows).tolist() == [AGREE, AGREE]


@pytest.mark.parametrize(
    ("logged_ms", "expected"), [(0, AGREE), (45, LATE_LINE), (55, LATE_LINE), (56, OVER_THROTTLED)]
)
def test_a_permissive_mutation_whose_line_is_late_left_a_debt_that_has_ended_since(
    logged_ms: int, expected: int
) -> None:
    # Recorded with the first it owes 400 ms; as its line says, 2.7 tokens are left 30 ms before its
    # answer.
    mutations = [(1, 0, 109.0, True), (2, 670, 5.0, True)]
    rows = requests(mutations, {2: logged_ms}, False)
    assert judged(rows).tolist() == [AGREE, expected]


def test_the_topics_of_a_request_share_what_its_last_violation_asked_for() -> None:
    rows = requests([(1, 0, 100.0, True), (1, 0, 100.0, True), (1, 0, 1.0, False)], {1: 8970})
    assert mutation_throttles(rows).throttle_min_ms.tolist() == [8970, 8970, 8970]


def test_a_longer_throttle_may_be_the_request_quota_of_the_same_client() -> None:
    rows = requests(REFUSED, {2: 8500, 3: 4970})
    with_request = replace(rows, has_request_bound=np.ones(3, bool))
    found = judged(with_request)
    assert found.tolist() == [AGREE, REQUEST_QUOTA, AGREE]


def test_a_refusal_that_nothing_asked_for_is_a_matter_of_admission() -> None:
    rows = requests([(1, 0, 5.0, False)], {1: 700})
    assert judged(rows)[0] == NOT_JUDGED
    without = replace(requests(REFUSED, {2: 1}), bound=np.full(3, np.nan))
    assert judged(without).tolist() == [NOT_JUDGED] * 3


def test_the_response_was_made_just_before_it_was_complete() -> None:
    first, last = response_interval_ms([T0 + 100], [10_000], [20_000])
    assert (first[0] - T0, last[0] - T0) == (66, 70)


def test_a_changed_bound_rescales_what_the_full_bucket_left_open() -> None:
    rows = replace(
        requests(REFUSED, {2: 7970, 3: 4970}),
        interval_ms=np.array([40, 6, 6]),
        bound=np.array([10.0, 20.0, 20.0]),
    )
    assert full_bucket_interval_ms(rows).tolist() == [40, 26, 26]
    assert (rows.debt_slack_ms.tolist(), rows.debt_bound.tolist()) == ([26.0], [20.0])
    again_full = replace(rows, tokens_before=np.array([110.0, -90.0, 110.0]))
    assert full_bucket_interval_ms(again_full).tolist() == [40, 26, 6]


@pytest.mark.parametrize(
    ("second_excess_ms", "third_excess_ms", "apart_ms", "expected"),
    [
        (0, 0, 10, [AGREE, AGREE]),
        # The third is charged 20 partitions, two seconds of the bound, and the second half a one.
        (2000, -500, 10, [LATE_LINE, LATE_LINE]),
        # Its own line came so late: the response was made earlier, too.
        (2000, -200, 10, [LATE_LINE, LATE_LINE]),
        (1500, -600, 10, [OVER_THROTTLED, UNDER_THROTTLED]),
        (2000, -500, LINE_LAG_MAX_MS + 1, [OVER_THROTTLED, UNDER_THROTTLED]),
    ],
)
def test_of_two_about_as_soon_each_may_owe_what_the_other_was_charged(
    second_excess_ms: int, third_excess_ms: int, apart_ms: int, expected: list[int]
) -> None:
    # Topics of a request are charged together.
    charged = [(3, 4000 + apart_ms, 15.0, True), (3, 4000 + apart_ms, 5.0, True)]
    due_ms = {1: 8970, 2: 5470 + second_excess_ms, 3: 7470 - apart_ms + third_excess_ms}
    rows = requests([(1, 0, 200.0, True), (2, 4000, 5.0, True), *charged], due_ms, is_strict=False)
    assert judged(rows).tolist() == [AGREE, *expected, expected[-1]]


@pytest.mark.parametrize("partitions", [5, 15])
@pytest.mark.parametrize(("is_atomic", "expected"), [(False, LATE_LINE), (True, OVER_THROTTLED)])
def test_a_request_may_come_between_two_topics_that_are_recorded_one_by_one(
    partitions: int, is_atomic: bool, expected: int
) -> None:
    # Of the third request, so many partitions are charged before the second one, at 10 a second;
    # no line tells the order of its topics.
    charged = [(3, 4010, 15.0, True), (3, 4010, 5.0, True)]
    due_ms = {1: 8970, 2: 5470 + partitions * 100, 3: 7470 - 10}
    mutations = [(1, 0, 200.0, True), (2, 4000, 5.0, True), *charged]
    rows = requests(mutations, due_ms, is_strict=False, is_atomic=is_atomic)
    assert judged(rows).tolist() == [AGREE, expected, AGREE, AGREE]


@pytest.mark.parametrize(("partitions", "expected"), [(12, LATE_LINE), (8, UNDER_THROTTLED)])
def test_one_that_was_refused_between_topics_owes_only_those_before_it(
    partitions: int, expected: int
) -> None:
    # Its line is late: of the topics ahead of it, so many partitions came after it.
    ahead = [(2, 4000, 15.0, True), (2, 4000, 12.0, True), (2, 4000, 7.0, True)]
    due_ms = {1: 8970, 2: 8370, 3: 8370 - partitions * 100}
    rows = requests([(1, 0, 200.0, True), *ahead, (3, 4000, 5.0, False)], due_ms, is_atomic=False)
    assert judged(rows)[-1] == expected


@pytest.mark.parametrize(
    ("partitions", "took_ms", "is_atomic", "expected"),
    [
        # A debt of 9 s less that of the first topic, which owes 9.02 s: over before that came.
        (90.2, 60, False, LATE_LINE),
        (90.2, 60, True, UNDER_THROTTLED),
        (90.2, 5, False, UNDER_THROTTLED),
        (80.0, 60, False, UNDER_THROTTLED),
    ],
)
def test_a_topic_may_be_refused_before_others_of_its_request_are_admitted(
    partitions: float, took_ms: int, expected: int, *, is_atomic: bool
) -> None:
    topics = [(1, 0, 200.0 - partitions, True), (2, 0, partitions, True), (2, 0, 5.0, False)]
    rows = requests(topics, {1: 0, 2: 0}, interval_ms=took_ms, is_atomic=is_atomic)
    assert judged(rows).tolist()[1:] == [expected, expected]
    throttled = requests(topics, {1: 0, 2: 300}, interval_ms=took_ms, is_atomic=is_atomic)
    assert judged(throttled).tolist()[1:] == [UNDER_THROTTLED] * 2
