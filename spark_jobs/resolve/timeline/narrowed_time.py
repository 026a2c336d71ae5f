"""Which of a broker's own throttle records belongs to which logged request of a sensor.

A broker that logs its quota managers at DEBUG stamps every throttled amount as it records it:
``Quota violated for sensor (Produce-dave:sink). Delay time: (8)``. Where such a record is matched
to a request, the request's record time is no interval but a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

NOT_MATCHED = -1
STAMP_SLACK_MS = 1
"""A record's stamp may lie this far outside its request's interval: both are cut to a ms."""

Int64s = npt.NDArray[np.int64]


def matched_records(
    earliest_ms: npt.ArrayLike,
    latest_ms: npt.ArrayLike,
    estimate_us: npt.ArrayLike,
    logged_throttle_time_ms: npt.ArrayLike,
    record_at_ms: npt.ArrayLike,
    record_throttle_time_ms: npt.ArrayLike,
) -> Int64s:
    """Return, for each of one sensor's n rows, the index of its record among m, or NOT_MATCHED.

    A record fits a row of the same throttle time whose [earliest, latest], widened by
    STAMP_SLACK_MS, it lies in. No record is used twice; rows without throttle have none. Where
    several fit, as many rows as possible are matched, in order (of the estimates and of the
    records), and among such matchings the one with the smallest distances is returned.
    """
    earliest, latest, estimate, throttle = (
        np.asarray(a, np.int64)
        for a in (earliest_ms, latest_ms, estimate_us, logged_throttle_time_ms)
    )
    at_ms, delay = np.asarray(record_at_ms, np.int64), np.asarray(record_throttle_time_ms, np.int64)
    found = np.full(len(earliest), NOT_MATCHED, np.int64)
    low, high = earliest - STAMP_SLACK_MS, latest + STAMP_SLACK_MS
    for rows, records in _groups(throttle, estimate, delay, at_ms):
        for some_rows, some_records in _clusters(rows, records, low, high, estimate, at_ms):
            gain = _gains(some_rows, some_records, low, high, estimate, at_ms)
            for row, record in _best_in_order(gain):
                found[some_rows[row]] = some_records[record]
    return found


def _groups(
    throttle: Int64s, estimate: Int64s, delay: Int64s, at_ms: Int64s
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the rows and the records of each throttle time, both in the order of time."""
    rows, records = np.lexsort((estimate, throttle)), np.lexsort((at_ms, delay))
    of_rows, of_records = throttle[rows], delay[records]
    for value in np.intersect1d(throttle[throttle > 0], delay):
        yield rows[_run(of_rows, value)], records[_run(of_records, value)]


def _run(ordered: Int64s, value: int) -> slice:
    first, last = np.searchsorted(ordered, (value, value + 1))
    return slice(int(first), int(last))


def _clusters(
    rows: Int64s, records: Int64s, low: Int64s, high: Int64s, estimate: Int64s, at_ms: Int64s
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the rows whose intervals hang together, with the records that lie in their span."""
    order = rows[np.argsort(low[rows], kind="stable")]
    reach = np.maximum.accumulate(high[order])
    times = at_ms[records]
    for some in np.split(order, np.flatnonzero(low[order][1:] > reach[:-1]) + 1):
        first, last = np.searchsorted(times, (low[some].min(), high[some].max() + 1))
        if first < last:
            yield some[np.lexsort((some, estimate[some]))], records[first:last]


def _gains(
    rows: Int64s, records: Int64s, low: Int64s, high: Int64s, estimate: Int64s, at_ms: Int64s
) -> npt.NDArray[np.float64]:
    """Return the gain of matching each row with each record, 0 where the record does not fit.

    One more match is worth more than any distances.
    """
    at = at_ms[records][None, :]
    fits = (low[rows][:, None] <= at) & (at <= high[rows][:, None])
    distance_ms = np.abs(at - estimate[rows][:, None] / 1000.0)
    scale = 1.0 + distance_ms.max() * (min(len(rows), len(records)) + 1)
    return np.where(fits, 1.0 - distance_ms / scale, 0.0)


def _best_in_order(gain: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs (row, record), both rising, whose gains add up to the most."""
    n, m = gain.shape
    best = np.zeros((n + 1, m + 1))
    for i in range(n - 1, -1, -1):
        paired = np.where(gain[i] > 0, gain[i] + best[i + 1, 1:], 0.0)
        best[i, :m] = np.maximum.accumulate(np.maximum(paired, best[i + 1, :m])[::-1])[::-1]
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        if best[i, j] == best[i + 1, j]:
            i += 1
        elif best[i, j] == best[i, j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs
