"""Thread time of requests as the request quota counts it, from what a request line says.

The quota counts handler time when the response is made, and checks it; network-thread time once the
response was sent, unchecked (``ClientRequestQuotaManager.maybeRecordAndGetThrottleTimeMs``,
``recordNoThrottle``). The line has the first to the microsecond: the stamp that ends
``localTimeMs`` is taken by the quota itself (``RequestChannel.Request.requestThreadTimeNanos``).
The second is in no line: it is the time of ``Selector.pollSelectionKeys`` for the connection, for
reading the request and for writing the response. Writing lies inside ``sendTimeMs``; reading comes
before the line's first stamp, so only other requests tell what it can have been.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from spark_jobs.quota.interval_states import IntervalRows, IntervalStates, RateIntervals
from spark_jobs.quota.rate_decision import RECORD, RECORD_ONLY
from spark_jobs.quota.rate_interval import replay_rate_intervals
from spark_jobs.quota.states import Bools, Floats, Int64s

PERCENT_PER_US = 1e-4
"""Kafka: ``ClientQuotaManagerConfig.NanosToPercentagePerSecond`` is 1e-7."""
LINE_LAG_US = 1000
"""Between the last stamp of a request and its line lies the making of the line's text."""
LINE_STEP_US = 999
SHORT_WAIT_US = 20_000
"""A remote time below it may be the building of a response or a wait: both ends are admitted."""
WAIT_LAG_US = 5000
"""Who completes a response that waited records it so long before it is complete, or less."""
READ_PERCENTILE = 95.0
"""What reading a small request may have taken: this percentile of all send times of its broker.

Reading and writing are the same work of the same threads, so nearly all reads are within what
nearly all sends took; the send time also holds waiting, which makes it generous.
"""
READ_US_PER_BYTE = 0.002
"""500 MB/s: what TLS on a slow core takes."""
LIKELY_DEVIATIONS = 4.0
"""A mean is likely within so many standard errors: one of 16,000 is not by chance."""
SHARES_TOLD = 5
"""So many throttles of one span tell of the next requests."""
LIKELY_REQUESTS_MIN = 30
"""Of fewer requests in a window the deviation is not known well enough."""


def record_interval_ms(
    log_time_ms: npt.ArrayLike,
    remote_time_us: npt.ArrayLike,
    response_queue_time_us: npt.ArrayLike,
    send_time_us: npt.ArrayLike,
    completes_in_handler: npt.ArrayLike,
) -> tuple[Int64s, Int64s]:
    """Return the first and last millisecond in which the request quota counted each request.

    Narrower than for a bandwidth quota: the quota's own stamp ends the handler time. Whatever
    ``completes_in_handler`` (a produce with acks 1, say) cannot have waited.
    """
    remote_us = np.asarray(remote_time_us, np.int64)
    complete_us = np.asarray(log_time_ms, np.int64) * 1000 - np.asarray(send_time_us, np.int64)
    complete_us = complete_us - np.asarray(response_queue_time_us, np.int64)
    handled_us = complete_us - remote_us
    in_handler = np.asarray(completes_in_handler, bool)
    waited = ~in_handler & (remote_us >= SHORT_WAIT_US)
    first_us = np.where(waited, complete_us - WAIT_LAG_US, handled_us) - LINE_LAG_US
    last_us = np.where(in_handler, handled_us, complete_us) + LINE_STEP_US
    return first_us // 1000, last_us // 1000


def network_time_max_us(
    send_time_us: npt.ArrayLike,
    request_bytes: npt.ArrayLike,
    read_us: npt.ArrayLike,
    handshake_us: npt.ArrayLike = 0.0,
) -> Floats:
    """Return the most network-thread time of each request: its send time and a generous read.

    ``read_us`` is the broker's READ_PERCENTILE; ``request_bytes`` is NaN where unknown;
    ``handshake_us`` is what authentication may have taken, 0 but for the first request of a
    connection, which pays for it
    (``RequestChannel.Request.updateRequestMetrics``).

    >>> network_time_max_us([70.0], [10_000.0], read_us=200.0).tolist()
    [290.0]
    """
    size = np.nan_to_num(np.asarray(request_bytes, np.float64))
    sent = np.asarray(send_time_us, np.float64) + np.asarray(read_us, np.float64)
    return sent + size * READ_US_PER_BYTE + np.asarray(handshake_us, np.float64)


def likely_network_time_us(
    send_time_us: npt.ArrayLike,
    request_bytes: npt.ArrayLike,
    response_bytes: npt.ArrayLike,
    read_us: float,
) -> tuple[Floats, Int64s]:
    """Return the likely network-thread time of each request but for its read, and its short send.

    Both in µs, the second in whole ones. A write takes no longer than its send, nor than the
    longest read of as many bytes: what a send took longer was waiting. The short send, that of a
    response without bytes, is what :class:`LikelyReads` learns from.

    >>> likely_us, short_us = likely_network_time_us([40.0, 9e3], [0, 0], [0, 1e4], 300.0)
    >>> likely_us.tolist(), short_us.tolist()
    ([40.0, 320.0], [40, 300])
    """
    sent_us = np.asarray(send_time_us, np.float64)
    read, written = (np.asarray(size, np.float64) for size in (request_bytes, response_bytes))
    write_us = np.minimum(sent_us, read_us + np.nan_to_num(written) * READ_US_PER_BYTE)
    by_bytes_us = np.nan_to_num(read) * READ_US_PER_BYTE
    short_us = np.rint(np.minimum(sent_us, read_us)).astype(np.int64)
    return write_us + by_bytes_us, short_us


class LikelyReads:
    """What reading a sensor's requests likely took, learned from the sends of its own requests.

    Reading a request and writing its response are the same work of the same thread for the same
    connection, and a send is a write and some waiting. So the mean of the short sends of the span
    up to a request is what a read likely takes, and generous. A sum of n reads is off from n such
    means by chance: by a deviation times sqrt(2 n), for the mean is one of n sends itself.
    """

    def __init__(self, span_ms: int) -> None:
        """``span_ms`` is as long as the sensor's samples may reach back."""
        self._span_ms = span_ms
        self._at_ms = np.zeros(0, np.int64)
        self._sent_us = np.zeros(0, np.int64)

    def most_us(self, at_ms: Int64s, sent_us: Int64s) -> Floats:
        """Return the read of each request such that those of a span likely sum up to no more.

        ``sent_us`` are the requests' short sends, at ``at_ms``, after those given before. Infinite
        where a span has fewer than LIKELY_REQUESTS_MIN requests.

        >>> reads = LikelyReads(11_000)
        >>> reads.most_us(np.arange(30), np.full(30, 70))[-2:].tolist()
        [inf, 70.0]
        >>> reads.most_us(np.array([5_000]), np.array([290])).round().tolist()
        [117.0]
        """
        known = len(self._at_ms)
        times_ms = np.maximum.accumulate(np.concatenate([self._at_ms, at_ms]))
        sent_us = np.concatenate([self._sent_us, sent_us])
        since = np.searchsorted(times_ms, times_ms - self._span_ms, side="right")
        until = np.arange(1, len(times_ms) + 1)
        self._at_ms, self._sent_us = times_ms[since[-1] :], sent_us[since[-1] :]
        n = until - since
        # Of whole numbers, sums are the same wherever the requests are cut.
        sums, squares = (np.append(0, np.cumsum(each)) for each in (sent_us, sent_us**2))
        mean, square = ((each[until] - each[since]) / n for each in (sums, squares))
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        most = mean + LIKELY_DEVIATIONS * deviation * np.sqrt(2.0 / n)
        return np.asarray(np.where(n < LIKELY_REQUESTS_MIN, np.inf, most)[known:])


class ToldShares:
    """What the throttles of a sensor told of the times that the log leaves open.

    The rate at a request lies between the least and the most there can have been, and a throttle
    tells where: at a share of the way. So long as a sensor's requests are of one kind, its next
    rates likely lie where its last throttles had them.
    """

    def __init__(self, span_ms: int, window_ms: int) -> None:
        """``span_ms`` is as long as samples may reach back, of ``window_ms`` each."""
        self._span_ms, self._window_ms = span_ms, window_ms
        self._at_ms = np.zeros(0, np.int64)
        self._low, self._high = np.zeros(0), np.zeros(0)

    def throttles_ms(
        self,
        at_ms: Int64s,
        logged_ms: Int64s,
        bound: Floats,
        rates: RateIntervals,
        can_tell: Bools,
    ) -> tuple[Int64s, Int64s]:
        """Return the least and the most throttle of each request that the throttles before it tell.

        Those are the last SHARES_TOLD of its span, of requests that ``can_tell``. With fewer of
        them nothing is told: from 0 to a window. A request's own throttle tells nothing of itself.
        """
        n = len(at_ms)
        # Whatever part of a window the oldest sample is of.
        sizes_ms = np.array([[self._span_ms - self._window_ms], [self._span_ms]])
        open_rate = rates.rate_max - rates.rate_min
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (bound * (1.0 + logged_ms / sizes_ms) - rates.rate_min) / open_rate
        low, high = shares.min(axis=0), shares.max(axis=0)
        tells = can_tell & np.isfinite(open_rate) & (low >= 0.0) & (high <= 1.0)
        told = np.flatnonzero(tells & (logged_ms > 0) & (logged_ms < self._window_ms))
        known = len(self._at_ms)
        times_ms = np.concatenate([self._at_ms, at_ms[told]])
        lows, highs = np.append(self._low, low[told]), np.append(self._high, high[told])
        last = max(len(times_ms) - SHARES_TOLD, 0)
        self._at_ms, self._low, self._high = times_ms[last:], lows[last:], highs[last:]
        first = known + np.searchsorted(told, np.arange(n), side="left") - SHARES_TOLD
        of = np.flatnonzero(first >= 0)
        of = of[times_ms[first[of]] > at_ms[of] - self._span_ms]
        least_ms, most_ms = np.zeros(n, np.int64), np.full(n, self._window_ms)
        if len(of):
            lowest = sliding_window_view(lows, SHARES_TOLD).min(axis=1)[first[of]]
            highest = sliding_window_view(highs, SHARES_TOLD).max(axis=1)[first[of]]
            least_ms[of], most_ms[of] = self._between(of, lowest, highest, bound, rates, sizes_ms)
        return least_ms, most_ms

    def _between(
        self,
        of: Int64s,
        lowest: Floats,
        highest: Floats,
        bound: Floats,
        rates: RateIntervals,
        sizes_ms: npt.NDArray[np.int64],
    ) -> tuple[Int64s, Int64s]:
        """Return the least and the most throttle of rates at these shares of the way."""
        with np.errstate(invalid="ignore", divide="ignore"):
            throttles_ms = [
                (
                    (rates.rate_min[of] * (1.0 - share) + rates.rate_max[of] * share) / bound[of]
                    - 1.0
                )
                * sizes_ms
                for share in (lowest, highest)
            ]
        least_ms = np.nan_to_num(throttles_ms[0].min(axis=0), nan=0.0)
        most_ms = np.nan_to_num(throttles_ms[1].max(axis=0), nan=float(self._window_ms))
        within = (np.clip(ms, 0, self._window_ms) for ms in (least_ms, most_ms))
        low_ms, high_ms = (np.rint(ms).astype(np.int64) for ms in within)
        return low_ms, high_ms


@dataclass(frozen=True, slots=True)
class RequestRows:
    """Requests that the request quota counts, n of them; arrays of one length."""

    sensor: Int64s  # row of the states
    earliest_ms: Int64s  # of the record of the handler time
    latest_ms: Int64s
    line_from_ms: Int64s  # the network time is recorded just before the line, no sooner than this
    log_time_ms: Int64s
    handler_time_us: Floats
    network_time_max_us: Floats
    # False where another sensor may have got it: around a quota change, a forwarded request.
    surely_counted: Bools
    bound: Floats  # NaN: none in force
    unlogged_max: Floats  # percent of a second that missing lines may have added


def replay_requests(rows: RequestRows, states: IntervalStates) -> RateIntervals:
    """Return, per request in the order given, the rate and the throttle that the quota allows for.

    The throttle is capped at one window. ``states`` moves on; requests of a sensor that overlap
    must be in one call.

    Kafka: ``ClientRequestQuotaManager``.
    """
    n = len(rows.sensor)
    # Twice the middle, to stay whole; the line comes after its own record where both are equal.
    middle = np.concatenate([rows.earliest_ms + rows.latest_ms, 2 * rows.log_time_ms])
    order = np.lexsort((np.repeat([0, 1], n), middle, np.tile(rows.sensor, 2)))
    counted_us = np.where(rows.surely_counted, rows.handler_time_us, 0.0)
    # A logged microsecond is cut: up to one more was counted.
    most_us = np.concatenate([rows.handler_time_us + 1.0, rows.network_time_max_us])
    line_ms = rows.line_from_ms - LINE_LAG_US // 1000
    events = IntervalRows(
        sensor=np.tile(rows.sensor, 2)[order],
        earliest_ms=np.concatenate([rows.earliest_ms, line_ms])[order],
        latest_ms=np.concatenate([rows.latest_ms, rows.log_time_ms])[order],
        amount_min=np.concatenate([counted_us, np.zeros(n)])[order] * PERCENT_PER_US,
        amount_max=most_us[order] * PERCENT_PER_US,
        bound=np.tile(rows.bound, 2)[order],
        behaviour=np.repeat(np.array([RECORD, RECORD_ONLY], np.int8), n)[order],
        request=np.tile(np.arange(n), 2)[order],
        unlogged_max=np.tile(rows.unlogged_max, 2)[order],
    )
    allowed = replay_rate_intervals(events, states, throttle_max_ms=states.window_ms)
    row_of = np.argsort(order)[:n]
    return RateIntervals._make(column[row_of] for column in allowed)
