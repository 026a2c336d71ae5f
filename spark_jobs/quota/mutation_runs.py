"""Runs of a controller's mutations: requests recorded one after the other, in the best order.

Requests whose times overlap may have been recorded in any order. The estimates give one; another is
taken where it explains more, as a controller's threads do not write lines in the order of records.
With ZooKeeper each topic of a request has a time of its own, and others may come between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from spark_jobs.quota.mutation_bucket import (
    NEARLY,
    WRONG,
    Bucket,
    MutationRequest,
    Owed,
    comes_before,
    explaining_time,
    may_refill_meanwhile,
    record,
)
from spark_jobs.quota.throttle_time import bound_in_force

REORDERED_MAX = 100
"""So many records are tried at other places of the order, to find one that explains more."""


@dataclass(slots=True)
class Run:
    """Requests in the order of their records; ``wrong``: what of each is not explained.

    ``cost`` is what of all is not, ``late`` how much of it is for late lines.
    """

    bucket: Bucket
    order: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    open_orders: set[int] = field(default_factory=set)
    owed: dict[int, Owed] = field(default_factory=dict)  # by request
    moved_ms: int = 0
    cost: int = 0
    late: int = 0

    def copy(self) -> Run:
        """Return the run from where the bucket is now, without what was recorded."""
        return Run(self.bucket.copy())

    def further(self) -> Run:
        """Return an independent copy, to go on with."""
        return Run(
            self.bucket.copy(), [*self.order], [*self.times_ms], [*self.wrong],
            {*self.open_orders}, {**self.owed}, self.moved_ms, self.cost, self.late,
        )  # fmt: skip

    def add(self, other: Run) -> None:
        """Go on as ``other`` did."""
        self.order += other.order
        self.times_ms += other.times_ms
        self.wrong += other.wrong
        self.open_orders |= other.open_orders
        self.moved_ms += other.moved_ms
        self.cost += other.cost
        self.late += other.late
        self.bucket = other.bucket

    def blamed(self) -> dict[int, int]:
        """Return the unexplained part (NEARLY, WRONG, their sum) of each request that has one.

        >>> Run(Bucket(burst_s=11.0), order=[4, 7], wrong=[0, 2]).blamed()
        {7: 2}
        """
        return {i: wrong for i, wrong in zip(self.order, self.wrong, strict=True) if wrong}


class Stretch:
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

    def maybe_full(self, bucket: Bucket, first_ms: int) -> list[tuple[int, bool]]:
        """Return the requests after the first, recorded at ``first_ms``, that may meet it full.

        Each with True where it meets it so at its estimate.
        """
        run, found = bucket.copy(), []
        for i, request in enumerate(self.requests):
            at_ms = request.recorded_at_ms if i else first_ms
            bound = bound_in_force(request.bound)
            if i and run.is_full(bound, request.latest_ms):
                found.append((i, run.is_full(bound, request.recorded_at_ms)))
            record(request, run, max(at_ms, run.last_update_ms), {})
        return found

    def run(
        self,
        bucket: Bucket,
        fixed_ms: Mapping[int, int],
        left: int | None = None,
        cost_max: float = math.inf,
    ) -> Run:
        """Return the requests recorded one after the other, that of number ``left`` as estimated.

        Those of ``fixed_ms``, by their number, are recorded then. The run ends where it leaves more
        than ``cost_max`` unexplained.
        """
        run = Run(bucket.copy())
        for group in self._groups:
            found = run.copy()
            for i in group:
                self._record(i, found, fixed_ms, left)
            if found.cost and len(group) > 1:
                found = self._best_order(found, run, fixed_ms, left, cost_max - run.cost)
            run.add(found)
            if run.cost > cost_max:
                break
        return run

    def _best_order(
        self,
        as_estimated: Run,
        before: Run,
        fixed_ms: Mapping[int, int],
        left: int | None,
        cost_max: float,
    ) -> Run:
        """Return the run that explains most, then moves least, of the orders that are tried.

        A late line explains more than nothing does. ``as_estimated`` where all of them leave more
        than ``cost_max`` unexplained.
        """
        group = sorted(as_estimated.order)
        cost = 0
        while cost <= cost_max:
            above: set[int] = set()
            runs = list(self._orders(group, before, fixed_ms, left, cost, above))
            runs += [as_estimated] if cost == as_estimated.cost else []
            if runs:
                best = min(runs, key=lambda run: (run.cost - run.late, run.moved_ms))
                if any(run.blamed() != best.blamed() for run in runs):
                    best.open_orders.update(group)
                return best
            # What leaves no more than anything in between finds the same orders: none.
            cost = min(above | {as_estimated.cost})
        return as_estimated

    def _orders(
        self,
        group: Sequence[int],
        before: Run,
        fixed_ms: Mapping[int, int],
        left: int | None,
        cost_max: int,
        above: set[int],
    ) -> Iterator[Run]:
        """Yield what orders of these requests come to that leave no more than so much unexplained.

        What others left, as far as they were tried, is added to ``above``. Where one is not
        explained, those shortly before it are the first to change their places.
        """
        is_fixed = 0 in fixed_ms
        begun = [(before.copy(), group, self._may_be_next(group, is_first_fixed=is_fixed))]
        records = len(group) + REORDERED_MAX
        while begun and records:
            run, rest, may_be_next = begun[-1]
            i = next(may_be_next, None)
            if i is None:
                begun.pop()
                continue
            records -= 1
            run = run.further()
            self._record(i, run, fixed_ms, left)
            if run.cost > cost_max:
                above.add(run.cost)
                continue
            if rest := [other for other in rest if other != i]:
                begun.append((run, rest, self._may_be_next(rest, is_first_fixed=is_fixed)))
            else:
                yield run

    def _may_be_next(self, group: Sequence[int], *, is_first_fixed: bool) -> Iterator[int]:
        """Yield those of ``group`` that may be recorded before all the others."""
        if is_first_fixed and 0 in group:
            yield 0
            return
        before_ms = min(self.requests[i].latest_ms for i in group)
        first_of: dict[int, MutationRequest] = {}
        for one in (self.requests[i] for i in group):
            first = first_of.setdefault(one.connection, one)
            if one.line < first.line:
                first_of[one.connection] = one
        alike = set()
        for i in group:
            one = self.requests[i]
            if one.earliest_ms > before_ms or comes_before(first_of[one.connection], one):
                continue
            # Parts of one request that are alike need no second order.
            if (one.request, one.mutations) not in alike:
                yield i
            if one.parts > 1:
                alike.add((one.request, one.mutations))

    def _record(self, i: int, run: Run, fixed_ms: Mapping[int, int], left: int | None) -> None:
        """Let ``run`` go on with the request of this number."""
        bucket, request = run.bucket, self.requests[i]
        is_late = False
        if i in fixed_ms:
            at_ms = max(fixed_ms[i], bucket.last_update_ms)
        elif i == left:
            at_ms = max(request.recorded_at_ms, bucket.last_update_ms)
        else:
            at_ms = explaining_time(request, bucket)
            is_late = at_ms < request.earliest_ms
            run.moved_ms += 0 if is_late else abs(at_ms - request.recorded_at_ms)
        may_refill = may_refill_meanwhile(request, bucket, at_ms)
        # A late line explains no more of the order, or of a full bucket, than none would.
        wrong = record(request, bucket, at_ms, run.owed) + (WRONG if is_late else 0)
        if wrong and may_refill:
            run.open_orders.add(i)
            wrong = NEARLY
        elif is_late:
            run.late += WRONG
        run.wrong.append(wrong)
        run.cost += wrong
        run.order.append(i)
        run.times_ms.append(at_ms)
