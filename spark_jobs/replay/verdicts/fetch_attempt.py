"""Whether what a throttled fetch seems to have tried to read is what the client could read.

A throttled fetch is answered with nothing, and the client asks again from the same position. So all
tries until data came read the same records and those that came in since: they never shrink, and
what was handed out in the end is the most that any of them can have been. A try that was more was
throttled for too long, one that was less than a try before it for too short.

How large a try was follows from the replayed state. Where the record times leave open which window
the broker measured (``window_doubts``), it may have been a sample longer or shorter, and have held
what was recorded around its far end or not: by so much such a try may have been more or less. So it
may by the fetches that were recorded about when it was, for they may have come before or after it.
A throttled one of these is held for the moment until it is taken back. A try's own line may have
come late, where it seems to be more than what was handed out.

A fetch ends where no batch fits into what is left of its limit: the quota's, or the one it asked
for. Which partitions come first decides how much that leaves, so near the limit tries may shrink:
with 27 kB left, the next partition's batch of 20 kB is read and one of 30 kB is not. What is left
is less than one batch, and so less than the largest answer of this client.

The last try that no answer follows is compared with none: it may be how a consumer says that it
closes, which reads nothing (KIP-227).

An answer with an error ends the tries before it: a partition of theirs is led by another broker, or
the position is no longer there, and what is read next is something else. The last of the tries may
have read nothing for that reason already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.constants import SAMPLES
from spark_jobs.quota.states import Bools, Floats, Int64s
from spark_jobs.replay.verdicts.window_doubts import WindowRule, window_doubts

# What a response has besides records: a header and some 40 bytes per partition.
RESPONSE_OVERHEAD = 1.05
RUN_MAX = 64
"""Longer runs of tries are compared in parts: the work grows with the square of it."""
BATCH_MAX_BYTES = 1_048_588
"""Kafka's default ``max.message.bytes``: a fetch may hold one batch, whatever its limit is."""
GENEROUS_BATCH_MAX_BYTES = 10 * BATCH_MAX_BYTES
"""What hardly any topic allows; the log does not say what a topic's ``max.message.bytes`` is."""


class Attempt(IntEnum):
    """What can be said of the size that a throttle time gave back."""

    NOT_THROTTLED = 0
    PLAUSIBLE = 1
    UNKNOWN = 2
    """Nothing in the log tells how much there was to read; or the state alone asks for more."""
    BY_REQUEST_QUOTA = 3
    """The request quota may have asked for the logged throttle: the size cannot be given back."""
    TOO_LARGE = 4
    """There was not so much to read: throttled for too long."""
    OVER_LIMIT = 5
    """A fetch never holds so much: throttled for too long."""
    TOO_SMALL = 6
    """Earlier tries from the same position read more: throttled for too short."""


STATE_OFF_MIN = 2
"""So many fetches throttled for less than the replayed state alone asks for, or not at all, tell
that the state is off."""

TOO_LONG = (Attempt.TOO_LARGE, Attempt.OVER_LIMIT)
ODD_ATTEMPTS = (*TOO_LONG, Attempt.TOO_SMALL)


@dataclass(frozen=True, slots=True)
class FetchRows:
    """Fetches on the consumer quota, each sensor's in order of recording; arrays of one length."""

    sensor: Int64s
    # A client's position is followed where this stays the same: connection and group assignment.
    position: Int64s
    recorded_at_ms: Int64s
    interval_ms: Int64s  # width of the admissible record times
    line_lag_max_ms: Int64s  # so much earlier it was recorded where its line is late
    amount: Floats  # recorded, or given back by the throttle time; bytes
    is_unrecorded: Bools  # throttled: the amount was taken back
    has_records: Bools  # the response held data
    has_errors: Bools  # a partition was not served
    bound: Floats  # bytes per second
    fetch_max_bytes: Floats  # NaN: not in the log
    span_ms: Int64s  # samples x window
    logged_ms: Int64s
    request_throttle_max_ms: Int64s  # what the request quota may have asked for, 0: none
    is_let_through: Bools  # answered at once, though the replayed state asks for a throttle


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What bounds a fetch besides the request, and how far the replayed state may be off."""

    # Brokers 2.5 and later cut a fetch to what all but one of the samples may hold (KAFKA-9677).
    cuts_to_quota: bool = True
    samples: int = SAMPLES
    # Brokers 3.8 and later keep a sample until its last event left the window.
    keeps_overlapping: bool = True
    batch_max_bytes: float = BATCH_MAX_BYTES
    # A sample's anchor is off by milliseconds, on either side; besides the rows' own intervals.
    state_slack_ms: int = 100


class FetchAttempts(NamedTuple):
    """What can be said of each try, and the nearest size that it can have had; arrays."""

    attempt: npt.NDArray[np.int8]  # Attempt
    amount: Floats  # bytes, the row's own where it is not accused
    answered: Floats  # bytes that the same position was given in the end, NaN: not in the log

    def take(self, rows: Int64s) -> FetchAttempts:
        """Return the tries at these indices."""
        return FetchAttempts(self.attempt[rows], self.amount[rows], self.answered[rows])


class _Sizes(NamedTuple):
    """What each try can have been by the windows it may have had; bytes."""

    least: Floats
    most: Floats
    slack: Floats  # by how much the tries of one state may be off on top, all to one side


class _Cut(NamedTuple):
    """Where the limit of a fetch may have cut the tries of one run; bytes."""

    at: float  # the limit, with what a response has besides records
    least: float  # less was not cut: one more batch had found room

    def of(self, read: Floats | float) -> Floats:
        """Return the most that another read of the same records may be, where one read so much."""
        return np.where(read >= self.least, np.maximum(read, self.at), read)


def judge_fetch_attempts(rows: FetchRows, limits: FetchLimits) -> FetchAttempts:
    """Return an :class:`Attempt` per row, and the nearest size (bytes) that it can have had.

    A NaN or zero amount of a throttled fetch is UNKNOWN: the replayed state alone asks for more,
    which is a matter of the state. One single wrong throttle does not condemn its neighbours.
    """
    slack = np.zeros(len(rows.amount))
    tried = np.flatnonzero(rows.is_unrecorded)
    state_ms = _widest(rows, tried, rows.interval_ms) + limits.state_slack_ms
    slack[tried] = rows.bound[tried] / 1000.0 * state_ms
    found = _judged(rows, _Sizes(rows.amount, rows.amount, slack), limits)
    accused = np.isin(found.attempt, ODD_ATTEMPTS)
    if not accused.any():
        return found
    sensors = np.unique(rows.sensor[accused])
    late_ms = _late_ms(rows, found.answered, accused, limits.samples)
    widened = replace(rows, interval_ms=rows.interval_ms + late_ms)
    less, more = _by_window(widened, tried, state_ms, limits, sensors)
    least, most = rows.amount.copy(), rows.amount.copy()
    least[tried] -= less
    most[tried] += more
    others = tried[np.isin(rows.sensor[tried], sensors)]
    may_be_before, may_be_after = _by_order(rows, others)
    least[others] -= may_be_before
    most[others] += may_be_after
    found = _judged(rows, _Sizes(least, most, slack), limits)
    is_below_state = rows.is_unrecorded & ~(rows.amount > 0)
    unknown = np.isin(found.attempt, ODD_ATTEMPTS) & _is_state_off(
        rows, is_below_state, rows.span_ms
    )
    # A broker that keeps less than is replayed lets others through, and throttles none too long.
    unknown |= np.isin(found.attempt, TOO_LONG) & _is_state_off(
        rows, rows.is_let_through, rows.span_ms // limits.samples
    )
    found.attempt[unknown], found.amount[unknown] = Attempt.UNKNOWN, rows.amount[unknown]
    return found


def _is_state_off(rows: FetchRows, contradicts: Bools, reach_ms: Int64s) -> Bools:
    """Return a bool per row: True where the replayed state is not the one the broker had.

    There STATE_OFF_MIN fetches within ``reach_ms`` contradict it, such as a throttle of 49 ms, or
    none, where what was kept is worth 360 ms. One may be the broker's fault.
    """
    total = np.concatenate(([0], np.cumsum(contradicts)))
    ordered = _in_order(rows)
    first = np.searchsorted(ordered, ordered - reach_ms)
    stop = np.searchsorted(ordered, ordered + reach_ms, side="right")
    return np.asarray(total[stop] - total[first] >= STATE_OFF_MIN)


def _late_ms(rows: FetchRows, answered: Floats, accused: Bools, samples: int) -> Int64s:
    """Return by how many milliseconds the line of each row came late, as its own throttle says.

    Of an ``accused`` one that was never answered nothing says it: its line came as late as it may.

    A try that seems to be more than what was handed out in the end was recorded so much earlier,
    where lines may be so late: what it began or left in the window may be another sample. So was
    one that seems to be less by nearly a whole window, for another window was measured then: 879 ms
    of the bound less are 121 ms earlier, and a window of a second more.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        late_ms = np.ceil((rows.amount - answered) / rows.bound * 1000.0)
        late_ms = np.mod(late_ms, rows.span_ms // samples)
        says = rows.is_unrecorded & (late_ms > 0) & (late_ms <= rows.line_lag_max_ms)
    late_ms = np.where(says, late_ms, 0)
    return np.where(accused & np.isnan(answered), rows.line_lag_max_ms, late_ms).astype(np.int64)


def _by_window(
    rows: FetchRows, tried: Int64s, state_ms: Int64s, limits: FetchLimits, sensors: Int64s
) -> tuple[Floats, Floats]:
    """Return the bytes by which each try of ``sensors`` may be less, and more, due to its window.

    A window is between samples - 1 and samples windows long (``Rate.windowSize``), and up to one
    more where a sample is kept until its last event left.
    """
    begins, leaves, longer, shorter = (np.zeros(len(rows.amount), np.int64) for _ in range(4))
    for sensor in sensors.tolist():
        own = np.flatnonzero(rows.sensor == sensor)
        rule = WindowRule(
            samples=limits.samples,
            window_ms=int(rows.span_ms[own[0]]) // limits.samples,
            keeps_overlapping=limits.keeps_overlapping,
        )
        begins[own], leaves[own], longer[own], shorter[own] = window_doubts(
            rows.recorded_at_ms[own], rows.interval_ms[own], rule
        )
    window_ms = rows.span_ms[tried] // limits.samples
    kept = _kept_around(rows, tried, rows.span_ms[tried], window_ms + state_ms)
    is_other = (_widest(rows, tried, begins) > 0) | (leaves[tried] > 0)
    by_kept = np.where(is_other, kept, 0.0)
    window_bytes = rows.bound[tried] / 1000.0 * window_ms
    overlapping = leaves[tried] & limits.keeps_overlapping
    less = window_bytes * (np.maximum(is_other, shorter[tried]) + overlapping) + by_kept
    more = window_bytes * (np.maximum(is_other, longer[tried]) + overlapping) + by_kept
    return less, more


def _by_order(rows: FetchRows, tried: Int64s) -> tuple[Floats, Floats]:
    """Return the bytes that may have been kept before each try, and those that may not yet.

    The first were kept after it as replayed, the second before it. A throttled fetch on another
    connection may have been recorded and not yet taken back (``KafkaApis``: handleFetchRequest).
    Those of its own connection came in the order of their lines.
    """
    ordered, amount = _in_order(rows), np.nan_to_num(rows.amount)
    kept = np.where(rows.is_unrecorded, 0.0, amount)
    held = np.where(rows.is_unrecorded, np.maximum(amount, 0.0), 0.0)
    earliest_ms = ordered - rows.interval_ms - rows.line_lag_max_ms
    latest_ms = ordered + rows.interval_ms
    reach_ms = int((latest_ms - earliest_ms).max())
    first = np.searchsorted(ordered, earliest_ms[tried] - reach_ms).tolist()
    stop = np.searchsorted(ordered, latest_ms[tried] + reach_ms, side="right").tolist()
    more, less = np.zeros(len(tried)), np.zeros(len(tried))
    for k, at in enumerate(tried.tolist()):
        before, after = slice(first[k], at), slice(at + 1, stop[k])
        is_early = earliest_ms[after] <= latest_ms[at]
        is_late = latest_ms[before] >= earliest_ms[at]
        is_early &= rows.position[after] != rows.position[at]
        is_late &= rows.position[before] != rows.position[at]
        more[k] = (kept + held)[after][is_early].sum() + held[before][is_late].sum()
        less[k] = kept[before][is_late].sum()
    return more, less


def _judged(rows: FetchRows, sizes: _Sizes, limits: FetchLimits) -> FetchAttempts:
    cut_at = _cut_at(rows, limits)
    out_of_line, nearest, answered, largest = _evidence(rows, sizes, cut_at)
    is_answered = ~np.isnan(answered)
    amount = rows.amount
    limit = np.maximum(cut_at, limits.batch_max_bytes) * RESPONSE_OVERHEAD
    with np.errstate(invalid="ignore"):
        by_request = (rows.request_throttle_max_ms > 0) & (
            rows.logged_ms <= rows.request_throttle_max_ms
        )
        result = np.select(
            [
                ~rows.is_unrecorded,
                by_request,
                ~(amount > 0),
                sizes.least > limit + sizes.slack,
                out_of_line == Attempt.TOO_LARGE,
                out_of_line == Attempt.TOO_SMALL,
                is_answered | (sizes.least <= largest + sizes.slack),
            ],
            [
                Attempt.NOT_THROTTLED,
                Attempt.BY_REQUEST_QUOTA,
                Attempt.UNKNOWN,
                Attempt.OVER_LIMIT,
                Attempt.TOO_LARGE,
                Attempt.TOO_SMALL,
                Attempt.PLAUSIBLE,
            ],
            Attempt.UNKNOWN,
        ).astype(np.int8)
    allowed = np.where(result == Attempt.OVER_LIMIT, limit, amount)
    is_odd = (result == Attempt.TOO_LARGE) | (result == Attempt.TOO_SMALL)
    return FetchAttempts(result, np.where(is_odd, nearest, allowed), answered)


def _cut_at(rows: FetchRows, limits: FetchLimits) -> Floats:
    """Return the bytes of records that a fetch ends at, unless its first batch is larger."""
    allowed = np.where(np.isnan(rows.fetch_max_bytes), np.inf, rows.fetch_max_bytes)
    if limits.cuts_to_quota:
        window_s = rows.span_ms / limits.samples / 1000.0
        allowed = np.minimum(allowed, rows.bound * (limits.samples - 1) * window_s)
    return allowed


def _widest(rows: FetchRows, tried: Int64s, values: Int64s) -> Int64s:
    """Return the largest of ``values`` in each try's window: any of its rows may be an anchor."""
    if not len(tried):
        return np.zeros(0, np.int64)
    ordered = _in_order(rows)
    first = np.searchsorted(ordered, ordered[tried] - 2 * rows.span_ms[tried], side="left")
    first = np.minimum(first, tried)
    padded = np.append(values, 0)
    return np.asarray(np.maximum.reduceat(padded, np.column_stack([first, tried + 1]).ravel())[::2])


def _kept_around(rows: FetchRows, tried: Int64s, before_ms: Int64s, within_ms: Int64s) -> Floats:
    """Return, per try, the bytes its sensor kept ``before_ms`` before, to within ``within_ms``."""
    ordered = _in_order(rows)
    kept = np.where(rows.is_unrecorded, 0.0, np.nan_to_num(rows.amount))
    total = np.concatenate(([0.0], np.cumsum(kept)))
    moment = ordered[tried] - before_ms
    first = np.searchsorted(ordered, moment - within_ms, side="left")
    after = np.searchsorted(ordered, moment + within_ms, side="right")
    return np.asarray(total[after] - total[first])


def _in_order(rows: FetchRows) -> Int64s:
    """Return times that only grow, those of a sensor far from those of every other."""
    step = int(np.ptp(rows.recorded_at_ms)) + int(rows.span_ms.max()) * 3 + 1
    key = rows.sensor * step + rows.recorded_at_ms - rows.recorded_at_ms.min()
    return np.asarray(np.maximum.accumulate(key))


def _evidence(
    rows: FetchRows, sizes: _Sizes, cut_at: Floats
) -> tuple[npt.NDArray[np.int8], Floats, Floats, Floats]:
    """Return, per row, what its run says of it and the nearest size that it would not blame.

    The third array is what it was given in the end (NaN: nothing),
    the fourth is the client's largest answer (bytes).
    """
    n = len(rows.amount)
    out_of_line, answered = np.zeros(n, np.int8), np.full(n, np.nan)
    nearest = rows.amount.copy()
    largest = _largest_answer(rows)
    for run, answer in _runs(rows, sizes):
        tries = np.array(run)
        given = np.inf if answer is None else float(rows.amount[answer])
        if answer is not None:
            answered[tries] = given
        for part in range(0, len(tries), RUN_MAX):
            of_part = tries[part : part + RUN_MAX]
            limit, answer_max = cut_at[of_part].max(), largest[of_part[0]]
            out_of_line[of_part], nearest[of_part] = _out_of_line(
                rows.amount[of_part],
                _Sizes(*(each[of_part] for each in sizes)),
                given,
                _Cut(limit * RESPONSE_OVERHEAD, limit - answer_max),
            )
    return out_of_line, nearest, answered, largest


def _largest_answer(rows: FetchRows) -> Floats:
    """Return, per row, the largest answer with records (bytes) of its position, 0: none."""
    with_data = ~rows.is_unrecorded & rows.has_records
    positions, position = np.unique(rows.position, return_inverse=True)
    largest_of = np.zeros(len(positions))
    np.maximum.at(largest_of, position[with_data], rows.amount[with_data])
    return largest_of[position]


def _out_of_line(
    amounts: Floats, sizes: _Sizes, given: float, cut: _Cut
) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return TOO_LARGE, TOO_SMALL or 0 per try of one run, and the nearest size in line.

    Tries never shrink. The largest subsets of them that do not, and end below what was given, are
    the likeliest truth: out of line is a try that is in none of them. Where two contradict each
    other and no third one speaks, each is in one, and neither is accused.
    """
    least, most, slack = sizes
    fits = least <= cut.of(given + slack)
    n = len(amounts)
    before, after = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for k in range(n):
        read = cut.of(most[k] + np.maximum(slack[:k], slack[k]))
        grows = fits[:k] & (least[:k] <= read)
        before[k] = before[:k][grows].max(initial=0) + 1
    for k in range(n - 1, -1, -1):
        rest = slice(k + 1, n)
        read = cut.of(most[rest] + np.maximum(slack[rest], slack[k]))
        grows = fits[rest] & (least[k] <= read)
        after[k] = after[rest][grows].max(initial=0) + 1
    together = np.where(fits, before + after - 1, 0)
    is_in_line = fits & (together == together.max(initial=0))
    found, nearest = np.zeros(n, np.int8), amounts.copy()
    for odd in np.flatnonzero(~is_in_line):
        later = amounts[odd + 1 :][is_in_line[odd + 1 :]].min(initial=given)
        is_larger = least[odd] > cut.of(later + slack[odd])
        found[odd] = Attempt.TOO_LARGE if is_larger else Attempt.TOO_SMALL
        before_it = amounts[:odd][is_in_line[:odd]].max(initial=0.0)
        nearest[odd] = later if is_larger else before_it
    return found, nearest


def _is_within(sizes: _Sizes, row: int, amount: float) -> bool:
    return bool(sizes.least[row] <= amount + sizes.slack[row])


def _runs(rows: FetchRows, sizes: _Sizes) -> Iterator[tuple[list[int], int | None]]:
    """Yield the rows of tries from one position, and the row that handed out data in the end.

    A fetch is cut to what the quota lets through at most, so tries under another quota are others.
    The last ones before an answer with an error, that read no more than it, had the error as well.
    """
    open_runs: dict[int, list[int]] = {}
    for i in np.flatnonzero(rows.is_unrecorded | rows.has_records | rows.has_errors).tolist():
        position = int(rows.position[i])
        if position in open_runs and rows.bound[open_runs[position][-1]] != rows.bound[i]:
            yield open_runs.pop(position), None
        if rows.is_unrecorded[i]:
            open_runs.setdefault(position, []).append(i)
        elif position in open_runs:
            run, has_error = open_runs.pop(position), rows.has_errors[i]
            while run and has_error and _is_within(sizes, run[-1], float(rows.amount[i])):
                run.pop()
            if run:
                yield run, None if has_error else i
    for run in open_runs.values():
        # A consumer that closes ends its session by a fetch of nothing (``FetchMetadata``:
        # FINAL_EPOCH), which looks as the tries before it but for its size.
        yield run[:-1], None
