"""Verdicts of requests that two quotas throttle, once both are known.

The replay of a bandwidth quota and that of the request quota do not see each other; a request's
one logged throttle is the larger of both. Here they meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.replay.verdicts.request_interval import (
    RequestQuotaRows,
    RequestShare,
    judge_request_quota,
    judge_request_share,
)
from spark_jobs.replay.verdicts.verdicts import REQUEST_QUOTA_INTERVAL, Verdicts, first_that_applies


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
    other_ms: np.ndarray  # on the request quota: the bandwidth quota's throttle, -1: it has none
    window_ms: np.ndarray


def fix_shared(
    rows: SharedRows, verdicts: Verdicts, verdicts_alone: Verdicts, tolerance_ms: int
) -> Verdicts:
    """Return the verdicts of ``rows``.

    ``verdicts`` are those that hold where the request quota cannot be told, ``verdicts_alone``
    those where it asked for nothing. What a throttled fetch tried to read is given back by its
    throttle only where the request quota surely asked for less.
    """
    quotas = RequestQuotaRows(
        logged_ms=rows.logged_ms,
        throttle_min_ms=rows.throttle_min_ms,
        throttle_max_ms=rows.throttle_max_ms,
        other_ms=np.where(rows.is_request_quota, rows.other_ms, rows.replayed_ms),
    )
    own = judge_request_quota(quotas, tolerance_ms, rows.window_ms)
    share = judge_request_share(quotas, tolerance_ms, rows.window_ms)
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
        (on_request, "indeterminate", REQUEST_QUOTA_INTERVAL),
        (agrees, "agree", None),
        (on_other & alone, verdicts_alone.verdict, verdicts_alone.reason),
        (on_other, "indeterminate", REQUEST_QUOTA_INTERVAL),
        (np.ones(len(no_quota), bool), verdicts.verdict, verdicts.reason),
    )
