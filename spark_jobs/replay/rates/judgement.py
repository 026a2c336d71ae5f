"""What the throttles of placed requests say of them, with the history that explains most."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.quota.constants import CHANGE_LATEST_MS, LATE_LINE_MS, PROVES_MS
from spark_jobs.quota.states import Bools, Int64s, SensorStates
from spark_jobs.replay.alignment.events import Events, Window
from spark_jobs.replay.alignment.explanation import EXPLAINED, NEAR, UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.possible_throttles import impossible, possible_throttles_ms
from spark_jobs.replay.alignment.proof import proven
from spark_jobs.replay.alignment.sample_beginnings import known_beginnings
from spark_jobs.replay.rates.history import Stretch, samples_began_ms
from spark_jobs.replay.rates.other_histories import OtherHistory, explained_otherwise
from spark_jobs.replay.rates.other_times import (
    came_before_others,
    from_if_late_ms,
    is_thrown,
    replayed,
    times_beside_samples,
)
from spark_jobs.replay.rates.quotas_beside import is_neither
from spark_jobs.replay.rates.stream_rows import SensorRows

ALIKE_MS = 2 * PROVES_MS
"""Two histories that are each replayed to PROVES_MS differ by no more."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Placed requests, and what their throttles say of them; arrays in the order of ``placed``."""

    placed: Placed
    replayed_ms: Int64s
    is_proven: Bools
    is_impossible: Bools
    is_neither: Bools
    other: OtherHistory

    @property
    def is_moved(self) -> bool:
        """Return True where the other history has other times."""
        return not np.array_equal(self.other.at_ms, self.placed.recorded_at_ms)

    def after(self, before: Judgement) -> Judgement:
        """Return this judgement, of requests that the other history of ``before`` moved, and that.

        It may prove a state that was in doubt, but only of what both histories replay alike, such
        as 51 ms and 53 ms: of 398 ms and 609 ms, the times that were moved may be off by a little.
        """
        row = before.other.row
        is_alike = np.abs(self.replayed_ms - before.replayed_ms[row]) <= ALIKE_MS
        is_explained = self.other.is_explained | before.other.is_explained[row]
        other = self.other._replace(is_explained=is_explained)
        return replace(self, is_proven=self.is_proven & is_alike, other=other)

    def holds(self, place: Int64s, now_ms: Int64s) -> tuple[Bools, Bools]:
        """Return True for each row at ``place`` that is proven, and for each explained otherwise.

        They are now replayed as ``now_ms`` at the other history's times. What is proven is so of
        the throttles that were judged; one that is replayed otherwise now may be right, unless no
        times of the requests give it.
        """
        is_same = np.abs(now_ms - self.replayed_ms[place]) <= PROVES_MS
        is_explained = self.other.is_explained[place]
        is_proven = self.is_proven[place] & ~is_explained & is_same
        return is_proven, is_explained | ~(is_same | self.is_impossible[place])

    def moved(self, states: SensorStates, window: Window) -> Placed:
        """Return the requests as the other history has them; ``states`` are those before."""
        order, status = (
            column[self.other.row] for column in (self.placed.order, self.placed.status)
        )
        began_ms, _ = samples_began_ms(self.other.at_ms, states, window.window_ms)
        starts_sample = np.diff(began_ms, prepend=-1) > 0
        starts_sample &= began_ms == self.other.at_ms
        return Placed(order, self.other.at_ms, status, starts_sample)


def judge_placed(
    rows: SensorRows,
    start: int,
    placed: Placed,
    events: Events,
    states: SensorStates,
    window: Window,
    fixed: int,
) -> Judgement:
    """Return the judgement of the placed requests, with the history that explains most of them.

    Such as: 40 of 50 are proven, and one of them was recorded 3 ms earlier. The first ``fixed``
    requests of the other history are those that were placed first, for the rows that follow go
    on after them.
    """
    trial = states.take(np.array([0]))
    replay = replayed(rows, start + placed.order, placed.recorded_at_ms, trial)
    longer_ms = rows.logged_ms[start + placed.order] - replay.throttle_time_ms
    off_ms = np.abs(longer_ms)
    if (off_ms > PROVES_MS).any():
        events = _with_lags_of_before(events, placed, longer_ms)
    reach_ms = 2 * window.expire_age_ms
    neither = is_neither(rows, start + placed.order, placed.recorded_at_ms, replay, window)
    is_proven = proven(placed, events, replay, window, reach_ms, neither)

    def may_be_late(row: int) -> bool:
        """Return True if the row is thrown as logged, were its line as late as others are."""
        from_ms = from_if_late_ms(rows, start, row, placed, events)
        until_ms = int(events.latest_ms[placed.order[row]]) + PROVES_MS
        times = times_beside_samples(row, placed, events, (from_ms, until_ms), states, window)
        thrown_ms = replay.throttle_time_ms
        return is_thrown(
            rows, start, row, placed, events, states, thrown_ms, times
        ) or came_before_others(rows, start, row, placed, events, states, from_ms)

    for row in np.flatnonzero(is_proven & (placed.status == UNEXPLAINED)).tolist():
        is_proven[row] = not may_be_late(row)
    is_off = (off_ms > PROVES_MS) & np.isin(placed.status, (NEAR, UNEXPLAINED))
    is_accused = is_off & (placed.status == UNEXPLAINED)
    is_impossible = np.zeros(len(is_accused), bool)
    # What is missing may have begun a sample, and so each that follows.
    is_whole = not rows.lost_requests[start : start + len(placed.order)].any()
    if is_whole and is_accused.any():
        known = known_beginnings(placed, events, replay, window)
        is_new = start == 0 and not states.count[0]
        # Nothing that it may have been sent before the log began still counts.
        is_new &= int(rows.known_for_ms[0]) >= window.expire_age_ms + window.window_ms
        is_sure = rows.change_distance_ms[start + placed.order] >= CHANGE_LATEST_MS
        possible = possible_throttles_ms(
            placed, events, window, known, is_accused, is_sure, held_nothing=is_new
        )
        is_impossible = impossible(placed, events, *possible)
    stretch = Stretch.of(placed, events, window, rows.may_precede[start + placed.order])

    def explained(is_proven: Bools) -> OtherHistory:
        # No other times inside of what their lines admit explain those that are impossible.
        is_asked = is_accused & ~is_impossible & (is_proven | (off_ms > window.window_ms))
        asked, off = np.flatnonzero(is_asked), np.flatnonzero(is_off)
        return explained_otherwise(asked, stretch, states, window, off)

    other = explained(is_proven)
    # Throttles that are wrong for sure tell nothing of the state: those beside them may be, too.
    is_wrong = is_accused & (is_impossible | (is_proven & ~other.is_explained))
    while is_wrong.any():
        more = proven(placed, events, replay, window, reach_ms, neither, is_wrong)
        more &= is_accused & ~is_proven & ~is_impossible
        for row in np.flatnonzero(more).tolist():
            more[row] = not may_be_late(row)
        if not more.any():
            break
        is_proven |= more
        other = explained(is_proven)
        is_wrong |= more & ~other.is_explained
    if set(other.row[:fixed].tolist()) != set(range(fixed)):
        other = OtherHistory(np.arange(len(is_off)), stretch.at_ms, other.is_explained)
    # The replay is of one time out of those that the search left: it may be off where that is not.
    is_told = (off_ms > PROVES_MS) & (placed.status == EXPLAINED)
    other = other._replace(is_explained=other.is_explained | is_told)
    return Judgement(placed, replay.throttle_time_ms, is_proven, is_impossible, neither, other)


def _with_lags_of_before(events: Events, placed: Placed, longer_ms: Int64s) -> Events:
    """Return ``events`` whose lines may be later by as much as those of the throttles before were.

    A connection is read again when its throttle is over (``LineLags``), and that was over sooner
    where its own line was late: one that is recorded 7 ms before its line, or throttled for 7 ms
    longer than it is replayed. ``longer_ms`` is in the order of ``placed``.
    """
    late_ms = np.zeros(len(placed.order), np.int64)
    early_ms = events.earliest_ms[placed.order] - placed.recorded_at_ms
    longer_ms = np.where(longer_ms <= LATE_LINE_MS, longer_ms, 0)
    late_ms[placed.order] = np.maximum(np.maximum(early_ms, longer_ms), 0)
    late_ms[events.logged_throttle_time_ms == 0] = 0
    connection = events.connection
    turn = np.argsort(connection, kind="stable")
    is_next = np.append(False, connection[turn[1:]] == connection[turn[:-1]])
    lag_max_ms = events.line_lag_max_ms.copy()
    lag_max_ms[turn[is_next]] += late_ms[turn[:-1][is_next[1:]]]
    return events._replace(line_lag_max_ms=lag_max_ms)
