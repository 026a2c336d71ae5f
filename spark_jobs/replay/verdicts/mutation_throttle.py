"""Whether the throttle in the response of a controller mutation is what the bucket asks for.

A debt of tokens ends at a moment that does not depend on when it was looked at: a millisecond later
the debt is a millisecond smaller. The response says how long it is from *its* moment until then
(``AbstractControllerMutationQuota.throttleTime`` takes the wait off). So of all record times only
that of the last mutation that met a full bucket matters, and when the response was made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.constants import LATE_LINE_MS, LINE_LAG_MAX_MS
from spark_jobs.quota.states import Bools, Int64s

RESPONSE_LAG_US = 3000
"""The delay is computed so long before the response counts as complete, or less."""
LINE_STEP_US = 999
LINE_LAG_US = 1000
# Each may double the number of debts to look at.
_TOPICS_MAX = 12


@dataclass(frozen=True, slots=True)
class MutationThrottleRows:
    """Mutations of topics in replayed order, as arrays of one length."""

    sensor: Int64s
    request: Int64s  # one number per request: its topics share the response
    unit: Int64s  # one number per what is recorded at once: a request, or with ZooKeeper a topic
    recorded_at_ms: Int64s  # as replayed
    interval_ms: Int64s  # width of the admissible record times
    bound: npt.NDArray[np.float64]  # partitions per second, NaN: none in force
    burst: npt.NDArray[np.float64]
    tokens_before: npt.NDArray[np.float64]
    replayed_ms: Int64s  # throttle at the moment of recording, 0: no violation
    is_strict: Bools
    admitted: Bools  # as logged
    is_state_known: Bools
    spent: npt.NDArray[np.float64]  # partitions charged, 0: refused
    has_request_bound: Bools  # the response's throttle is the larger of both
    response_earliest_ms: Int64s
    response_latest_ms: Int64s
    logged_ms: Int64s  # of the response
    # Of each sensor, moved on: by how much its debt may end otherwise after its last row, and the
    # bound of that; NaN: it has no row yet.
    debt_slack_ms: npt.NDArray[np.float64]
    debt_bound: npt.NDArray[np.float64]


class MutationThrottles(NamedTuple):
    """Per row, of its request: what the response can have said, and whether it is known at all."""

    throttle_min_ms: Int64s
    throttle_max_ms: Int64s
    late_min_ms: Int64s  # and where the last full bucket's line is as much as LATE_LINE_MS late
    late_max_ms: Int64s  # and where its own is as much as LINE_LAG_MAX_MS late
    is_known: Bools
    slack_ms: Int64s  # by how much the row's own debt may end earlier or later than replayed
    # How long after the response the debt ends, negative: before it.
    ends_min_ms: Int64s
    ends_max_ms: Int64s


AGREE, REQUEST_QUOTA, LATE_LINE, UNDER_THROTTLED, OVER_THROTTLED, NOT_JUDGED = range(6)
"""What a throttle is; REQUEST_QUOTA and LATE_LINE: what it may be the work of."""


def response_interval_ms(
    log_time_ms: npt.ArrayLike, response_queue_time_us: npt.ArrayLike, send_time_us: npt.ArrayLike
) -> tuple[Int64s, Int64s]:
    """Return the first and last millisecond in which the response's throttle was computed."""
    complete_us = np.asarray(log_time_ms, np.int64) * 1000 - np.asarray(send_time_us, np.int64)
    complete_us = complete_us - np.asarray(response_queue_time_us, np.int64)
    first_us = complete_us - RESPONSE_LAG_US - LINE_LAG_US
    return first_us // 1000, (complete_us + LINE_STEP_US) // 1000


def mutation_throttles(rows: MutationThrottleRows) -> MutationThrottles:
    """Return the range of throttles (ms) that each row's response can have stated.

    A strict quota asks for a throttle where it refused a topic, a permissive one where it left a
    debt; of a request's topics the last such one counts (``updateThrottleTime``).
    """
    violates = (rows.replayed_ms > 0) & ~(rows.is_strict & rows.admitted)
    last = _last_of_request(violates, rows.request)
    has_violation = last >= 0
    # A permissive one that leaves no debt left one before it ended: as its line may be late.
    owing = _last_of_request(~rows.is_strict & (rows.bound > 0), rows.request)
    at = np.where(has_violation, last, owing.clip(0))
    ends_ms = (rows.recorded_at_ms + _until_debt_ends_ms(rows))[at]
    own_slack_ms = full_bucket_interval_ms(rows)
    slack_ms = own_slack_ms[at]
    least = ends_ms - slack_ms - rows.response_latest_ms
    most = ends_ms + slack_ms - rows.response_earliest_ms
    unknown = np.isnan(rows.bound) | ~rows.is_state_known

    def due(throttle_ms: Int64s, may_be: Bools = has_violation) -> Int64s:
        return np.where(may_be, np.maximum(throttle_ms, 0), 0)

    return MutationThrottles(
        due(least),
        due(most),
        due(least - LATE_LINE_MS),
        due(most + LINE_LAG_MAX_MS, has_violation | (owing >= 0)),
        ~_of_any_topic(unknown, rows.request),
        own_slack_ms,
        least,
        most,
    )


def _until_debt_ends_ms(rows: MutationThrottleRows) -> Int64s:
    """Return the time (ms) from each row's record until its debt ends, below 0 where it has ended.

    Such as 1,500 ms of 3 partitions owed at 2/s, and -500 ms of one left.
    """
    left = np.nan_to_num(rows.tokens_before - rows.spent).clip(min=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        since_ms = np.nan_to_num(1000.0 * left / rows.bound, nan=0.0, posinf=0.0).astype(np.int64)
    return np.where(rows.replayed_ms > 0, rows.replayed_ms, -since_ms)


def judge_mutation_throttles(
    rows: MutationThrottleRows, said: MutationThrottles, tolerance_ms: int
) -> npt.NDArray[np.int8]:
    """Return a code per row: AGREE, what it may be, UNDER_THROTTLED, OVER_THROTTLED, NOT_JUDGED.

    ``said`` is what :func:`mutation_throttles` says of ``rows``. A refusal that the replay does not
    expect is judged as an admission, not here: NOT_JUDGED, as is what has no quota or an unknown
    state. Above the interval, a request quota may be the cause. Near it, a line may be late; off by
    what others were charged, one may be so late that they came in another order.
    """
    refused = ~rows.admitted
    unexpected = _of_any_topic(refused & (rows.replayed_ms <= 0), rows.request)
    over = rows.logged_ms > said.throttle_max_ms + tolerance_ms
    under = rows.logged_ms < said.throttle_min_ms - tolerance_ms
    is_late = (rows.logged_ms <= said.late_max_ms + tolerance_ms) & (
        rows.logged_ms >= said.late_min_ms - tolerance_ms
    )
    is_due = said.is_known & (rows.bound > 0)
    for row in np.flatnonzero(is_due & (over | under) & ~is_late).tolist():
        is_late[row] = _fits_another_order(rows, said, row, tolerance_ms) or (
            _was_refused_amid(rows, row, tolerance_ms)
        )
    return np.select(
        [
            ~said.is_known | unexpected,
            over & rows.has_request_bound,
            (over | under) & is_late,
            under,
            over,
        ],
        [NOT_JUDGED, REQUEST_QUOTA, LATE_LINE, UNDER_THROTTLED, OVER_THROTTLED],
        AGREE,
    ).astype(np.int8)


def _fits_another_order(
    rows: MutationThrottleRows, said: MutationThrottles, row: int, tolerance_ms: int
) -> bool:
    """Return True if the throttle is due where the row's request came before, or after, others.

    A line of them is late then, by LINE_LAG_MAX_MS or less. Two partitions of a request that seems
    to follow, at 2 a second, are a debt that ends 1,000 ms later. Of a request whose topics are
    recorded one by one, in an order that no line tells, any may have come before. What was admitted
    or refused has to stay so.
    """
    own = rows.unit == rows.unit[row]
    if (rows.is_strict & rows.admitted)[own].any():
        return False
    left_ms = rows.replayed_ms[own & rows.is_strict].max(initial=0)
    sensor = slice(*np.searchsorted(rows.sensor, [rows.sensor[row], rows.sensor[row] + 1]))
    request, at_ms = rows.request[sensor], rows.recorded_at_ms[sensor]
    reach_ms = rows.interval_ms[sensor] + rows.interval_ms[row] + LINE_LAG_MAX_MS
    is_near = np.abs(at_ms - rows.recorded_at_ms[row]) <= reach_ms
    is_near &= request != rows.request[row]
    unit, owed_ms = rows.unit[sensor], rows.spent[sensor] * 1000.0 / rows.bound[row]
    place = row - sensor.start
    for others, sign in (
        (np.flatnonzero(is_near[:place])[::-1], -1),
        (np.flatnonzero(is_near[place:]) + place, 1),
    ):
        # Its own line is the late one where it came before those ahead of it.
        late_ms = LINE_LAG_MAX_MS if sign < 0 else 0
        for debt_ms in _passed_debts_ms(request[others], unit[others], owed_ms[others]):
            passed_ms = sign * debt_ms
            if left_ms > 0 and left_ms + late_ms <= -passed_ms:
                break
            least_ms = max(said.ends_min_ms[row] + passed_ms, 0.0)
            most_ms = max(said.ends_max_ms[row] + passed_ms + late_ms, 0.0)
            if least_ms - tolerance_ms <= rows.logged_ms[row] <= most_ms + tolerance_ms:
                return True
    return False


def _passed_debts_ms(
    request: Int64s, unit: Int64s, owed_ms: npt.NDArray[np.float64]
) -> Iterator[float]:
    """Yield the debts (ms) of the first topics, of more and more of them.

    Such as 446 and 1,338 ms of topics that owe 446 and 892 ms, and 892 ms, too, where both are of
    one request that is recorded topic by topic.
    """
    before_ms = 0.0
    for _, each in groupby(range(len(request)), key=lambda topic: request[topic]):
        topics = list(each)
        is_one_by_one = len(set(unit[topics].tolist())) == len(topics)
        whole_ms = float(owed_ms[topics].sum())
        for debt_ms in _debts_ms(owed_ms[topics]) if is_one_by_one else [whole_ms]:
            yield before_ms + debt_ms
        before_ms += whole_ms


def _was_refused_amid(rows: MutationThrottleRows, row: int, tolerance_ms: int) -> bool:
    """Return True if a request without a throttle may have had its refusals before admissions.

    With ZooKeeper topics are recorded one by one, in an order that no line tells. Those that seem
    to be refused last may have met a smaller debt, which was over when the next ones were recorded.
    Such as 945 ms, less 977 ms of a partition at 1.02 a second, of topics that took 58 ms.
    """
    own = rows.request == rows.request[row]
    is_one_by_one = len(np.unique(rows.unit[own])) == np.count_nonzero(own)
    refused = own & rows.is_strict & ~rows.admitted
    if rows.logged_ms[row] > tolerance_ms or not is_one_by_one or not refused.any():
        return False
    left_ms, took_ms = int(rows.replayed_ms[refused].max()), int(rows.interval_ms[row])
    owed_ms = _debts_ms(rows.spent[own & rows.admitted] * 1000.0 / rows.bound[row])
    # It was a debt at some time of the request, and was over at a later one.
    reach_ms = took_ms + tolerance_ms
    return any(-reach_ms < left_ms - each <= reach_ms for each in owed_ms)


def _debts_ms(owed_ms: npt.NDArray[np.float64]) -> list[float]:
    """Return the debts (ms) that some of the topics leave together, and all, the smallest first.

    Such as 446, 892 and 1,338 ms of topics that owe 446 and 892 ms.
    """
    sums = {0.0}
    for each_ms in owed_ms[:_TOPICS_MAX].tolist():
        sums |= {sum_ms + each_ms for sum_ms in sums}
    return sorted(sum_ms for sum_ms in sums | {float(owed_ms.sum())} if sum_ms > 0)


def of_debts(rows: MutationThrottleRows, mask: Bools) -> Bools:
    """Return, per row, whether ``mask`` holds for a row of its sensor since the last full bucket.

    Until the bucket is full again, all debts hang on one record time.
    """
    met_full = rows.tokens_before >= rows.burst
    # The rows of a sensor are together.
    begins = np.append(True, np.diff(rows.sensor) != 0)[: len(met_full)] | met_full
    debt = np.cumsum(begins) - 1
    has = np.zeros(debt[-1] + 1 if len(debt) else 0, bool)
    has[debt[mask]] = True
    return np.asarray(has[debt])


def _last_of_request(mask: Bools, request: Int64s) -> Int64s:
    """Return, per row, the last row of its request where ``mask`` holds, -1 where none does."""
    _, number = np.unique(request, return_inverse=True)
    last = np.full(number.max(initial=-1) + 1, -1, np.int64)
    np.maximum.at(last, number[mask], np.flatnonzero(mask))
    return last[number]


def _of_any_topic(mask: Bools, request: Int64s) -> Bools:
    return _last_of_request(mask, request) >= 0


def full_bucket_interval_ms(rows: MutationThrottleRows) -> Int64s:
    """Return the time (ms) by which each row's debt may end earlier or later than replayed.

    That is the width of the record time of the sensor's last full bucket. A change of the bound
    rescales what is left of the debt from the moment on at which it is first seen.
    ``debt_slack_ms`` and ``debt_bound`` of ``rows`` move on.
    """
    width = np.empty(len(rows.sensor), np.int64)
    columns = (rows.sensor, rows.bound, rows.tokens_before >= rows.burst, rows.interval_ms)
    for i, (sensor, bound, is_full, interval_ms) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        bound_before, slack_ms = rows.debt_bound[sensor], rows.debt_slack_ms[sensor]
        if is_full or math.isnan(slack_ms):
            slack_ms = interval_ms
        elif bound != bound_before and bound > 0:
            known = 0.0 if math.isnan(bound_before) else slack_ms * bound_before / bound
            slack_ms = known + interval_ms
        rows.debt_bound[sensor], rows.debt_slack_ms[sensor] = bound, slack_ms
        width[i] = math.ceil(slack_ms)
    return width
