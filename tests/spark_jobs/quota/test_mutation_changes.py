"""With which quota a controller met mutations beside a change: what they tell decides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from spark_jobs.quota.kernels import OTHER_SENSOR, SAME_BUCKET
from spark_jobs.quota.mutation_bucket import Bucket, MutationRequest
from spark_jobs.quota.mutation_changes import as_in_force
from tests.spark_jobs.quota.mutation_requests import BURST_S, parts, request


def in_force(*requests: MutationRequest) -> list[float]:
    return [one.bound for one in as_in_force(requests, Bucket(BURST_S))]


def test_a_request_met_before_a_change_had_come_has_spent_nothing_of_the_new_bucket() -> None:
    # The first is answered after the change was, and leaves the bucket full: 11 − 12 is left then.
    early = replace(request(0, (3.0, True)), may_be_before_change=True)
    full = request(1_000, (12.0, True))
    told = request(1_500, (1.0, False), logged_ms=450)
    assert in_force(early, full, told)[1:] == [1.0, 1.0]
    assert math.isnan(in_force(early, full, told)[0])
    # 11 − 3 + 1 − 12: a debt of 3.
    owing = request(1_500, (1.0, False), logged_ms=2_450)
    assert in_force(early, full, owing) == [1.0, 1.0, 1.0]


def test_a_change_is_met_so_that_the_fewest_are_wrong_however_many_lines_are_late() -> None:
    early = replace(request(0, (1.3, True)), may_be_before_change=True)
    full = request(1_000, (12.0, True))
    # 11 - 12 + 1.1 is enough; 11 - 1.3 + 1 - 12 + 1.1 is not.
    let_in = request(2_100, (1.0, True))
    # Then 650 ms are due, 550 ms and so on, 300 ms more with the debt that is too much: a sound
    # broker's lines may be as late as that.
    late = [request(2_300 + 100 * i, (1.0, False), logged_ms=950 - 100 * i) for i in range(4)]
    bounds = in_force(early, full, let_in, *late)
    assert math.isnan(bounds[0])
    assert bounds[1:] == [1.0] * 6


def test_all_that_may_have_met_the_quota_of_before_are_tried_at_every_time_of_a_full_bucket() -> (
    None
):
    # Both topics before the change, and the bucket full 30 ms after the estimate, explain the rest.
    # At the estimate one topic explains more: 11 - 1.04 + 1 - 12 is a debt of 1,040 ms.
    first, second = (replace(one, may_be_before_change=True)
                     for one in parts(0, 1, (1.04, True), (1.04, True)))  # fmt: skip
    full = request(1_000, (12.0, True), late_ms=30)
    told = request(1_500, (1.0, False), logged_ms=480)
    owing = request(2_010, (1.0, False), logged_ms=0)
    bounds = in_force(first, second, full, told, owing)
    assert [math.isnan(bound) for bound in bounds] == [True, True, False, False, False]


def test_how_a_change_was_met_may_be_told_after_the_next_one() -> None:
    spent = request(0, (11.0, True))
    early = replace(request(2_000, (1.0, True)), bound=3.0, may_be_before_change=True)
    owing = replace(request(2_200, (4.0, True)), bound=3.0)
    # At the bound of before 2 were there, so 1 and then 1.6 less 4; with the new one 6.
    told = replace(request(3_000, (1.0, False), logged_ms=350), bound=2.0)
    assert in_force(spent, early, owing, told) == [1.0, 1.0, 3.0, 2.0]
    let_in = replace(request(3_000, (1.0, True)), bound=2.0)
    assert in_force(spent, early, owing, let_in) == [1.0, 3.0, 3.0, 2.0]


def test_how_the_next_change_was_met_does_not_tell_of_the_one_before() -> None:
    # From 4/s to 2/s and to 0.5/s. At 2/s there are 2, so 1, 1.6 - 3 and a debt of 1.2 then.
    spent = replace(request(0, (44.0, True)), bound=4.0)
    met = replace(request(1_000, (1.0, True)), bound=2.0, may_be_before_change=True)
    owing = replace(request(1_300, (3.0, True)), bound=2.0)
    told = replace(request(1_400, (1.0, False), logged_ms=550), bound=2.0)
    # The next one met 2/s, too: at 0.5/s it met a debt, unless the first was met at 4/s.
    late = replace(request(2_633, (1.0, True)), bound=0.5, may_be_before_change=True)
    again = replace(request(2_700, (2.0, True)), bound=0.5)
    refused = replace(request(2_800, (1.0, False), logged_ms=3_250), bound=0.5)
    bounds = in_force(spent, met, owing, told, late, again, refused)
    assert bounds == [4.0, 2.0, 2.0, 2.0, 2.0, 0.5, 0.5]


def test_nothing_is_met_by_the_bound_of_before_where_no_throttle_asks_for_it() -> None:
    early = replace(request(0, (3.0, True)), may_be_before_change=True)
    assert in_force(early, request(1_000, (2.0, True))) == [1.0, 1.0]


def test_a_request_before_a_change_was_answered_may_have_met_it_all_the_same() -> None:
    early = replace(request(0, (3.0, True)), bound=26.0, may_be_after_change=True)
    spent, owed = request(1_000, (9.0, True)), request(1_500, (1.0, True))
    # 11 - 3 + 1 - 9 + 0.5 - 1 + 0.1; of a bucket that was full after the change 2 more are left.
    told, again = (request(at, (1.0, False), logged_ms=2_000 - at) for at in (1_600, 1_700))
    assert in_force(early, spent, owed, told, again) == [1.0] * 5
    let_in = request(1_600, (1.0, True))
    assert in_force(early, spent, owed, let_in) == [26.0, 1.0, 1.0, 1.0]
    before = replace(early, may_be_after_change=False)
    assert in_force(before, spent, owed, told, again) == [26.0, *[1.0] * 4]
    # One request alone is no reason to take a change to be met before its answer.
    assert in_force(early, spent, owed, told) == [26.0, 1.0, 1.0, 1.0]


def test_a_value_that_was_changed_again_at_once_may_have_met_a_request_all_the_same() -> None:
    # A quota of 4 became 1 and then 2: what met it at 1 left a bucket of 11 - 3, and not of 22.
    spent, last = replace(request(0, (1.0, True)), bound=4.0), request(1_000, (3.0, True))
    met = replace(last, bound=2.0, bound_until=1.0, may_be_before_change=True)
    owing = replace(request(2_000, (12.0, True)), bound=2.0)

    def refused(*times_ms: int, ends_ms: int) -> list[MutationRequest]:
        refusals = (request(at, (1.0, False), logged_ms=ends_ms - at - 50) for at in times_ms)
        return [replace(one, bound=2.0) for one in refusals]

    told = refused(2_300, 2_600, ends_ms=3_000)
    assert in_force(spent, met, owing, *told) == [4.0, 1.0, *[2.0] * 3]
    unknown = replace(met, bound_until=math.nan)
    assert in_force(spent, unknown, owing, *told) == [4.0, *[2.0] * 4]
    let_in = replace(request(2_300, (1.0, True)), bound=2.0)
    assert in_force(spent, met, owing, let_in) == [4.0, *[2.0] * 3]
    # Nothing came before it, and a later change is to that value.
    later = request(20_000, (1.0, True))
    assert in_force(met, owing, *told, later) == [1.0, *[2.0] * 3, 1.0]
    # It may have met the last one before: 11 - 1, and 2 - 3 and 2 - 12 since.
    early = replace(spent, may_be_after_change=True)
    told = refused(2_200, 2_300, ends_ms=2_500)
    assert in_force(early, met, owing, *told) == [1.0, *[2.0] * 4]


def test_only_requests_shortly_after_a_change_are_met_by_the_bound_of_before() -> None:
    full, told = request(1_000, (12.0, True)), request(1_500, (1.0, False), logged_ms=450)
    assert in_force(request(0, (3.0, True)), full, told) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("debt_ms", "is_elsewhere"), [(500, True), (1_500, False)])
def test_one_that_met_the_sensor_it_was_sent_from_has_spent_nothing_of_the_other(
    debt_ms: int, is_elsewhere: bool
) -> None:
    """A quota was taken away at a debt of 0.5; another one then sends the requests there again.

    After 3.5 s there are 3 tokens, or 2 if the first to come met the quota: 3.5 are spent.
    """
    owing, spent = request(0, (11.5, True)), request(3_500, (3.5, True))
    early = replace(request(2_000, (1.0, True)), has_joined=True, may_be_before_change=True)
    told = request(3_600, (1.0, False), logged_ms=debt_ms - 150)
    found = as_in_force([owing, early, spent, told], Bucket(BURST_S))
    assert (found[1].bucket_gap == OTHER_SENSOR) == is_elsewhere
    assert math.isnan(found[1].bound) == is_elsewhere
    assert [one.bucket_gap for one in (found[0], *found[2:])] == [SAME_BUCKET] * 3


def test_one_that_came_from_a_sensor_with_a_quota_has_that_one() -> None:
    owing = request(0, (11.5, True))
    early = replace(
        request(2_000, (1.0, True)), has_joined=True, may_be_before_change=True, bound_left=7.0
    )
    told = [request(3_500, (3.5, True)), request(3_600, (1.0, False), logged_ms=350)]
    found = as_in_force([owing, early, *told], Bucket(BURST_S))
    assert (found[1].bucket_gap, found[1].bound) == (OTHER_SENSOR, 7.0)
    late = replace(early, may_be_before_change=False)
    found = as_in_force([owing, late, *told], Bucket(BURST_S))
    assert (found[1].bucket_gap, found[1].bound) == (SAME_BUCKET, 1.0)
