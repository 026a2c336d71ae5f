"""With which quota a controller met the mutations that came just before or after a change of it.

The log says when a change was answered. The controller has it a little sooner or later, unknown how
much: what it admitted, refused and delayed tells which quota it had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from spark_jobs.quota.kernels import OTHER_SENSOR, SAME_BUCKET
from spark_jobs.quota.mutation_bucket import WRONG, Bucket, MutationRequest, first_held_up
from spark_jobs.quota.mutation_runs import Run, Stretch
from spark_jobs.quota.mutation_times import best_runs

IN_FLIGHT_MAX = 5
"""So many requests after a change are tried with the quota of before, and so many before it with
that of after."""
EARLY_GAIN_MIN = 2
"""A change is met before its answer, or a value that was soon changed again, only if so many fewer
requests are wrong then."""
TELLING_MAX = 40
"""So many requests from the first one on that was held up since a change tell how it was met."""


def as_in_force(requests: Sequence[MutationRequest], bucket: Bucket) -> list[MutationRequest]:
    """Return the requests with the bounds that the controller had.

    A change takes a while to reach it (``MutationRequest.may_be_before_change``): as many of the
    first requests as explain most of what follows were met with the bound of before. Or it was in
    force before it was answered (``may_be_after_change``), and met the last ones before. So may a
    value that was in force so briefly between the two that no request seems to have met it.

    >>> bucket = Bucket(burst_s=1.0, most=-1.0, least=-1.0, last_update_ms=0)
    >>> before = MutationRequest(10, 10, 10, 1.0, True, ((1.0, False),), 15, 15, 975)
    >>> after = MutationRequest(20, 20, 20, 2.0, True, ((1.0, False),), 20, 20, 980)
    >>> after = replace(after, may_be_before_change=True)
    >>> [one.bound for one in as_in_force([before, after], bucket)]
    [1.0, 1.0]
    """
    found = list(requests)
    start, before = 0, bucket.copy()
    for first in range(len(found)):
        bound, bound_before = found[first].bound, found[first - 1].bound if first else math.nan
        if math.isnan(bound) or (bound == bound_before and not _joins(found, first)):
            continue
        in_flight = sum(
            request.may_be_before_change and request.bound == bound
            for request in found[first : first + IN_FLIGHT_MAX]
        )
        early = _early(found[max(first - IN_FLIGHT_MAX, 0) : first])
        if in_flight or early:
            from_first = first - early
            start, before, met = _last_stretch(found[:from_first], start, before)
            tried = [_met_before(found, first, n, bound_before) for n in range(in_flight + 1)]
            tried_early = [_with_bound(found, first - n, n, bound) for n in range(1, early + 1)]
            tried_early += _with_passed_bound(tried, first, early, bound_before)
            stop = _told_until(found, from_first)
            costs = _costs_until_explained(
                (Stretch(each[from_first:stop]).run(met, {}).cost,) for each in tried
            )
            if any(costs[-1]):
                # What came before the change may be told by what came after it.
                likely_first = sorted(range(1, len(tried)), key=costs.__getitem__)
                tried = [tried[0], *(tried[n] for n in likely_first)]
                costs = _costs_of(tried, slice(start, stop), before)
            best = costs.index(min(costs))
            until = _next_change(found, first)
            if any(costs[best]) and until < stop:
                # How the next change was met is not known yet: what comes before it tells, too.
                sooner = _costs_of(tried, slice(start, until), before)
                best = best if any(sooner[-1]) else len(sooner) - 1
            found = tried[best]
            if tried_early and any(costs[-1]):
                part = slice(start, stop)
                fewest = _wrong(found[part], before.copy())
                wrong = [_wrong(each[part], before.copy()) for each in tried_early]
                if min(wrong) + EARLY_GAIN_MIN <= fewest:
                    found = tried_early[wrong.index(min(wrong))]
    return found


def _joins(requests: Sequence[MutationRequest], place: int) -> bool:
    """Return True if the request at ``place`` is the first that a change has sent here."""
    request = requests[place]
    if not (request.has_joined and request.may_be_before_change):
        return False
    before = requests[place - 1] if place else None
    return before is None or not (before.has_joined and before.may_be_before_change)


def _with_passed_bound(
    tried: Sequence[list[MutationRequest]], first: int, early: int, bound_before: float
) -> Iterator[list[MutationRequest]]:
    """Yield the requests with some of them met with a value that was changed again at once.

    ``tried`` has them with none, one, two of them and so on, from number ``first`` on, met with the
    ``bound_before``; ``early`` of those before may have met a later one.
    """
    bound = tried[0][first].bound_until
    if math.isnan(bound) or bound in (bound_before, tried[0][first].bound):
        return
    for begin in range(-early, len(tried) - 1):
        for end in range(max(begin + 1, 0), len(tried)):
            yield _with_bound(tried[max(begin, 0)], first + begin, end - begin, bound)


def _early(requests: Sequence[MutationRequest]) -> int:
    """Return the number of last requests, such as 2, that may have met the change after them."""
    early = 0
    for request in reversed(requests):
        if not request.may_be_after_change or request.bound != requests[-1].bound:
            break
        early += 1
    return early


def _told_until(requests: Sequence[MutationRequest], first: int) -> int:
    """Return before which request it is told how a change, met by number ``first``, was met.

    That may be after the next change: until a request is held up, all are alike.
    """
    return min(first_held_up(requests, first) + TELLING_MAX, len(requests))


def _next_change(requests: Sequence[MutationRequest], first: int) -> int:
    """Return the place of the first change after the first request held up from ``first`` on."""
    later = range(first_held_up(requests, first) + 1, len(requests))
    changes = (i for i in later if requests[i].bound != requests[i - 1].bound)
    return next(changes, len(requests))


def _costs_of(
    tried: Iterable[Sequence[MutationRequest]], part: slice, bucket: Bucket
) -> list[tuple[int, ...]]:
    """Return the costs of a part of each, such as (1 wrong, 9), up to the first of zeros alone."""
    return _costs_until_explained(_cost(each[part], bucket.copy()) for each in tried)


def _costs_until_explained(costs: Iterator[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the costs, such as (1 wrong, 9), up to the first that is of zeros alone."""
    found = []
    for cost in costs:
        found.append(cost)
        if not any(cost):
            break
    return found


def _last_stretch(
    requests: Sequence[MutationRequest], start: int, bucket: Bucket
) -> tuple[int, Bucket, Bucket]:
    """Return the place of the last stretch's first request, the bucket there, and that at the end.

    The place, such as 16, is among all requests; those before ``start`` are left aside.
    """
    begun, moving = [(start, bucket)], bucket.copy()
    for place, run in best_runs(requests[start:], moving, is_sure=False):
        begun.append((start + place + len(run.order), moving.copy()))
    return *(begun[-2] if len(begun) > 1 else begun[0]), moving


def _with_bound(
    requests: Sequence[MutationRequest], first: int, count: int, bound: float
) -> list[MutationRequest]:
    """Return the requests with ``count`` of them, from ``first`` on, met with ``bound``."""
    before = [replace(request, bound=bound) for request in requests[first : first + count]]
    return [*requests[:first], *before, *requests[first + count :]]


def _met_before(
    requests: Sequence[MutationRequest], first: int, count: int, bound: float
) -> list[MutationRequest]:
    """Return the requests with ``count`` of them, from ``first`` on, met before the change there.

    With the ``bound`` of before, or on the sensor that the change has sent them from.
    """
    found = _with_bound(requests, first, count, bound)
    for place in range(first, min(first + count, len(requests))):
        request = requests[place]
        if request.has_joined and request.bucket_gap == SAME_BUCKET:
            found[place] = replace(request, bound=request.bound_left, bucket_gap=OTHER_SENSOR)
    return found


def _wrong(requests: Sequence[MutationRequest], bucket: Bucket) -> int:
    """Return the number of wrong requests, such as 3: of a rounding none is."""
    return _cost(requests, bucket)[0]


def _cost(requests: Sequence[MutationRequest], bucket: Bucket) -> tuple[int, int]:
    """Return the number of wrong requests, and the cost: of 20 late lines each may be one."""
    runs = list(_runs(requests, bucket))
    wrong = sum(part >= WRONG for run in runs for part in run.wrong)
    return wrong, sum(run.cost for run in runs)


def _runs(requests: Sequence[MutationRequest], bucket: Bucket) -> Iterator[Run]:
    return (run for _, run in best_runs(requests, bucket, is_sure=False))
