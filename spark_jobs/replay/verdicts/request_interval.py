"""What a logged throttle says of the request quota, whose amounts the log holds only in part.

A broker logs one throttle, the larger of all quotas that a request was counted on
(``KafkaApis.handleProduceRequest``). The replay knows what the request quota asked for as an
interval (:mod:`spark_jobs.quota.request_time`), so it can say what is surely wrong, surely right,
or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt


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
class RequestQuotaRows:
    """Requests with a request quota in force, as arrays of one length; milliseconds."""

    logged_ms: npt.NDArray[np.int64]
    throttle_min_ms: npt.NDArray[np.int64]  # of the request quota
    throttle_max_ms: npt.NDArray[np.int64]
    # What the other quota of the request asked for by the replay; -1: it has none.
    other_ms: npt.NDArray[np.int64]


def judge_request_share(
    rows: RequestQuotaRows, tolerance_ms: int, window_ms: npt.ArrayLike = 1000
) -> npt.NDArray[np.int8]:
    """Return a :class:`RequestShare` per row, for the decision on the *other* quota of a request.

    ``OTHER_DECIDES`` hands back to the bandwidth quota's own rules, with nothing left to blame on
    the request quota. A row without another quota is judged to the end here.
    """
    logged, has_other = rows.logged_ms, rows.other_ms >= 0
    under = logged < rows.throttle_min_ms - tolerance_ms
    above = logged > rows.throttle_max_ms + tolerance_ms
    by_other = has_other & (np.abs(logged - rows.other_ms) <= tolerance_ms)
    by_other &= (rows.other_ms > 0) == (logged > 0)
    is_exact = rows.throttle_max_ms - rows.throttle_min_ms <= tolerance_ms
    # The cap is met to the millisecond by no chance.
    by_cap = (logged == np.asarray(window_ms)) & (rows.throttle_max_ms >= logged)
    asks_nothing = rows.throttle_max_ms == 0
    too_little_for_other = has_other & (logged < rows.other_ms - tolerance_ms)
    return np.select(
        [
            under,
            by_other,
            has_other & (above | asks_nothing | too_little_for_other),
            above,
            is_exact | by_cap,
        ],
        [
            RequestShare.UNDER_THROTTLED,
            RequestShare.AGREE,
            RequestShare.OTHER_DECIDES,
            RequestShare.OVER_THROTTLED,
            RequestShare.AGREE,
        ],
        RequestShare.INDETERMINATE,
    ).astype(np.int8)


def judge_request_quota(
    rows: RequestQuotaRows, tolerance_ms: int, window_ms: npt.ArrayLike = 1000
) -> npt.NDArray[np.int8]:
    """Return a :class:`RequestShare` per row, for the decision on the *request* quota itself.

    A throttle longer than the request quota asked for is no fault of it where the request has
    another quota: the broker takes the larger. Never ``OTHER_DECIDES``.
    """
    logged, has_other = rows.logged_ms, rows.other_ms >= 0
    under = logged < rows.throttle_min_ms - tolerance_ms
    above = logged > rows.throttle_max_ms + tolerance_ms
    is_exact = rows.throttle_max_ms - rows.throttle_min_ms <= tolerance_ms
    by_cap = (logged == np.asarray(window_ms)) & (rows.throttle_max_ms >= logged)
    return np.select(
        [under, above & ~has_other, above | is_exact | by_cap],
        [RequestShare.UNDER_THROTTLED, RequestShare.OVER_THROTTLED, RequestShare.AGREE],
        RequestShare.INDETERMINATE,
    ).astype(np.int8)
