"""When a controller recorded its mutations: times that explain what it admitted, refused, delayed.

Below its burst a bucket's tokens at a moment depend on one record time only, that of the last
mutation that met it full: whatever is recorded in between, the refill adds up to the same. So each
stretch after a full bucket has one time to find, and each request its own. A decision that no
admissible time explains stays at its estimate and moves no other: it counts against a time of the
full bucket only as one decision of many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.kernels import SAME_BUCKET
from spark_jobs.quota.mutation_bucket import (
    NEARLY,
    WRONG,
    Bucket,
    MutationRequest,
    comes_before,
    first_held_up,
    record,
)
from spark_jobs.quota.mutation_runs import REORDERED_MAX, Run, Stretch
from spark_jobs.quota.throttle_time import bound_in_force

FAR_MS = 10
"""A controller's record is seldom so far from its estimate."""
ANCHOR_TIMES_MAX = 64
"""So many times of a full bucket are tried, on about so many requests after it."""
ANCHORED_REQUESTS_MAX = 2000
LATE_GAIN_MIN = 2 * WRONG
"""A time that its line is too late for is one of a full bucket only if it explains so much more."""
_LATE_FULL_BUCKETS = ((LATE_LINE_MS, WRONG + NEARLY), (LINE_LAG_MAX_MS, LATE_GAIN_MIN))
"""So late (ms) the line of a full bucket is taken to be where that explains so much more."""
FULL_AGAIN_MAX = 8
"""So many requests before one that is not explained are tried as those that met a full bucket."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One of the requests given, as it was recorded."""

    request: int  # its place among those given
    at_ms: int
    # Another order explains as much, and calls another request wrong.
    is_order_open: bool


def choose_record_times(requests: Sequence[MutationRequest], bucket: Bucket) -> list[int]:
    """Return a record time per request of one sensor, inside its interval; ``bucket`` moves on.

    The requests are in the order of their estimates.

    >>> bucket = Bucket(burst_s=1.0, most=-0.01, least=-0.01, last_update_ms=0)
    >>> late = MutationRequest(5, 0, 30, 1.0, True, ((1.0, True),), 40, 45, 0)
    >>> choose_record_times([late], bucket)
    [10]
    """
    recorded = [one for stretch in stretches(requests, bucket) for one in stretch]
    return [one.at_ms for one in sorted(recorded, key=lambda one: one.request)]


def stretches(requests: Sequence[MutationRequest], bucket: Bucket) -> Iterator[list[Recorded]]:
    """Yield the requests, which are in the order of their estimates, as they were recorded.

    They come stretch by stretch: where one begins, and ``bucket`` then, no later request has a say
    in those before.
    """
    for start, best in best_runs(requests, bucket):
        yield [
            Recorded(start + i, at_ms, i in best.open_orders)
            for i, at_ms in zip(best.order, best.times_ms, strict=True)
        ]


def best_runs(
    requests: Sequence[MutationRequest], bucket: Bucket, *, is_sure: bool = True
) -> Iterator[tuple[int, Run]]:
    """Yield the place of each stretch among the requests, and how it was recorded best.

    A stretch begins where the bucket is full for sure, or with ``is_sure`` False at the estimates:
    such stretches are shorter, and quicker to look at.
    """
    start = 0
    while start < len(requests):
        stop = _stretch_end(requests, start, bucket, is_sure=is_sure)
        stretch = Stretch(requests[start:stop])
        best = stretch.run(bucket, {})
        first = requests[start]
        is_anchored = bucket.is_full(bound_in_force(first.bound), first.recorded_at_ms)
        if best.cost and is_anchored and first.bucket_gap == SAME_BUCKET:
            best = _best_anchored(best, stretch, bucket, late_ms=0)
            best = _best_before_changes(best, stretch, bucket)
            if best.cost:
                best = _best_in_turn(best, stretch, bucket, 0, {})
            in_time = best
            for late_ms, gain_min in _LATE_FULL_BUCKETS:
                if in_time.cost >= gain_min:
                    late = _best_anchored(in_time, stretch, bucket, late_ms)
                    if late.cost + gain_min <= in_time.cost and late.cost < best.cost:
                        best = late
            if best.cost:
                best = _best_anchored_later(best, stretch, bucket)
        if best.cost:
            best = _best_of_topics(best, stretch, bucket)
        best = _or_else_far_one_is_wrong(best, stretch, bucket)
        if best.cost >= WRONG:
            best = _best_of_late_lines(best, stretch, bucket)
        bucket.most, bucket.least = best.bucket.most, best.bucket.least
        bucket.last_update_ms = best.bucket.last_update_ms
        bucket.is_either = best.bucket.is_either
        yield start, best
        start = stop


def _or_else_far_one_is_wrong(run: Run, stretch: Stretch, bucket: Bucket) -> Run:
    """Return ``run``, or one as good where the request moved farthest is left unexplained.

    To admit it late, and another against its debt, explains no more than that it was the wrong one:
    then nobody else is accused of it.
    """
    if not run.cost:
        return run
    placed = [
        (stretch.requests[i], i, t) for i, t in zip(run.order[1:], run.times_ms[1:], strict=True)
    ]
    moved = {i: abs(t - one.recorded_at_ms) for one, i, t in placed if t >= one.earliest_ms}
    far = max(moved, key=moved.__getitem__, default=0)
    if moved.get(far, 0) <= FAR_MS:
        return run
    other = stretch.run(bucket, {0: run.times_ms[0]}, left=far)
    return min(run, other, key=lambda one: (one.cost, one.moved_ms))


def _best_of_topics(run: Run, stretch: Stretch, bucket: Bucket) -> Run:
    """Return ``run``, or one that explains more with all topics of a request recorded earlier.

    Such as three of which the last was refused: the first two spent what there was a little before.
    """
    for wrong in sorted(run.blamed())[:FULL_AGAIN_MAX]:
        one = stretch.requests[wrong]
        if one.parts == 1:
            continue
        own = _topics(stretch.requests, wrong)
        at_ms = dict(zip(run.order, run.times_ms, strict=True))
        first_ms = min(at_ms[i] for i in own)
        for time in range(first_ms - 1, max(one.earliest_ms, first_ms - ANCHOR_TIMES_MAX) - 1, -1):
            fixed_ms = {0: at_ms[0], **dict.fromkeys(own, time)}
            other = stretch.run(bucket, fixed_ms, cost_max=run.cost - 1)
            if other.cost < run.cost:
                run = other
    return run


def _best_of_late_lines(run: Run, stretch: Stretch, bucket: Bucket) -> Run:
    """Return ``run``, or one that explains more with requests recorded before their late lines.

    Such as one whose line is 280 ms late: others that were refused after it came before it.
    """
    place = list(range(len(stretch.requests)))
    while (found := _with_a_late_line(run, stretch, bucket)) is not None:
        run, stretch, moved = found
        place = [place[i] for i in moved]
    run.order = [place[i] for i in run.order]
    run.open_orders = {place[i] for i in run.open_orders}
    return run


def _with_a_late_line(
    run: Run, stretch: Stretch, bucket: Bucket
) -> tuple[Run, Stretch, list[int]] | None:
    """Return the run that explains most with one request before one that is not explained.

    With it its stretch, and the number that each of that one's requests has in ``stretch``. None
    where none explains as much more as it has to.
    """
    best, best_cost = None, run.cost
    first_ms = run.times_ms[run.order.index(0)]
    anchored: set[tuple[int, ...]] = set()
    for wrong in [i for i in sorted(run.blamed()) if i][:FULL_AGAIN_MAX]:
        tried = islice(_with_late_lines(stretch.requests, wrong), REORDERED_MAX)
        for other, moved, gain_min in tried:
            cost_max = min(run.cost - gain_min, best_cost - 1)
            found = other.run(bucket, {0: first_ms}, cost_max=cost_max + NEARLY)
            if found.cost == cost_max + NEARLY and (order := tuple(moved)) not in anchored:
                # The time of the full bucket that was best without it may not be the best with it.
                anchored.add(order)
                found = _best_anchored(found, other, bucket, late_ms=0)
            if found.cost <= cost_max:
                best, best_cost = (found, other, moved), found.cost
    return best


def _with_late_lines(
    requests: Sequence[MutationRequest], wrong: int
) -> Iterator[tuple[Stretch, list[int], int]]:
    """Yield stretches with a request before the one of number ``wrong``, as its line may be late.

    A later one, or at last that one itself. With each the number that its requests have
    among ``requests``, and how much more it has to explain: two decisions, or one where the line
    of another request is no later than LATE_LINE_MS.
    """
    at_ms, places = requests[wrong].recorded_at_ms, range(len(requests))
    near = [i for i in places[wrong + 1 :] if requests[i].recorded_at_ms <= at_ms + LINE_LAG_MAX_MS]
    for number in dict.fromkeys(requests[i].request for i in (*near, wrong)):
        late = [i for i in places if requests[i].request == number]
        first = requests[late[0]]
        before = [each for each in requests[: late[0]] if comes_before(each, first)]
        free_ms = (
            first.recorded_at_ms - before[-1].recorded_at_ms if before else LINE_LAG_MAX_MS + 1
        )
        is_own = number == requests[wrong].request
        least_ms = FAR_MS if is_own else first.recorded_at_ms - at_ms
        for late_ms in range(least_ms, min(free_ms, LINE_LAG_MAX_MS + 1), FAR_MS):
            as_told = {i: _earlier(requests[i], late_ms) for i in late}
            all_told = [as_told.get(i, requests[i]) for i in places]
            # Of two as soon, the one whose line is late came first.
            moved = sorted(places, key=lambda i: (all_told[i].recorded_at_ms, i not in as_told, i))
            is_likely = late_ms <= LATE_LINE_MS and not is_own
            yield (
                Stretch([all_told[i] for i in moved]),
                moved,
                WRONG if is_likely else LATE_GAIN_MIN,
            )


def _earlier(one: MutationRequest, late_ms: int) -> MutationRequest:
    """Return the request as its line would tell of it, were that not so late."""
    return replace(
        one,
        recorded_at_ms=one.recorded_at_ms - late_ms,
        earliest_ms=one.earliest_ms - late_ms,
        latest_ms=one.latest_ms - late_ms,
        response_earliest_ms=one.response_earliest_ms - late_ms,
        response_latest_ms=one.response_latest_ms - late_ms,
    )


def _rank(run: Run, first: MutationRequest) -> tuple[int, int, int, int]:
    """Return the rank of a run, such as (3, 0, 12, 5): the best one has the least.

    What is not explained, that without late lines, and by how much (ms) the requests, and the first
    one, are off their estimates: a late line is likelier than a wrong decision.
    """
    first_off_ms = abs(run.times_ms[0] - first.recorded_at_ms)
    return run.cost, run.cost - run.late, run.moved_ms, first_off_ms


def _best_anchored(run: Run, stretch: Stretch, bucket: Bucket, late_ms: int) -> Run:
    """Return ``run``, or the one that explains most, of those from other times of a full bucket."""
    times_ms = _anchor_times(stretch.requests[0], bucket, late_ms)
    best = _best_at(run.cost, stretch, bucket, 0, times_ms, {})
    return min(run, best or run, key=lambda one: _rank(one, stretch.requests[0]))


def _best_anchored_later(run: Run, stretch: Stretch, bucket: Bucket) -> Run:
    """Return ``run``, or one in which a request after the first met a full bucket, too.

    It did if those before it were recorded early enough. Then its own time is the one to find, and
    those before changes in turn. The last ones before what is not explained come first.
    """
    first = stretch.requests[0]
    first_ms = max(first.earliest_ms, bucket.last_update_ms)
    until = min(run.blamed(), default=0)
    full = [each for each in stretch.maybe_full(bucket, first_ms) if each[0] <= until]
    early_ms = {0: first_ms} | {i: stretch.requests[i].earliest_ms for i, _ in full}
    for later, is_likely in reversed(full[-FULL_AGAIN_MAX:]):
        if not run.cost:
            break
        before_ms = {i: at_ms for i, at_ms in early_ms.items() if i < later}
        for late_ms in (0, LINE_LAG_MAX_MS) if is_likely else (0,):
            times_ms = _anchor_times(stretch.requests[later], bucket, late_ms)
            gain_min = LATE_GAIN_MIN if late_ms or not is_likely else 1
            # With its later topics it may have come before the bucket was full again.
            for place in dict.fromkeys((later, _topics(stretch.requests, later)[-1])):
                best = _best_at(run.cost, stretch, bucket, place, times_ms, before_ms)
                if best and best.cost + gain_min <= run.cost:
                    run = best
        in_turn = _best_in_turn(run, stretch, bucket, later, before_ms)
        if in_turn.cost + (1 if is_likely else LATE_GAIN_MIN) <= run.cost:
            run = in_turn
    return run


def _best_before_changes(run: Run, stretch: Stretch, bucket: Bucket) -> Run:
    """Return ``run``, or the one that explains most, of those from other times before a change.

    The bucket is refilled by the new quota from the last record on, whenever the change came.
    """
    first, fixed_ms = stretch.requests[0], {0: run.times_ms[0]}
    for place, (one, following) in enumerate(pairwise(stretch.requests)):
        if run.cost and place and one.bound != following.bound:
            times_ms = _anchor_times(one, bucket, 0)
            best = _best_at(run.cost, stretch, bucket, place, times_ms, fixed_ms)
            run = min(run, best or run, key=lambda one: _rank(one, first))
            at_ms = run.times_ms[run.order.index(place)]
            fixed_ms |= dict.fromkeys(_until(stretch.requests, place), at_ms)
    return run


def _best_in_turn(
    run: Run, stretch: Stretch, bucket: Bucket, first: int, before_ms: Mapping[int, int]
) -> Run:
    """Return ``run``, or one that explains more with each time as what follows tells, in turn.

    The time of the full bucket, which the request of number ``first`` met, is told by the requests
    until the first change, that of the last request before the change by those until the next one;
    by those after it, where nobody was held up until then. ``before_ms`` has the times of requests
    before.
    """
    requests, fixed_ms = stretch.requests, {**before_ms}
    changed = [
        i for i in range(first, len(requests) - 1) if requests[i].bound != requests[i + 1].bound
    ]
    if not changed:
        return run
    places = [*dict.fromkeys([first, *changed]), len(requests) - 1]
    for number, place in enumerate(places[:-1]):
        told_from = first_held_up(requests, place + 1)
        until = next((i for i in places[number + 1 :] if i >= told_from), len(requests) - 1)
        part, times_ms = Stretch(requests[: until + 1]), _anchor_times(requests[place], bucket, 0)
        if best := _best_at(math.inf, part, bucket, place, times_ms, fixed_ms):
            at_ms = best.times_ms[best.order.index(place)]
            fixed_ms |= dict.fromkeys(_until(requests, place), at_ms)
    other = stretch.run(bucket, fixed_ms, cost_max=run.cost)
    return min(run, other, key=lambda one: _rank(one, requests[0]))


def _best_at(
    cost_max: float,
    stretch: Stretch,
    bucket: Bucket,
    place: int,
    times_ms: range,
    fixed_ms: Mapping[int, int],
) -> Run | None:
    """Return the run that explains most with one request at one of these times, None of none.

    Topics that the request names before are recorded then, too.
    The times beside the best one are tried, too, those between two of ``times_ms`` among them.
    What leaves more than ``cost_max`` unexplained is told apart no further.
    """
    best: Run | None = None
    best_ms, first = times_ms.start, stretch.requests[0]
    own = _until(stretch.requests, place)

    def take_better(times_ms: range) -> None:
        nonlocal best, best_ms
        for at_ms in times_ms:
            worst = min(cost_max, best.cost) if best else cost_max
            run = stretch.run(bucket, {**fixed_ms, **dict.fromkeys(own, at_ms)}, cost_max=worst)
            if best is None or _rank(run, first) < _rank(best, first):
                best, best_ms = run, at_ms

    take_better(times_ms)
    if times_ms.step > 1:
        from_ms = max(best_ms - times_ms.step + 1, times_ms.start)
        take_better(range(from_ms, min(best_ms + times_ms.step, times_ms.stop)))
    return best


def _topics(requests: Sequence[MutationRequest], place: int) -> list[int]:
    """Return the places of all topics of the request at ``place``, such as [7, 8, 9]."""
    number = requests[place].request
    return [i for i, one in enumerate(requests) if one.request == number]


def _until(requests: Sequence[MutationRequest], place: int) -> list[int]:
    """Return the places of the request's topics, such as [7, 8], until that at ``place``."""
    return [i for i in _topics(requests, place) if i <= place]


def _anchor_times(one: MutationRequest, bucket: Bucket, late_ms: int) -> range:
    """Return times of the request, were its line late by up to ``late_ms`` (0: it is not)."""
    from_ms = max(one.earliest_ms - late_ms, bucket.last_update_ms)
    until_ms = one.earliest_ms - 1 if late_ms else one.latest_ms
    step = max(1, math.ceil((until_ms - from_ms) / ANCHOR_TIMES_MAX))
    return range(from_ms, until_ms + 1, step)


def _stretch_end(
    requests: Sequence[MutationRequest], start: int, bucket: Bucket, *, is_sure: bool
) -> int:
    """Return the next request after ``start`` that meets a full bucket at the estimates.

    With ``is_sure``, whenever each was recorded: all those before as late as they can have been,
    and that one as early. After ANCHORED_REQUESTS_MAX it is the first that came after all of them:
    what is told of one depends on those that it may have come among.
    """
    moving = bucket.copy()
    latest_ms = requests[start].latest_ms
    for i in range(start, len(requests)):
        request = requests[i]
        full_ms = request.earliest_ms if is_sure else request.recorded_at_ms
        is_full = moving.is_full(bound_in_force(request.bound), full_ms)
        is_long = i - start >= ANCHORED_REQUESTS_MAX and request.earliest_ms > latest_ms
        if request.is_first and i > start and (is_full or is_long):
            return i
        latest_ms = max(latest_ms, request.latest_ms)
        at_ms = request.latest_ms if is_sure else request.recorded_at_ms
        record(request, moving, max(at_ms, moving.last_update_ms), {})
    return len(requests)
