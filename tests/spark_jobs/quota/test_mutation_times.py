"""Record times of mutations explain what was admitted, and a lie moves nobody but itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.kernels import CHARGES_MISSING
from spark_jobs.quota.mutation_bucket import WRONG, Bucket, MutationRequest, record
from spark_jobs.quota.mutation_times import choose_record_times, stretches
from spark_jobs.quota.token_bucket import TokenBucket
from tests.spark_jobs.quota.mutation_requests import BURST_S, SPENT, T0, parts, request


def chosen(*requests: MutationRequest) -> list[int]:
    return [at_ms - T0 for at_ms in choose_record_times(requests, Bucket(BURST_S))]


def test_a_client_back_in_the_millisecond_of_its_bucket_was_recorded_when_it_was_even() -> None:
    assert chosen(SPENT, request(998, (1.0, True), late_ms=5)) == [0, 1000]
    assert chosen(SPENT, request(1003, (1.0, False), early_ms=9)) == [0, 999]


def test_a_decision_that_the_estimate_explains_stays_there() -> None:
    assert chosen(SPENT, request(1003, (1.0, True), early_ms=9)) == [0, 1003]


@pytest.mark.parametrize(("early_ms", "times_ms"), [(20, [999] * 3), (8, [1_010] * 3)])
def test_topics_of_one_request_may_all_have_been_recorded_before_their_estimate(
    early_ms: int, times_ms: list[int]
) -> None:
    # Of ten spent one is left, and two at 1,000 ms: the third topic found less than that.
    topics = [
        replace(
            request(1_010, (1.0, is_admitted), early_ms=early_ms, logged_ms=0),
            request=1, parts=3, is_first=number == 0,
        )
        for number, is_admitted in enumerate((True, True, False))
    ]  # fmt: skip
    assert chosen(request(0, (10.0, True)), *topics) == [0, *times_ms]


@pytest.mark.parametrize(
    ("late_ms", "recorded_ms"),
    [(4, 999), (LATE_LINE_MS, 999), (LATE_LINE_MS + 1, 1_000 + LATE_LINE_MS + 3)],
)
def test_one_refused_as_a_debt_had_ended_was_recorded_before_its_late_line_says(
    late_ms: int, recorded_ms: int
) -> None:
    # The debt ends at 1,000 ms, and the line says that it was refused later than 999 ms.
    refused = request(999 + late_ms + 3, (1.0, False), early_ms=3)
    assert chosen(SPENT, refused) == [0, recorded_ms]


@pytest.mark.parametrize(
    ("late_ms", "logged_ms", "recorded_ms"),
    [
        (180, 0, 999),
        (LINE_LAG_MAX_MS, 0, 999),
        (LINE_LAG_MAX_MS + 1, 0, None),
        (180, None, None),
        # The debt, until 1,000 ms, had so long to go, or a millisecond less.
        (180, 54, 1_000 - 53),
        (LINE_LAG_MAX_MS - 54, 54, 1_000 - 53),
        (LINE_LAG_MAX_MS - 50, 54, None),
    ],
)
def test_a_line_is_later_where_the_throttle_says_that_the_debt_had_ended(
    late_ms: int, logged_ms: int | None, recorded_ms: int | None
) -> None:
    at_ms = 999 + late_ms
    refused = request(at_ms, (1.0, False), logged_ms=logged_ms)
    assert chosen(SPENT, refused) == [0, recorded_ms or at_ms]


@pytest.mark.parametrize("late_ms", [120, 280])
def test_one_whose_line_is_late_may_have_come_before_one_that_owes_what_it_was_charged(
    late_ms: int,
) -> None:
    # The first debt ends at 1,000 ms. At 1,010 ms 2 are admitted, and end it at 3,000 ms.
    owed = [request(at_ms, (1.0, False), logged_ms=2_950 - at_ms) for at_ms in (1_015, 1_100)]
    late = request(1_010 + late_ms, (2.0, True), logged_ms=1_940, is_strict=False)
    times_ms = chosen(SPENT, *owed, late)
    assert times_ms == [0, 1_015, 1_100, pytest.approx(1_010, abs=5)]


def test_the_topics_of_a_request_share_the_time_that_explains_all_of_them() -> None:
    both = request(998, (0.5, True), (1.0, False), early_ms=9, late_ms=600)
    assert chosen(SPENT, both) == [0, 1000]
    more = request(998, (0.5, True), (1.0, True), early_ms=9, late_ms=600)
    assert chosen(SPENT, more) == [0, 1500]


def test_the_time_of_a_full_bucket_is_the_one_that_explains_most_after_it() -> None:
    spent = replace(SPENT, earliest_ms=T0 - 40)
    late = [request(960 + 2000 * i, (2.0, True)) for i in range(4)]
    assert chosen(spent, *late) == [-40, 960, 2960, 4960, 6960]


def test_a_logged_throttle_tells_the_time_of_the_full_bucket() -> None:
    spent = replace(SPENT, earliest_ms=T0 - 40)
    # 20 ms shorter than from the estimate.
    refused = request(400, (1.0, False), logged_ms=1000 - 450 - 20)
    assert -22 <= chosen(spent, refused)[0] <= -17


def test_two_logged_throttles_tell_that_the_line_of_the_full_bucket_is_late() -> None:
    # The debt of 1 ends 90 ms before it would, were the first recorded when its line says.
    told = [request(at_ms, (1.0, False), logged_ms=860 - at_ms) for at_ms in (300, 600)]
    assert chosen(SPENT, *told) == [pytest.approx(-90, abs=5), 300, 600]
    assert chosen(SPENT, told[0]) == [0, 300]


@pytest.mark.parametrize(("tells", "is_late"), [(True, True), (False, False)])
def test_a_full_bucket_s_line_is_a_little_late_where_a_throttle_tells_of_it_too(
    tells: bool, is_late: bool
) -> None:
    # Full 20 ms before its line says, the debt ends at 980 ms.
    refused = request(500, (1.0, False), logged_ms=430 if tells else 450)
    times_ms = chosen(SPENT, refused, request(985, (1.0, True)))
    assert times_ms == [pytest.approx(-18, abs=3) if is_late else 0, 500, 985]


def test_a_bucket_in_doubt_explains_no_throttle_that_neither_of_its_debts_asks_for() -> None:
    # Recorded at -100 ms: the debt of 1 ends at 900 ms, and with 5 more at 5,900 ms. At -60 ms the
    # first throttle were 40 ms short, as of a late line, and 2 admitted at 905 ms against a debt,
    # spent or not: the debt ends at 3,940 or at 5,940 ms then, and at none in between.
    spent = replace(SPENT, earliest_ms=T0 - 200)
    refused = request(300, (1.0, False), logged_ms=550)
    admitted = request(905, (2.0, True))
    permissive = request(950, (3.0, True), logged_ms=4_900, is_strict=False)
    told = [
        request(at_ms, (1.0, False), logged_ms=5_850 - at_ms) for at_ms in range(1_000, 1_600, 100)
    ]
    late = [
        request(at_ms, (1.0, False), logged_ms=5_820 - at_ms) for at_ms in range(1_600, 2_100, 100)
    ]
    times_ms = chosen(spent, refused, admitted, permissive, *told, *late)
    assert times_ms[0] == pytest.approx(-100, abs=5)


def test_a_throttle_tells_whether_one_admitted_against_a_debt_was_spent() -> None:
    bucket = Bucket(BURST_S)
    for one in (
        request(0, (14.0, True)),
        request(500, (2.0, True)),  # against a debt of 2.5
        request(1_000, (1.0, False), logged_ms=4_950 - 1_000),  # 2 and, were it spent, 2 more
    ):
        record(one, bucket, one.recorded_at_ms, {})
    assert bucket.least == bucket.most == pytest.approx(-4.0)


def test_a_bucket_that_may_have_been_full_again_is_so_where_that_explains_more() -> None:
    first = request(0, (1.0, True), early_ms=400)
    # A hundredth of a token short of full, were the first recorded at its estimate.
    second = request(990, (1.0, True), early_ms=200)
    # Of 10.6 tokens, were the second recorded at 900 ms: the debt of 1 ends at 2,500 ms.
    spent = request(1500, (11.6, True))
    told = [request(at_ms, (1.0, False), logged_ms=2450 - at_ms) for at_ms in (1800, 2100)]
    admitted = request(2500, (1.0, True))
    times_ms = chosen(first, second, spent, *told, admitted)
    assert times_ms[1:] == [pytest.approx(900, abs=2), 1500, 1800, 2100, 2500]


def test_those_before_a_bucket_that_was_full_again_may_have_met_it_full_and_earlier_too() -> None:
    first, second = request(0, (1.0, True), early_ms=400), request(990, (1.0, True), early_ms=400)
    # Full at 1,700 ms only if the second was recorded by 700 ms, and it by the first.
    third = request(1_995, (1.0, True), early_ms=300)
    # Of 10.8 tokens: the debt of 1 ends at 3,500 ms.
    spent = request(2_500, (11.8, True))
    told = [request(at_ms, (1.0, False), logged_ms=3_450 - at_ms) for at_ms in (2_800, 3_100)]
    admitted = request(3_500, (1.0, True))
    times_ms = chosen(first, second, third, spent, *told, admitted)
    assert times_ms[2:] == [pytest.approx(1_700, abs=2), 2_500, 2_800, 3_100, 3_500]


def test_all_topics_of_a_request_may_have_come_before_the_bucket_was_full_again() -> None:
    # Full at 2,000 ms. A controller that stood still for 4 s recorded both before, or after it.
    topics = [
        replace(
            request(5_500, (amount, True), early_ms=4_500), request=1, parts=2, is_first=not number
        )
        for number, amount in enumerate((1.0, 4.0))
    ]
    spent = request(6_000, (8.8, True))  # of 9 tokens, of 6.5 were only the first topic before
    admitted = request(6_010, (1.0, True))
    times_ms = chosen(request(0, (2.0, True)), *topics, spent, admitted)
    assert times_ms[1] == times_ms[2] <= 2_200
    assert times_ms[3:] == [6_000, 6_010]


def test_an_admission_against_a_debt_may_have_been_spent_all_the_same() -> None:
    bucket = Bucket(BURST_S, most=-1.0, least=-1.0, last_update_ms=T0)
    assert record(request(0, (3.0, True)), bucket, T0, {}) == WRONG
    assert (bucket.least, bucket.most) == (-4.0, -1.0)
    # Of a debt of 1 to 4 the response says after 50 ms how long it is: from 950 to 3,950 ms.
    for logged_ms, wrong in ((940, WRONG), (950, 0), (3_950, 0)):
        refused = request(0, (1.0, False), logged_ms=logged_ms)
        assert bool(record(refused, bucket.copy(), T0, {})) == bool(wrong)


def test_a_bucket_full_at_the_estimates_may_have_been_full_sooner_were_others_earlier() -> None:
    first = request(100, (1.0, True), early_ms=100)
    # At 1,040 ms the bucket is full only if the first one was recorded by 40 ms.
    second = request(1_130, (11.5, True), early_ms=130)
    told = [request(at_ms, (1.0, False), logged_ms=1_490 - at_ms) for at_ms in (1_300, 1_400)]
    assert chosen(first, second, *told)[1:] == [pytest.approx(1_040, abs=4), 1_300, 1_400]


def test_the_last_record_before_a_change_tells_from_when_on_the_new_quota_refilled() -> None:
    # Refilled by 2 a second from 500 ms on, a debt of 0.5 is paid at 750 ms; from 540 ms at 770 ms.
    before = request(500, (math.nextafter(0, 1), False), late_ms=60)
    told = [request(ms, (1.0, False), bound=2.0, logged_ms=770 - ms - 50) for ms in (600, 650)]
    assert chosen(SPENT, before, *told) == [0, pytest.approx(540, abs=9), 600, 650]


def test_the_times_before_two_changes_are_each_told_by_what_follows() -> None:
    # Full 8 ms sooner, the debt ends at 992 ms. Both topics were recorded at 1,488 ms: refilled by
    # 3 a second from then on, what they owe ends at 1,989 ms. Full 32 ms sooner, and with the
    # topics at 1,500 ms, it ends then, too: that explains more than each of the two times alone.
    full = replace(SPENT, earliest_ms=T0 - 40)
    first = request(400, (1.0, False), logged_ms=992 - 450)
    topics = [
        replace(one, earliest_ms=T0 + 1_480, latest_ms=T0 + 1_500, recorded_at_ms=T0 + 1_500)
        for one in parts(1_500, 1, (1.0, True), (1.0, True))
    ]
    topics = [replace(one, logged_ms=None) for one in topics]
    told = [
        request(ms, (1.0, False), bound=3.0, logged_ms=1_989 - ms - 50) for ms in (1_600, 1_700)
    ]
    times_ms = chosen(full, first, *topics, *told)
    near = pytest.approx(1_488, abs=8)
    assert times_ms == [pytest.approx(-8, abs=2), 400, near, near, 1_600, 1_700]


def test_a_bucket_full_again_before_two_changes_is_told_by_what_follows_all_of_them() -> None:
    # Full again at 997 ms or sooner, it owes nothing at 1,599 ms. The last one before the second
    # change was recorded some ms before its estimate: at 3,900 ms a little was still owed.
    full = request(0, (1.0, True), early_ms=10)
    again = request(1_000, (10.0, True), early_ms=5)
    at_three = [
        request(1_599, (1.0, True), bound=3.0),
        request(1_950, (2.0, True), bound=3.0, early_ms=10),
    ]
    told = [request(3_900, (1.0, False)), request(3_905, (1.0, True))]
    times_ms = chosen(full, again, request(1_400, (2.0, True)), *at_three, *told)
    sooner, later = pytest.approx(996, abs=1), pytest.approx(1_946, abs=1)
    assert times_ms[1:] == [sooner, 1_400, 1_599, later, 3_900, 3_905]


def test_topics_recorded_one_by_one_may_have_others_between_them() -> None:
    a, b = parts(1_500, 1, (1.0, True), (2.0, True)), parts(1_502, 2, (1.0, True), (1.0, True))
    # A debt of 4.5 is due after all of them, one of 2.5 after the first and both of the other.
    a = [replace(one, logged_ms=4_445) for one in a]
    b = [replace(one, logged_ms=2_445) for one in b]
    (found,) = stretches([SPENT, *a, *b], Bucket(BURST_S))
    assert [one.request for one in found] == [0, 1, 3, 4, 2]


def test_one_lie_stays_at_its_estimate_and_moves_no_other() -> None:
    spent = replace(SPENT, earliest_ms=T0 - 40)
    honest = [request(1000 + 2000 * i, (2.0, True)) for i in range(4)]
    lie = request(5960, (2.0, True), early_ms=3, late_ms=3)
    assert chosen(spent, *honest[:3], lie, honest[3]) == [0, 1000, 3000, 5000, 5960, 7000]


def test_what_is_not_known_is_left_at_its_estimate() -> None:
    unknown = request(0, (math.nan, True))
    assert chosen(unknown, request(998, (1.0, True), late_ms=5)) == [0, 998]
    gap = replace(request(998, (1.0, True), late_ms=5), bucket_gap=CHARGES_MISSING)
    assert chosen(SPENT, gap) == [0, 998]


def test_without_a_quota_nothing_is_asked() -> None:
    free = request(0, (1e9, True), bound=math.nan, late_ms=9)
    assert chosen(free, free) == [0, 0]


@pytest.mark.parametrize("is_strict", [True, False])
@given(st.data())
def test_what_a_bucket_did_is_explained_at_admissible_times_in_order(
    is_strict: bool, data: st.DataObject
) -> None:
    bucket, requests, at_ms = TokenBucket(samples=11), [], 0
    for _ in range(data.draw(st.integers(1, 12))):
        at_ms += data.draw(st.integers(40, 3000))
        amount = float(data.draw(st.integers(1, 6)))
        admitted = not is_strict or bucket.measure(2.0, T0 + at_ms) >= 0
        if admitted:
            bucket.record(amount, 2.0, T0 + at_ms)
        off_ms = data.draw(st.integers(-10, 10))
        one = request(at_ms + off_ms, (amount, admitted), early_ms=10, late_ms=10)
        requests.append(replace(one, bound=2.0, is_strict=is_strict))
    times = choose_record_times(requests, Bucket(BURST_S))
    assert times == sorted(times)
    assert all(r.earliest_ms <= t <= r.latest_ms for r, t in zip(requests, times, strict=True))
    again = TokenBucket(samples=11)
    for one, at in zip(requests, times, strict=True):
        ((amount, admitted),) = one.mutations
        tokens = again.measure(2.0, at)
        if is_strict:
            # Where stretches join at a full bucket, two choices of one millisecond meet.
            assert admitted == (tokens >= 0) or abs(tokens) <= 2.0 * 0.021
        if admitted:
            again.record(amount, 2.0, at)


def test_a_far_move_that_only_shifts_the_blame_to_another_is_not_made() -> None:
    doubtful = request(970, (3.0, True), early_ms=3, late_ms=40)
    blamed = request(2500, (1.0, True), early_ms=3, late_ms=3)
    assert chosen(SPENT, doubtful) == [0, 1000]
    # Had the first of them spent, there would be a debt of 1.5.
    assert chosen(SPENT, doubtful, blamed) == [0, 970, 2500]


@pytest.mark.parametrize(("at_ms", "is_open"), [(1_000, True), (1_004, True), (1_200, False)])
def test_a_topic_refused_as_a_debt_ends_may_come_before_one_admitted(
    at_ms: int, is_open: bool
) -> None:
    # The refusal says no throttle: the debt of 1, paid after a second, was as good as paid.
    both = request(at_ms, (1.0, True), (1.0, False), logged_ms=0)
    _, recorded = (one for found in stretches([SPENT, both], Bucket(BURST_S)) for one in found)
    assert recorded.is_order_open == is_open


@pytest.mark.parametrize("unsure", [0.0, 0.01])
@pytest.mark.parametrize(("late_ms", "order"), [(0, [1, 0]), (30, [1, 0]), (900, [0, 1])])
def test_an_order_that_a_late_line_explains_is_better_than_one_that_nothing_does(
    unsure: float, late_ms: int, order: list[int]
) -> None:
    # A debt of 5 is refused before 3 more are spent; its response is made 50 ms later.
    spends = request(10, (3.0, True), early_ms=5, late_ms=5, logged_ms=7_940, is_strict=False)
    refused = request(12, (1.0, False), early_ms=5, late_ms=5, logged_ms=4_940 + late_ms)
    debt = Bucket(BURST_S, most=-5.0, least=-5.0 - unsure, last_update_ms=T0)
    (recorded,) = stretches([spends, refused], debt)
    assert [one.request for one in recorded] == order


def of_connection(number: int, *requests: MutationRequest) -> list[MutationRequest]:
    return [replace(one, connection=number, line=line) for line, one in enumerate(requests)]


@pytest.mark.parametrize(("is_one", "order"), [(True, [0, 1]), (False, [1, 0])])
def test_requests_of_a_connection_keep_the_order_of_its_lines(
    is_one: bool, order: list[int]
) -> None:
    # A debt ends at 1,000 ms. Admitted first, 2 partitions explain why the other was refused.
    refused = request(1_004, (1.0, False), early_ms=8, late_ms=8, logged_ms=1_946)
    admitted = request(1_006, (2.0, True), early_ms=8, late_ms=8, logged_ms=0)
    debt = Bucket(BURST_S, most=-1.0, least=-1.0, last_update_ms=T0)
    both = of_connection(0, refused, admitted) if is_one else [refused, admitted]
    (recorded,) = stretches(both, debt)
    assert [one.request for one in recorded] == order


def test_a_late_line_does_not_come_before_others_of_its_connection() -> None:
    owed = [request(at_ms, (1.0, False), logged_ms=2_950 - at_ms) for at_ms in (1_015, 1_100)]
    late = request(1_130, (2.0, True), logged_ms=1_940, is_strict=False)
    times_ms = chosen(SPENT, *owed, late)
    assert times_ms[3] < times_ms[1]
    times_ms = chosen(SPENT, *of_connection(0, *owed, late))
    assert times_ms == sorted(times_ms)


def test_all_topics_of_a_request_whose_line_is_late_were_recorded_sooner() -> None:
    # Refused as a debt of 1,000 ms ends, they are answered 50 ms after; the line is 200 ms late.
    topics = parts(1_200, 1, (1.0, False), (2.0, False))
    topics = [replace(one, is_strict=True, logged_ms=0) for one in topics]
    _, first, second = chosen(SPENT, *topics)
    assert 950 <= first <= second < 1_000


@pytest.mark.parametrize(("late_ms", "is_before"), [(30, True), (LATE_LINE_MS + 10, False)])
def test_another_line_a_little_late_is_likelier_than_a_wrong_decision(
    late_ms: int, is_before: bool
) -> None:
    # The debt ended at 1,000 ms: one is refused at 1,090 ms only if 2 were admitted before it.
    refused = request(1_090, (1.0, False))
    _, refused_ms, admitted_ms = chosen(SPENT, refused, request(1_090 + late_ms, (2.0, True)))
    assert refused_ms == 1_090
    assert (admitted_ms <= refused_ms) == is_before


def test_one_late_line_is_likelier_than_a_wrong_decision_where_no_more_tells_them_apart() -> None:
    # Full 6 ms sooner, one is admitted at 995 ms, and the line of the one refused before is late.
    full = replace(SPENT, earliest_ms=T0 - 10, mutations=((12.0003, True),))
    refused = request(999, (1.0, False), early_ms=4, logged_ms=0)
    assert chosen(full, request(995, (1.0, True), early_ms=2), refused) == [-6, 995, 994]


def test_two_late_lines_are_likelier_than_a_wrong_decision() -> None:
    # The bucket was full 3 ms sooner: then one is admitted, and two responses are 4 ms early.
    spent = replace(SPENT, earliest_ms=T0 - 6)
    late = [request(at_ms, (1.0, False), logged_ms=953 - at_ms) for at_ms in (300, 500)]
    admitted = request(998, (2.0, True), early_ms=1)
    assert chosen(spent, *late, admitted) == [-2, 300, 500, 998]


def test_the_time_of_a_full_bucket_is_another_one_where_a_line_is_late() -> None:
    spent = replace(SPENT, earliest_ms=T0 - 6, latest_ms=T0)
    charged = request(1_002, (2.0, True), logged_ms=2_944, is_strict=False)
    late = request(1_040, (1.0, True), logged_ms=0)
    times_ms = chosen(spent, charged, late)
    assert times_ms[0] < 0
    assert times_ms[2] <= times_ms[1]
