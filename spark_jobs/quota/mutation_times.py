"""When a controller recorded its mutations: times that explain what it admitted, refused, delayed.

Below its burst a bucket's tokens at a moment depend on one record time only, that of the last
mutation that met it full: whatever is recorded in between, the refill adds up to the same. So each
stretch after a full bucket has one time to find, and each request its own. A decision that no
admissible time explains stays at its estimate and moves no other: it counts against a time of the
full bucket only as one decision of many.

Requests whose times overlap may have been recorded in any order. The estimates give one; another is
taken where it explains more, as a controller's threads do not write lines in the order of records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, permutations

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.controller_mutation import SMALLEST_DEBT, mutation_throttle_time_ms
from spark_jobs.quota.kernels import CHARGES_MISSING, OTHER_BUCKET, SAME_BUCKET
from spark_jobs.quota.throttle_time import bound_in_force

UNEXPLAINED_DEBT_MS = 5
"""An admission against more debt than refills in this time is not the bucket's: it spends nothing.

Where the time is not chosen, and as the slack of clock readings where it is.
"""
THROTTLE_APART_MS = 2
ROUNDING_TOKENS = 1e-9
"""Refilled at other moments than the broker refilled it, a bucket differs by less than this."""
NEARLY, WRONG = 1, 2
"""How much is not explained: what hangs on ROUNDING_TOKENS or on a late line, and all else."""
FAR_MS = 10
"""A controller's record is seldom so far from its estimate."""
ANCHOR_TIMES_MAX = 64
"""So many times of a full bucket are tried, on so many requests after it."""
ANCHORED_REQUESTS_MAX = 2000
LATE_GAIN_MIN = 2 * WRONG
"""A time before its line says is one of a full bucket only if it explains two decisions more."""
IN_FLIGHT_MAX = 5
"""So many requests after a change are tried with the quota of before."""
TELLING_MAX = 40
"""So many requests from a change on tell with which it was met."""
PERMUTED_MAX = 4
"""All orders of so many requests are tried; of more, those in which two neighbours are swapped."""


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """What the log tells of one request: its topics share a record time and the response."""

    recorded_at_ms: int  # the estimate
    earliest_ms: int
    latest_ms: int
    bound: float  # partitions per second, NaN: none in force
    is_strict: bool
    mutations: tuple[tuple[float, bool], ...]  # partitions (NaN: not in the log), admitted
    response_earliest_ms: int
    response_latest_ms: int
    logged_ms: int | None  # throttle of the response; None: a request quota may have asked for it
    bucket_gap: int = SAME_BUCKET
    may_be_before_change: bool = False  # the quota was changed so shortly before
    is_atomic: bool = True  # no other request's mutations are recorded between its own


@dataclass(slots=True)
class Bucket:
    """A sensor's tokens between ``least`` and ``most``; as in ``ControllerMutationQuota``."""

    burst_s: float  # samples times window
    most: float = 0.0
    least: float = 0.0
    last_update_ms: int = 0

    def copy(self) -> Bucket:
        """Return an independent copy of the bucket."""
        return Bucket(self.burst_s, self.most, self.least, self.last_update_ms)

    def at(self, tokens: float, bound: float, now_ms: int) -> float:
        """Return ``tokens`` refilled until ``now_ms``."""
        burst = self.burst_s * bound
        return min(burst, tokens + bound * ((now_ms - self.last_update_ms) / 1000.0))

    def is_full(self, bound: float, now_ms: int) -> bool:
        """Return True if the bucket is full at ``now_ms``: nothing before matters any more."""
        return self.at(self.least, bound, now_ms) >= self.burst_s * bound


@dataclass(frozen=True, slots=True)
class Recorded:
    """One of the requests given, as it was recorded."""

    request: int  # its place among those given
    at_ms: int
    # Another order explains as much, and calls another request wrong.
    is_order_open: bool


@dataclass(slots=True)
class _Run:
    """Requests in the order of their records; ``wrong``: what of each is not explained."""

    bucket: Bucket
    order: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    open_orders: set[int] = field(default_factory=set)
    moved_ms: int = 0

    def copy(self) -> _Run:
        """Return the run from where the bucket is now, without what was recorded."""
        return _Run(self.bucket.copy())

    def add(self, other: _Run) -> None:
        """Go on as ``other`` did."""
        self.order += other.order
        self.times_ms += other.times_ms
        self.wrong += other.wrong
        self.open_orders |= other.open_orders
        self.moved_ms += other.moved_ms
        self.bucket = other.bucket

    def blamed(self) -> dict[int, int]:
        """Return the unexplained part (NEARLY, WRONG, their sum) of each request that has one."""
        return {i: wrong for i, wrong in zip(self.order, self.wrong, strict=True) if wrong}


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
    for start, best in _runs(requests, bucket):
        yield [
            Recorded(start + i, at_ms, i in best.open_orders)
            for i, at_ms in zip(best.order, best.times_ms, strict=True)
        ]


def as_in_force(requests: Sequence[MutationRequest], bucket: Bucket) -> list[MutationRequest]:
    """Return the requests with the bounds that the controller had.

    A change takes a while to reach it (``MutationRequest.may_be_before_change``): as many of the
    first requests as explain most of what follows were met with the bound of before.
    """
    found = list(requests)
    for first in range(len(found)):
        bound, bound_before = found[first].bound, found[first - 1].bound if first else math.nan
        if math.isnan(bound) or bound == bound_before:
            continue
        in_flight = sum(
            request.may_be_before_change and request.bound == bound
            for request in found[first : first + IN_FLIGHT_MAX]
        )
        if in_flight:
            found = min(
                (_with_bound(found, first, k, bound_before) for k in range(in_flight + 1)),
                key=lambda tried: _unexplained(tried[: first + TELLING_MAX], bucket.copy()),
            )
    return found


def _with_bound(
    requests: Sequence[MutationRequest], first: int, count: int, bound: float
) -> list[MutationRequest]:
    """Return the requests with ``count`` of them, from ``first`` on, met with ``bound``."""
    before = [replace(request, bound=bound) for request in requests[first : first + count]]
    return [*requests[:first], *before, *requests[first + count :]]


def _unexplained(requests: Sequence[MutationRequest], bucket: Bucket) -> int:
    return sum(sum(run.wrong) for _, run in _runs(requests, bucket))


def _runs(requests: Sequence[MutationRequest], bucket: Bucket) -> Iterator[tuple[int, _Run]]:
    """Yield the place of each stretch among the requests, and how it was recorded best."""
    start = 0
    while start < len(requests):
        stop = _stretch_end(requests, start, bucket)
        stretch = _Stretch(requests[start:stop])
        best = stretch.run(bucket, {})
        first = requests[start]
        is_anchored = bucket.is_full(bound_in_force(first.bound), first.recorded_at_ms)
        if any(best.wrong) and is_anchored and first.bucket_gap == SAME_BUCKET:
            best = _best_anchored(best, stretch, bucket, late_ms=0)
            if sum(best.wrong) >= LATE_GAIN_MIN:
                late = _best_anchored(best, stretch, bucket, late_ms=LINE_LAG_MAX_MS)
                if sum(late.wrong) + LATE_GAIN_MIN <= sum(best.wrong):
                    best = late
            if sum(best.wrong) >= LATE_GAIN_MIN:
                best = _best_anchored_later(best, stretch, bucket)
        best = _or_else_far_one_is_wrong(best, stretch, bucket)
        bucket.most, bucket.least = best.bucket.most, best.bucket.least
        bucket.last_update_ms = best.bucket.last_update_ms
        yield start, best
        start = stop


def _or_else_far_one_is_wrong(run: _Run, stretch: _Stretch, bucket: Bucket) -> _Run:
    """Return ``run``, or one as good where the request moved farthest is left unexplained.

    To admit it late, and another against its debt, explains no more than that it was the wrong one:
    then nobody else is accused of it.
    """
    if not any(run.wrong):
        return run
    placed = zip(run.order[1:], run.times_ms[1:], strict=True)
    moved = {i: abs(t - stretch.requests[i].recorded_at_ms) for i, t in placed}
    far = max(moved, key=moved.__getitem__, default=0)
    if moved.get(far, 0) <= FAR_MS:
        return run
    other = stretch.run(bucket, {0: run.times_ms[0]}, left=far)
    return min(run, other, key=lambda one: (sum(one.wrong), one.moved_ms))


def _rank(run: _Run, first: MutationRequest) -> tuple[int, int, int]:
    return sum(run.wrong), run.moved_ms, abs(run.times_ms[0] - first.recorded_at_ms)


def _best_anchored(run: _Run, stretch: _Stretch, bucket: Bucket, late_ms: int) -> _Run:
    """Return ``run``, or the one that explains most, of those from other times of a full bucket."""
    best = _best_at(stretch, bucket, 0, _anchor_times(stretch.requests[0], bucket, late_ms), {})
    return min(run, best or run, key=lambda one: _rank(one, stretch.requests[0]))


def _best_anchored_later(run: _Run, stretch: _Stretch, bucket: Bucket) -> _Run:
    """Return ``run``, or one in which a request after the first met a full bucket, too.

    It did if the first one was recorded early enough. Then its own time is the one to find.
    """
    first = stretch.requests[0]
    first_ms = max(first.earliest_ms, bucket.last_update_ms)
    for later in stretch.maybe_full(bucket, first_ms):
        times_ms = _anchor_times(stretch.requests[later], bucket, late_ms=0)
        best = _best_at(stretch, bucket, later, times_ms, {0: first_ms})
        if best and sum(best.wrong) + LATE_GAIN_MIN <= sum(run.wrong):
            run = best
    return run


def _best_at(
    stretch: _Stretch, bucket: Bucket, place: int, times_ms: range, fixed_ms: Mapping[int, int]
) -> _Run | None:
    """Return the run that explains most with one request at one of these times, None of none.

    The times beside the best one are tried, too, those between two of ``times_ms`` among them.
    """
    first = stretch.requests[0]
    runs = {at_ms: stretch.run(bucket, {**fixed_ms, place: at_ms}) for at_ms in times_ms}
    if not runs:
        return None
    best_ms = min(runs, key=lambda at_ms: _rank(runs[at_ms], first))
    from_ms = max(best_ms - times_ms.step + 1, times_ms.start)
    for at_ms in range(from_ms, min(best_ms + times_ms.step, times_ms.stop)):
        if at_ms not in runs:
            runs[at_ms] = stretch.run(bucket, {**fixed_ms, place: at_ms})
    return min(runs.values(), key=lambda one: _rank(one, first))


def _anchor_times(one: MutationRequest, bucket: Bucket, late_ms: int) -> range:
    """Return times of the request, were its line late by up to ``late_ms`` (0: it is not)."""
    from_ms = max(one.earliest_ms - late_ms, bucket.last_update_ms)
    until_ms = one.earliest_ms - 1 if late_ms else one.latest_ms
    step = max(1, math.ceil((until_ms - from_ms) / ANCHOR_TIMES_MAX))
    return range(from_ms, until_ms + 1, step)


def _stretch_end(requests: Sequence[MutationRequest], start: int, bucket: Bucket) -> int:
    """Return the next request after ``start`` that meets a full bucket, at the estimates."""
    moving = bucket.copy()
    for i in range(start, min(start + ANCHORED_REQUESTS_MAX, len(requests))):
        request = requests[i]
        if i > start and moving.is_full(bound_in_force(request.bound), request.recorded_at_ms):
            return i
        _record(request, moving, max(request.recorded_at_ms, moving.last_update_ms))
    return min(start + ANCHORED_REQUESTS_MAX, len(requests))


class _Stretch:
    """Requests from a full bucket on, and which of them may have been recorded in any order."""

    def __init__(self, requests: Sequence[MutationRequest]) -> None:
        """Take the requests of a sensor in the order of their estimates."""
        self.requests = requests
        self._groups: list[list[int]] = []
        earliest = [request.earliest_ms for request in requests]
        latest_ms, still_to_come_ms = -1, list(accumulate(reversed(earliest), min))[::-1]
        for i, request in enumerate(requests):
            if still_to_come_ms[i] > latest_ms:
                self._groups.append([])
            self._groups[-1].append(i)
            latest_ms = max(latest_ms, request.latest_ms)

    def maybe_full(self, bucket: Bucket, first_ms: int) -> list[int]:
        """Return the requests after the first, recorded at ``first_ms``, that may meet it full."""
        run, found = bucket.copy(), []
        for i, request in enumerate(self.requests):
            at_ms = request.recorded_at_ms if i else first_ms
            if i and run.is_full(bound_in_force(request.bound), request.latest_ms):
                found.append(i)
            _record(request, run, max(at_ms, run.last_update_ms))
        return found

    def run(self, bucket: Bucket, fixed_ms: Mapping[int, int], left: int | None = None) -> _Run:
        """Return the requests recorded one after the other, that of number ``left`` as estimated.

        Those of ``fixed_ms``, by their number, are recorded then.
        """
        run = _Run(bucket.copy())
        for group in self._groups:
            found = self._recorded(group, run.copy(), fixed_ms, left)
            if any(found.wrong) and len(group) > 1:
                found = self._best_order(found, run, fixed_ms, left)
                if any(found.wrong) and not all(self.requests[i].is_atomic for i in group):
                    # Topics of one may have been recorded between those of another.
                    found.open_orders.update(group)
            run.add(found)
        return run

    def _best_order(
        self, as_estimated: _Run, before: _Run, fixed_ms: Mapping[int, int], left: int | None
    ) -> _Run:
        """Return the run that explains most, then moves least, of all orders of its requests."""
        runs = [as_estimated]
        for order in _other_orders(as_estimated.order):
            if self._is_admissible(order, is_first_fixed=0 in fixed_ms):
                runs.append(self._recorded(order, before.copy(), fixed_ms, left))
        best = min(runs, key=lambda run: (sum(run.wrong), run.moved_ms))
        as_good = (run for run in runs if sum(run.wrong) == sum(best.wrong))
        if any(run.blamed() != best.blamed() for run in as_good):
            best.open_orders.update(best.order)
        return best

    def _is_admissible(self, order: Sequence[int], *, is_first_fixed: bool) -> bool:
        """Return True if the intervals of the requests allow for this order."""
        if is_first_fixed and 0 in order and order[0] != 0:
            return False
        at_ms = -1
        for i in order:
            at_ms = max(at_ms, self.requests[i].earliest_ms)
            if at_ms > self.requests[i].latest_ms:
                return False
        return True

    def _recorded(
        self, order: Sequence[int], run: _Run, fixed_ms: Mapping[int, int], left: int | None
    ) -> _Run:
        """Return ``run`` after the requests of these numbers."""
        bucket = run.bucket
        for i in order:
            request = self.requests[i]
            if i in fixed_ms:
                at_ms = max(fixed_ms[i], bucket.last_update_ms)
            elif i == left:
                at_ms = max(request.recorded_at_ms, bucket.last_update_ms)
            else:
                at_ms = _explaining_time(request, bucket)
                run.moved_ms += abs(at_ms - request.recorded_at_ms)
            may_refill = _may_refill_meanwhile(request, bucket, at_ms)
            wrong = _record(request, bucket, at_ms)
            if wrong and may_refill:
                run.open_orders.add(i)
                wrong = NEARLY
            run.wrong.append(wrong)
            run.order.append(i)
            run.times_ms.append(at_ms)
        return run


def _other_orders(order: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the orders that are tried in place of ``order``."""
    if len(order) <= PERMUTED_MAX:
        yield from list(permutations(order))[1:]
        return
    for i in range(len(order) - 1):
        yield [*order[:i], order[i + 1], order[i], *order[i + 2 :]]


def _explaining_time(request: MutationRequest, bucket: Bucket) -> int:
    """Return the time nearest to the estimate that explains who was admitted, or the estimate."""
    from_ms = max(request.earliest_ms, bucket.last_update_ms)
    until_ms = max(request.latest_ms, from_ms)
    estimate_ms = min(max(request.recorded_at_ms, from_ms), until_ms)
    if not request.is_strict or request.bucket_gap != SAME_BUCKET:
        return estimate_ms
    bound = bound_in_force(request.bound)
    enough, too_many = _admitting_tokens(request)
    tokens = bucket.at(bucket.most, bound, estimate_ms)
    is_known = bucket.at(bucket.least, bound, estimate_ms) == tokens
    if not is_known or enough <= tokens < too_many:
        return estimate_ms
    edge, step = (enough, 1) if tokens < enough else (too_many, -1)
    edge_ms = estimate_ms + round((edge - tokens) / bound * 1000.0)
    for rounding in (0.0, ROUNDING_TOKENS):
        for at_ms in (edge_ms - step, edge_ms, edge_ms + step):
            tokens = bucket.at(bucket.most, bound, at_ms)
            is_in_time = from_ms <= at_ms <= until_ms
            if is_in_time and enough - rounding <= tokens < too_many + rounding:
                return at_ms
    return estimate_ms


def _may_refill_meanwhile(request: MutationRequest, bucket: Bucket, at_ms: int) -> bool:
    """Return True if a topic may have been refused first, and another one admitted after it.

    A controller reads its clock for each topic. Where the debt ends while it takes them, those
    refused owe next to nothing, and those admitted come after them.
    """
    outcomes = {is_admitted for _, is_admitted in request.mutations}
    bound = bound_in_force(request.bound)
    refilled_ms = request.latest_ms - request.earliest_ms + UNEXPLAINED_DEBT_MS
    nearly = bound * refilled_ms / 1000.0
    is_near = abs(bucket.at(bucket.most, bound, at_ms)) <= nearly
    is_near &= request.logged_ms is None or request.logged_ms <= refilled_ms
    return request.is_strict and len(outcomes) > 1 and is_near


def _admitting_tokens(request: MutationRequest) -> tuple[float, float]:
    """Return [from, below) of the tokens that the request can have met, by who was admitted."""
    spent, enough, too_many = 0.0, -math.inf, math.inf
    for amount, is_admitted in request.mutations:
        if is_admitted:
            enough = max(enough, spent)
            spent += 0.0 if math.isnan(amount) else amount
        else:
            too_many = min(too_many, spent)
    return enough, too_many


def _record(request: MutationRequest, bucket: Bucket, at_ms: int) -> int:
    """Move ``bucket`` as the log tells; return how much of it the rule does not explain."""
    bound = bound_in_force(request.bound)
    least = bucket.at(bucket.least, bound, at_ms)
    bucket.most = bucket.at(bucket.most, bound, at_ms)
    bucket.least = -math.inf if request.bucket_gap >= CHARGES_MISSING else least
    bucket.last_update_ms = at_ms
    wrong, ends_ms, is_bounded = 0, None, True
    for amount, is_admitted in request.mutations:
        if request.bucket_gap == OTHER_BUCKET:
            bucket.most, bucket.least = bucket.burst_s * bound, -math.inf
        is_known = bucket.least >= 0.0 or bucket.most < 0.0
        is_bounded &= math.isfinite(bucket.least)
        is_spent = True  # a permissive one always is
        if request.is_strict:
            if is_known and is_admitted != (bucket.most >= 0.0):
                wrong += NEARLY if abs(bucket.most) <= ROUNDING_TOKENS else WRONG
            is_spent = _is_taken(request, bucket, is_admitted, is_known)
            if not is_admitted and bucket.most < 0.0:
                ends_ms = _ends_ms(bucket, bound)
        if is_spent:
            _spend(bucket, amount, bound)
            is_bounded &= not math.isnan(amount)
        if not request.is_strict and bucket.most < 0.0:
            ends_ms = _ends_ms(bucket, bound)
    return wrong + (_unexplained_throttle(request, ends_ms) if is_bounded else 0)


def _ends_ms(bucket: Bucket, bound: float) -> tuple[int, int]:
    """Return when a debt ends at the earliest and at the latest."""
    at_ms = bucket.last_update_ms
    earliest_ms = at_ms + mutation_throttle_time_ms(bucket.most, bound)
    return earliest_ms, at_ms + mutation_throttle_time_ms(bucket.least, bound)


def _is_taken(request: MutationRequest, bucket: Bucket, is_admitted: bool, is_known: bool) -> bool:
    """Return True if a strict mutation is spent; an unknown bucket learns by it."""
    bound = 0.0 if math.isnan(request.bound) else request.bound
    slack = bound * (request.latest_ms - request.earliest_ms + UNEXPLAINED_DEBT_MS) / 1000.0
    if is_known and is_admitted and bucket.most < -bound * UNEXPLAINED_DEBT_MS / 1000.0:
        if bucket.most != bucket.least:
            bucket.least = -math.inf
        return False
    if not is_known and is_admitted:
        bucket.least = max(bucket.least, 0.0 - slack)
    elif not is_known:
        bucket.most = min(bucket.most, SMALLEST_DEBT + slack)
    return is_admitted


def _spend(bucket: Bucket, amount: float, bound: float) -> None:
    if math.isnan(amount):
        bucket.least = -math.inf
        return
    burst = bucket.burst_s * bound
    bucket.most = min(burst, bucket.most - amount)
    bucket.least = min(burst, bucket.least - amount)


def _unexplained_throttle(request: MutationRequest, ends_ms: tuple[int, int] | None) -> int:
    """Return the cost of the response's throttle: 0, NEARLY where its line may be late, or WRONG.

    ``ends_ms`` is when the debt ends at the earliest and at the latest (None: there was none). A
    debt that ends 500 ms after the response costs 0 with a throttle of 500 ms, WRONG with one of 0.
    """
    if request.logged_ms is None:
        return 0
    if ends_ms is None:
        return 0 if request.logged_ms == 0 else WRONG
    least_ms = max(ends_ms[0] - request.response_latest_ms, 0) - THROTTLE_APART_MS
    most_ms = max(ends_ms[1] - request.response_earliest_ms, 0) + THROTTLE_APART_MS
    if least_ms <= request.logged_ms <= most_ms:
        return 0
    is_late = least_ms - LATE_LINE_MS <= request.logged_ms <= most_ms + LINE_LAG_MAX_MS
    return NEARLY if is_late else WRONG
