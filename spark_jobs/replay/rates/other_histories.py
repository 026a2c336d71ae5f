"""Whether one or two requests, recorded at other times, explain what a broker is accused of.

A request that begins a sample, or belongs to another one, moves what all that follow are held
against, for two rate windows; its own throttle may say nothing of it. Where the log leaves open
that it did, a throttle that such a history explains is no proof. The history has to leave less
unexplained than the one that was found, of all throttles that hang on the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np

from spark_jobs.quota.states import Bools, Floats, Int64s, SensorStates
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.window import PROVES_MS
from spark_jobs.replay.rates.other_times import replayed_rates

FAILURES_MAX = 8
"""A broker that so many decisions of a stretch accuse for good is not tried any further."""
MOVES_MAX = 2
"""So many requests may have been recorded at another time, for each other's samples' sake."""
CARRIED_MAX = 4
"""So many histories with one move are tried with another."""
PASSED_MAX = 16
"""So many requests, on each side, that may have come before or after an accused one are tried."""
WORK_MAX = 1_000_000
"""So many requests are replayed for one accused one and move: the nearest histories are tried."""
_LATE_COST = 0.5
"""What a throttle costs that is explained only if its line is late, too; an unexplained one: 1."""
_HALF_MS = 0.5


@dataclass(frozen=True, slots=True)
class _Stretch:
    """One sensor's requests in the order of their recording; arrays of one length."""

    at_ms: Int64s
    earliest_ms: Int64s
    latest_ms: Int64s
    line_lag_max_ms: Int64s
    amount: Floats
    bound: Floats
    logged_ms: Int64s
    is_exact: Bools

    @classmethod
    def of(cls, placed: Placed, events: Events) -> _Stretch:
        """Return the requests as they were placed."""
        order = placed.order
        return cls(
            at_ms=placed.recorded_at_ms,
            earliest_ms=events.earliest_ms[order],
            latest_ms=events.latest_ms[order],
            line_lag_max_ms=events.line_lag_max_ms[order],
            amount=events.amount[order],
            bound=events.bound[order],
            logged_ms=events.logged_throttle_time_ms[order],
            is_exact=events.evidence[order] == EXACT,
        )

    def part(self, first: int, stop: int) -> _Stretch:
        """Return the requests from ``first`` to before ``stop``."""
        return _Stretch(*(getattr(self, each.name)[first:stop] for each in fields(self)))

    def moved(self, order: Int64s, place: int, at_ms: int) -> _Stretch:
        """Return the requests in another order, the one at ``place`` at another time."""
        other = _Stretch(*(getattr(self, each.name)[order] for each in fields(self)))
        other.at_ms[place] = at_ms
        return other

    def samples_began_ms(self, begun: SensorStates, window_ms: int) -> tuple[Int64s, Int64s]:
        """Return when the sample of each request began, and the one before it.

        The first requests go on with the current sample of ``begun`` (``SampledStat.record``).
        """
        times = self.at_ms.tolist()
        began_ms = int(begun.start_ms[0, begun.index[0]]) if begun.count[0] else times[0]
        before_ms, own, before = began_ms, [], []
        for at_ms in times:
            if at_ms - began_ms >= window_ms:
                before_ms, began_ms = began_ms, at_ms
            own.append(began_ms)
            before.append(before_ms)
        return np.array(own), np.array(before)


def explained_otherwise(
    accused: Int64s, placed: Placed, events: Events, states: SensorStates, window: Window
) -> Bools:
    """Return a bool per row of ``placed``: True where another history explains an accused one.

    ``accused`` are rows of ``placed`` whose throttles are not replayed; ``states`` (one sensor's)
    are those before them. A history that explains one of them speaks for all that it explains.
    """
    found = np.zeros(len(placed.order), bool)
    stretch = _Stretch.of(placed, events)
    failures = 0
    for row in accused.tolist():
        if found[row] or failures == FAILURES_MAX:
            continue
        explained = _explained_by_one(row, stretch, states, window)
        failures += explained is None
        if explained is not None:
            found[explained] = True
    return found


def _explained_by_one(
    row: int, stretch: _Stretch, states: SensorStates, window: Window
) -> Int64s | None:
    """Return the rows that a history explains besides ``row``, which is among them; None: none."""
    at_ms = stretch.at_ms
    reach_ms = 2 * window.expire_age_ms + 2 * window.window_ms
    first = int(np.searchsorted(at_ms, at_ms[row] - reach_ms))
    stop = int(np.searchsorted(at_ms, at_ms[row] + window.expire_age_ms, side="right"))
    begun = states.take(np.array([0]))
    _due_ms(stretch.part(0, first), begun)
    found = _History.of(stretch.part(first, max(stop, row + 1)), begun)
    place, histories = row - first, [found]
    for _ in range(MOVES_MAX):
        tries = WORK_MAX // (len(found.row) * max(len(histories), 1)) + 1
        others = [
            other
            for history in histories
            for other in islice(history.others(place, begun, window.window_ms), tries)
            if other.cost_of(place) < 1
        ]
        histories = sorted(others, key=lambda other: other.total_for(place))[:CARRIED_MAX]
        if histories and histories[0].total_for(place) < found.total:
            return np.asarray(first + np.flatnonzero(found.is_worse_than(histories[0])))
    return None


@dataclass(frozen=True, slots=True)
class _History:
    """Requests in the order of one history, and what each of them leaves unexplained."""

    stretch: _Stretch
    row: Int64s  # the place of each in the history that was found
    due_ms: Floats
    cost: Floats

    @classmethod
    def of(cls, stretch: _Stretch, begun: SensorStates, row: Int64s | None = None) -> _History:
        """Return the history of requests after the samples of ``begun``, which stay."""
        due_ms = _due_ms(stretch, begun.take(np.array([0])))
        rows = np.arange(len(due_ms)) if row is None else row
        return cls(stretch, rows, due_ms, _costs(stretch, due_ms))

    @property
    def total(self) -> float:
        """Return the cost of all requests, such as 1.5: one unexplained, one that is late."""
        return float(self.cost.sum())

    def cost_of(self, row: int) -> float:
        """Return the cost of one request: 0, _LATE_COST or 1."""
        return float(self.cost[np.flatnonzero(self.row == row)[0]])

    def total_for(self, accused: int) -> float:
        """Return the cost of all requests, that of the accused one twice, such as 2.0."""
        return self.total + self.cost_of(accused)

    def is_worse_than(self, other: _History) -> Bools:
        """Return, per request, True where ``other`` explains one that this one does not."""
        is_explained = np.zeros(len(self.row), bool)
        is_explained[other.row] = other.cost < 1
        return np.asarray((self.cost == 1) & is_explained[self.row])

    def others(self, accused: int, begun: SensorStates, window_ms: int) -> Iterator[_History]:
        """Yield the histories in which one request was recorded at another time, nearest first.

        It begins a sample, is of another one, or passes the accused one. ``accused`` names a
        request as ``row`` does.
        """
        place = int(np.flatnonzero(self.row == accused)[0])
        off_ms = round(float(self.stretch.logged_ms[place] - self.due_ms[place]))
        began = self.stretch.samples_began_ms(begun, window_ms)
        own_ms = self.stretch.at_ms
        moves = _moves(self.stretch, began, place, off_ms, window_ms)
        for k, to, at_ms in sorted(moves, key=lambda move: abs(move[2] - own_ms[move[0]])):
            order = np.insert(np.delete(np.arange(len(self.row)), k), to, k)
            yield _History.of(self.stretch.moved(order, to, at_ms), begun, self.row[order])


def _moves(
    part: _Stretch,
    began: tuple[Int64s, Int64s],
    accused: int,
    off_ms: int,
    window_ms: int,
) -> Iterator[tuple[int, int, int]]:
    """Yield a row, its new place and its new time: of all that change a sample, or pass another.

    Past the row ``accused`` goes what may have come before it, or after it.
    ``off_ms`` is by how much longer the ``accused`` one was throttled than replayed: the start of a
    sample is moved by as much, or by what is left of it over whole samples, for of a window that is
    not full only that counts (``Rate.windowSize``).
    """
    at_ms, (began_ms, before_began_ms) = part.at_ms, began
    from_ms, until_ms = part.earliest_ms - part.line_lag_max_ms, part.latest_ms
    shift_ms = (off_ms, off_ms % window_ms - window_ms, off_ms % window_ms)
    may_leave = from_ms < began_ms
    may_begin = until_ms >= began_ms + window_ms
    is_first = at_ms == began_ms
    for k in np.flatnonzero((may_leave | may_begin | is_first)[: accused + 1])[::-1].tolist():
        own_ms, start_ms, low_ms, high_ms = (
            int(column[k]) for column in (at_ms, began_ms, from_ms, until_ms)
        )
        begins_ms = int(before_began_ms[k]) + window_ms
        times = {low_ms, high_ms, start_ms - 1, begins_ms - 1, begins_ms}
        times |= {start_ms + window_ms - 1, start_ms + window_ms}
        times |= {own_ms + each for each in shift_ms} if is_first[k] else set()
        for moved_ms in sorted(times - {own_ms}):
            is_same = start_ms <= moved_ms < start_ms + window_ms and not is_first[k]
            if low_ms <= moved_ms <= high_ms and not is_same:
                place = int(np.searchsorted(at_ms, moved_ms, side="right"))
                yield k, place - (place > k), moved_ms
    # Were its own line late, it would be due more: that is asked elsewhere.
    after = np.flatnonzero(until_ms[:accused] + PROVES_MS >= part.earliest_ms[accused])
    yield from ((k, accused, int(until_ms[k])) for k in after[-PASSED_MAX:].tolist())
    before = accused + 1 + np.flatnonzero(from_ms[accused + 1 :] <= at_ms[accused])
    for k in before[:PASSED_MAX].tolist():
        yield k, accused, min(int(until_ms[k]), int(at_ms[accused]))


def _due_ms(stretch: _Stretch, states: SensorStates) -> Floats:
    """Return the throttle due to each request (ms), below 0 where there is room; ``states`` go on.

    NaN where there is no quota.
    """
    replay = replayed_rates(stretch.at_ms, stretch.amount, stretch.bound, stretch.logged_ms, states)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((replay.rate / stretch.bound - 1.0) * replay.window_size_ms)


def _costs(stretch: _Stretch, due_ms: Floats) -> Floats:
    """Return 0 for each request that was throttled as due at one of its times, else more."""
    # A millisecond earlier it is due a millisecond more.
    less_ms = np.maximum(stretch.latest_ms - stretch.at_ms, 0) + PROVES_MS
    more_ms = np.maximum(stretch.at_ms - stretch.earliest_ms, 0) + PROVES_MS
    off_ms = stretch.logged_ms - due_ms
    is_throttled = stretch.logged_ms > 0
    with np.errstate(invalid="ignore"):
        is_at_least = np.isnan(due_ms) | (off_ms >= -less_ms - _HALF_MS)
        is_open = ~is_throttled | ~stretch.is_exact | np.isnan(due_ms)
        is_at_most = is_open | (off_ms <= more_ms + _HALF_MS)
        is_late = is_open | (off_ms <= more_ms + stretch.line_lag_max_ms)
    late = np.where(is_at_least & is_late, _LATE_COST, 1.0)
    return np.where(is_at_least & is_at_most, 0.0, late)
