"""What a request does to a bucket of tokens, and how much of it the rule does not explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.controller_mutation import SMALLEST_DEBT, mutation_throttle_time_ms
from spark_jobs.quota.kernels import CHARGES_MISSING, OTHER_BUCKET, OTHER_SENSOR, SAME_BUCKET
from spark_jobs.quota.throttle_time import bound_in_force

UNEXPLAINED_DEBT_MS = 5
"""An admission against more debt than refills in this time is no rule's: it may be spent or not.

Where the time is not chosen, and as the slack of clock readings where it is.
"""
THROTTLE_APART_MS = 2
ROUNDING_TOKENS = 1e-9
"""Refilled at other moments than the broker refilled it, a bucket differs by less than this."""
Ms = TypeVar("Ms", int, npt.NDArray[np.int64])
NEARLY, WRONG = 1, 3
"""How much is not explained: what hangs on ROUNDING_TOKENS or on a late line, and all else.

Two late lines are likelier than a wrong decision.
"""


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """What the log tells of what is recorded at once: a request, or with ZooKeeper a topic of one.

    The topics of a request share its response.
    """

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
    bound_until: float = math.nan  # that until its quota was changed last; NaN: none, or unknown
    # The quota's last change sent the client's mutations here, from a sensor of that quota.
    has_joined: bool = False
    bound_left: float = math.nan
    may_be_before_change: bool = False  # the quota was changed so shortly before
    may_be_after_change: bool = False  # it was changed so shortly after
    request: int = 0  # what its other parts have, too
    parts: int = 1  # of so many the request is
    is_first: bool = True  # of its parts, as listed
    connection: int = -1  # its number, -1: unknown; one request of it is answered before the next
    line: int = 0  # its place among the lines of the connection

    @property
    def is_held_up(self) -> bool:
        """Return True if a topic was refused, or the response asks to wait."""
        return bool(self.logged_ms) or not all(is_admitted for _, is_admitted in self.mutations)


def first_held_up(requests: Sequence[MutationRequest], first: int) -> int:
    """Return the place, such as 7, of the first request held up from ``first`` on, or the end."""
    places = range(first, len(requests))
    return next((i for i in places if requests[i].is_held_up), len(requests))


@dataclass(slots=True)
class Bucket:
    """A sensor's tokens between ``least`` and ``most``; as in ``ControllerMutationQuota``."""

    burst_s: float  # samples times window
    most: float = 0.0
    least: float = 0.0
    last_update_ms: int = 0
    is_either: bool = False  # they are most or least, and nothing in between

    def copy(self) -> Bucket:
        """Return an independent copy of the bucket."""
        return Bucket(self.burst_s, self.most, self.least, self.last_update_ms, self.is_either)

    def at(self, tokens: float, bound: float, now_ms: int) -> float:
        """Return ``tokens`` refilled until ``now_ms``.

        >>> Bucket(burst_s=11.0, last_update_ms=0).at(-1.0, bound=2.0, now_ms=500)
        0.0
        """
        burst = self.burst_s * bound
        return min(burst, tokens + bound * ((now_ms - self.last_update_ms) / 1000.0))

    def is_full(self, bound: float, now_ms: int) -> bool:
        """Return True if the bucket is full at ``now_ms``: nothing before matters any more."""
        return self.at(self.least, bound, now_ms) >= self.burst_s * bound


def comes_before(one: MutationRequest, other: MutationRequest) -> bool:
    """Return True if ``one`` was recorded before ``other`` for sure, as their connection tells.

    A connection is not read on until its request is answered (``SocketServer``, mute and unmute),
    and its lines are written in that order.
    """
    is_of_one = one.connection == other.connection >= 0 and one.request != other.request
    return is_of_one and one.line < other.line


def told_debt_ms(logged_ms: Ms, response_earliest_ms: Ms, response_latest_ms: Ms) -> tuple[Ms, Ms]:
    """Return when the debt ends that a response's throttle says, at the earliest and at the latest.

    Such as (650, 1012) ms of a throttle of 1,000 ms that was said at 2 to 10 ms: its line may have
    been written late.
    """
    from_ms = response_earliest_ms - LINE_LAG_MAX_MS - THROTTLE_APART_MS
    return from_ms + logged_ms, response_latest_ms + THROTTLE_APART_MS + logged_ms


class Owed(NamedTuple):
    """What the parts of a request that were recorded leave for its response to say."""

    parts: int = 0
    ends_ms: tuple[int, int] | None = None  # when its debt ends, at the earliest and at the latest
    is_bounded: bool = True  # the debt is known


def explaining_time(request: MutationRequest, bucket: Bucket) -> int:
    """Return the time nearest to the estimate that explains who was admitted, or the estimate.

    One before ``earliest_ms`` is that of a late line: nothing else explains that it was refused. By
    more than LATE_LINE_MS it is late only where its throttle says so, too: that the debt had ended,
    or had so long to go, such as 54 ms.
    """
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
    late_from_ms, told_from_ms = (
        max(request.earliest_ms - late_ms, bucket.last_update_ms)
        for late_ms in (LATE_LINE_MS, LINE_LAG_MAX_MS)
    )
    tried = [
        (from_ms, 0.0, edge_ms), (from_ms, ROUNDING_TOKENS, edge_ms), (late_from_ms, 0.0, edge_ms)
    ]  # fmt: skip
    if request.logged_ms is not None:
        tried += [(told_from_ms, 0.0, edge_ms - request.logged_ms)]
    for first_ms, rounding, near_ms in tried:
        for at_ms in (near_ms - step, near_ms, near_ms + step):
            tokens = bucket.at(bucket.most, bound, at_ms)
            is_in_time = first_ms <= at_ms <= until_ms
            if is_in_time and enough - rounding <= tokens < too_many + rounding:
                return at_ms
    return estimate_ms


def may_refill_meanwhile(request: MutationRequest, bucket: Bucket, at_ms: int) -> bool:
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


def record(request: MutationRequest, bucket: Bucket, at_ms: int, owed: dict[int, Owed]) -> int:
    """Move ``bucket`` as the log tells; return how much of it the rule does not explain.

    One that another sensor recorded moves it by nothing.
    What the throttle of a request says is looked at with its last part; ``owed`` holds the parts
    before.
    """
    if request.bucket_gap == OTHER_SENSOR:
        return 0
    bound = bound_in_force(request.bound)
    least = bucket.at(bucket.least, bound, at_ms)
    bucket.most = bucket.at(bucket.most, bound, at_ms)
    bucket.least = -math.inf if request.bucket_gap >= CHARGES_MISSING else least
    bucket.last_update_ms = at_ms
    wrong, (parts, ends_ms, is_bounded) = 0, owed.get(request.request, Owed())
    for amount, is_admitted in request.mutations:
        if request.bucket_gap == OTHER_BUCKET:
            bucket.most, bucket.least = bucket.burst_s * bound, -math.inf
        is_known = bucket.least >= 0.0 or bucket.most < 0.0
        is_bounded &= math.isfinite(bucket.least)
        is_spent = True  # a permissive one always is
        if request.is_strict:
            if is_known and is_admitted != (bucket.most >= 0.0):
                wrong += NEARLY if abs(bucket.most) <= ROUNDING_TOKENS else WRONG
            is_spent = _is_taken(request, bucket, amount, is_admitted, is_known)
            if not is_admitted and bucket.most < 0.0:
                ends_ms = _ends_ms(bucket, bound)
        if is_spent:
            _spend(bucket, amount, bound)
            is_bounded &= not math.isnan(amount)
        if not request.is_strict and (bucket.most < 0.0 or ends_ms is None):
            ends_ms = _ends_ms(bucket, bound)
    owed[request.request] = Owed(parts + 1, ends_ms, is_bounded)
    if parts + 1 < request.parts:
        return wrong
    del owed[request.request]
    return wrong + (_told_by_throttle(request, bucket, ends_ms) if is_bounded else 0)


def _told_by_throttle(
    request: MutationRequest, bucket: Bucket, ends_ms: tuple[int, int] | None
) -> int:
    """Return the cost of the response's throttle, and settle which of two debts the bucket has.

    One of 1,000 ms and one of 3,000 ms explain no throttle of 2,000 ms.
    """
    if ends_ms is None or not bucket.is_either or ends_ms[0] == ends_ms[1]:
        return _unexplained_throttle(request, ends_ms)
    by_most, by_least = (_unexplained_throttle(request, (end_ms, end_ms)) for end_ms in ends_ms)
    if min(by_most, by_least) == 0 and by_most != by_least:
        bucket.most = bucket.least = bucket.most if by_most == 0 else bucket.least
    return min(by_most, by_least)


def _ends_ms(bucket: Bucket, bound: float) -> tuple[int, int]:
    """Return when the debt ends at the earliest and at the latest, or ended where none is left."""
    at_ms = bucket.last_update_ms
    earliest_ms = at_ms + mutation_throttle_time_ms(bucket.most, bound)
    return earliest_ms, at_ms + mutation_throttle_time_ms(bucket.least, bound)


def _is_taken(
    request: MutationRequest, bucket: Bucket, amount: float, is_admitted: bool, is_known: bool
) -> bool:
    """Return True if a strict mutation is spent; an unknown bucket learns by it.

    One admitted against a debt may have been spent all the same: the bucket may hold less then.
    """
    bound = 0.0 if math.isnan(request.bound) else request.bound
    slack = bound * (request.latest_ms - request.earliest_ms + UNEXPLAINED_DEBT_MS) / 1000.0
    if is_known and is_admitted and bucket.most < -bound * UNEXPLAINED_DEBT_MS / 1000.0:
        bucket.is_either = bucket.most == bucket.least and not math.isnan(amount)
        bucket.least = bucket.least - amount if bucket.is_either else -math.inf
        return False
    if is_known:
        return is_admitted
    bucket.is_either = False
    if is_admitted:
        bucket.least = max(bucket.least, 0.0 - slack)
    else:
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
    left_ms = ends_ms[1] - request.response_earliest_ms
    if least_ms <= request.logged_ms <= max(left_ms, 0) + THROTTLE_APART_MS:
        return 0
    most_ms = max(left_ms + LINE_LAG_MAX_MS, 0) + THROTTLE_APART_MS
    return NEARLY if least_ms - LATE_LINE_MS <= request.logged_ms <= most_ms else WRONG
