"""Verdicts of requests that two quotas throttle, once both are known.

The replay of a bandwidth quota and that of the request quota do not see each other; a request's
one logged throttle is the larger of both (``KafkaApis.handleProduceRequest``). Here they meet. What
the request quota asked for is known as an interval (:mod:`spark_jobs.quota.request_time`). Where
that leaves open what the quota asked for, what it likely asked for may say that a decision agrees,
with a reason of its own, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from spark_jobs.replay.verdicts.verdicts import (
    LIKELY_REQUEST_TIME,
    REQUEST_QUOTA_INTERVAL,
    Verdicts,
    first_that_applies,
)

LIKELY_WIDTH_SHARE = 0.2
"""A throttle that is likely to no more than this of a window tells enough to agree with."""


class RequestShare(IntEnum):
    """What the request quota's interval leaves of a logged throttle."""

    OTHER_DECIDES = 0
    """The request quota asked for less than was logged: the other quota alone has to explain it."""
    AGREE = 1
    """The log is what the quotas together ask for."""
    INDETERMINATE = 2
    """The log is inside what the request quota may have asked for, which is not known exactly."""
    UNDER_THROTTLED = 3
    """The request quota surely asked for more."""
    OVER_THROTTLED = 4
    """No quota asked for as much."""


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Decisions on requests that have a request quota, as arrays of one length; milliseconds."""

    is_request_quota: np.ndarray  # bool: the decision on the request quota, else on bandwidth
    is_unrecorded: np.ndarray  # bool
    logged_ms: np.ndarray
    replayed_ms: np.ndarray
    # What the request quota of the same request may have asked for.
    throttle_min_ms: np.ndarray
    throttle_max_ms: np.ndarray
    is_interval_known: np.ndarray  # bool
    # Of decisions on the request quota: what it likely asked for.
    throttle_likely_min_ms: np.ndarray
    throttle_likely_max_ms: np.ndarray
    # Of decisions on the request quota: the bandwidth quota's throttle, -1: it has none.
    other_ms: np.ndarray
    window_ms: np.ndarray


def judge_request_share(rows: SharedRows, tolerance_ms: int) -> npt.NDArray[np.int8]:
    """Return a :class:`RequestShare` per row, for the decision on the *other* quota of a request.

    ``OTHER_DECIDES`` hands back to the bandwidth quota's own rules, with nothing left to blame on
    the request quota. Never ``OVER_THROTTLED``.
    """
    logged, other = rows.logged_ms, rows.replayed_ms
    under, above, is_told = _by_interval(rows, tolerance_ms)
    by_other = (np.abs(logged - other) <= tolerance_ms) & ((other > 0) == (logged > 0))
    asks_nothing = rows.throttle_max_ms == 0
    too_little_for_other = logged < other - tolerance_ms
    return np.select(
        [under, by_other, above | asks_nothing | too_little_for_other, is_told],
        [
            RequestShare.UNDER_THROTTLED,
            RequestShare.AGREE,
            RequestShare.OTHER_DECIDES,
            RequestShare.AGREE,
        ],
        RequestShare.INDETERMINATE,
    ).astype(np.int8)


def judge_request_quota(rows: SharedRows, tolerance_ms: int) -> npt.NDArray[np.int8]:
    """Return a :class:`RequestShare` per row, for the decision on the *request* quota itself.

    A throttle longer than the request quota asked for is no fault of it where the request has
    another quota: the broker takes the larger. Never ``OTHER_DECIDES``.
    """
    under, above, is_told = _by_interval(rows, tolerance_ms)
    return np.select(
        [under, above & (rows.other_ms < 0), above | is_told],
        [RequestShare.UNDER_THROTTLED, RequestShare.OVER_THROTTLED, RequestShare.AGREE],
        RequestShare.INDETERMINATE,
    ).astype(np.int8)


def is_likely(rows: SharedRows, tolerance_ms: int) -> npt.NDArray[np.bool_]:
    """Return True for decisions on the request quota that agree with what it likely asked for.

    What was logged is in the likely interval, and this tells something: that there was no throttle,
    or that there was one, to LIKELY_WIDTH_SHARE of a window. A throttle that is longer than likely
    is another quota's only where this other one explains it. What is not likely stays open: a
    broker that begins, or one that waits for a core, takes longer than is likely.
    """
    logged, least, most = rows.logged_ms, rows.throttle_likely_min_ms, rows.throttle_likely_max_ms
    fits = (logged >= least - tolerance_ms) & (logged <= most + tolerance_ms)
    is_short = most - least <= LIKELY_WIDTH_SHARE * rows.window_ms
    tells = (most - least <= tolerance_ms) | ((logged > 0) & (least > 0) & is_short)
    by_other = (rows.other_ms > 0) & (np.abs(logged - rows.other_ms) <= tolerance_ms)
    asks_no_more = most <= logged + tolerance_ms
    return np.asarray(fits & tells | by_other & asks_no_more)


def _by_interval(rows: SharedRows, tolerance_ms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three masks: the log is below the interval, above it, or tells where inside it is."""
    logged, least, most = rows.logged_ms, rows.throttle_min_ms, rows.throttle_max_ms
    # The cap is met to the millisecond by no chance.
    by_cap = (logged == rows.window_ms) & (most >= logged)
    is_exact = most - least <= tolerance_ms
    return logged < least - tolerance_ms, logged > most + tolerance_ms, is_exact | by_cap


def fix_shared(
    rows: SharedRows, verdicts: Verdicts, verdicts_alone: Verdicts, tolerance_ms: int
) -> Verdicts:
    """Return the verdicts of ``rows``.

    ``verdicts`` are those that hold where the request quota cannot be told, ``verdicts_alone``
    those where it asked for nothing. What a throttled fetch tried to read is given back by its
    throttle only where the request quota surely asked for less.
    """
    own = judge_request_quota(rows, tolerance_ms)
    share = judge_request_share(rows, tolerance_ms)
    is_known = rows.is_interval_known
    no_quota = verdicts.verdict == "no_quota"
    asks_less = rows.throttle_max_ms + tolerance_ms < rows.logged_ms
    not_longer = rows.logged_ms <= rows.replayed_ms + tolerance_ms
    alone = np.where(
        rows.is_unrecorded,
        asks_less,
        (share == RequestShare.OTHER_DECIDES)
        | ((share == RequestShare.UNDER_THROTTLED) & not_longer),
    )
    on_request, on_other = is_known & rows.is_request_quota, is_known & ~rows.is_request_quota
    agrees = on_other & ~rows.is_unrecorded & (share == RequestShare.AGREE)
    return first_that_applies(
        len(no_quota),
        (no_quota, verdicts.verdict, verdicts.reason),
        (on_request & (own == RequestShare.UNDER_THROTTLED), "under_throttled", None),
        (on_request & (own == RequestShare.OVER_THROTTLED), "over_throttled", None),
        (on_request & (own == RequestShare.AGREE), "agree", None),
        (on_request & is_likely(rows, tolerance_ms), "agree", LIKELY_REQUEST_TIME),
        (on_request, "indeterminate", REQUEST_QUOTA_INTERVAL),
        (agrees, "agree", None),
        (on_other & alone, verdicts_alone.verdict, verdicts_alone.reason),
        (on_other, "indeterminate", REQUEST_QUOTA_INTERVAL),
        (np.ones(len(no_quota), bool), verdicts.verdict, verdicts.reason),
    )
