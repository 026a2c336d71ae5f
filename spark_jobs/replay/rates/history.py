"""One sensor's requests in a history: when each was recorded, and what that leaves unexplained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.states import Bools, Floats, Int64s, SensorStates
from spark_jobs.replay.alignment.events import EXACT, Events, Window
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.rates.other_times import replayed_rates

PASSED_MAX = 16
"""So many requests, on each side, that may have come before or after an accused one are tried."""
_LATE_COST = 0.5
"""What a throttle costs that is explained only if its line is late, too; an unexplained one: 1."""
_HALF_MS = 0.5


@dataclass(frozen=True, slots=True)
class Stretch:
    """One sensor's requests in the order of their recording; arrays of one length."""

    at_ms: Int64s
    earliest_ms: Int64s
    latest_ms: Int64s
    line_lag_max_ms: Int64s
    amount: Floats
    bound: Floats
    logged_ms: Int64s
    is_exact: Bools  # False: it may have been throttled for longer than due
    connection: Int64s  # a number each
    is_unrecorded: Bools  # its amount was taken back at once
    may_be_less_ms: Floats  # so much shorter its throttle may be: ``amount`` is the most it was
    may_precede: Bools  # recorded before its client's amounts went to the sensor
    is_elsewhere: Bools  # it was: another sensor counted it, or none

    @classmethod
    def of(cls, placed: Placed, events: Events, window: Window, may_precede: Bools) -> Stretch:
        """Return produces as they were placed.

        A throttle of more than a window is no request quota's (``ClientRequestQuotaManager``).
        """
        order = placed.order
        logged_ms = events.logged_throttle_time_ms[order]
        return cls(
            at_ms=placed.recorded_at_ms,
            earliest_ms=events.earliest_ms[order],
            latest_ms=events.latest_ms[order],
            line_lag_max_ms=events.line_lag_max_ms[order],
            amount=events.amount[order],
            bound=events.bound[order],
            logged_ms=logged_ms,
            is_exact=(events.evidence[order] == EXACT) | (logged_ms > window.window_ms),
            connection=events.connection[order],
            is_unrecorded=np.zeros(len(order), bool),
            may_be_less_ms=np.zeros(len(order)),
            may_precede=may_precede,
            is_elsewhere=np.zeros(len(order), bool),
        )

    def part(self, first: int, stop: int) -> Stretch:
        """Return the requests from ``first`` to before ``stop``."""
        return Stretch(*(getattr(self, each.name)[first:stop] for each in fields(self)))

    def with_part(self, first: int, part: Stretch) -> Stretch:
        """Return the requests with those from ``first`` on replaced by ``part``."""
        stop = first + len(part.at_ms)
        columns = ((getattr(self, each.name), getattr(part, each.name)) for each in fields(self))
        return Stretch(*(np.concatenate([own[:first], new, own[stop:]]) for own, new in columns))

    def moved(self, order: Int64s, place: int | list[int], at_ms: int | Int64s) -> Stretch:
        """Return the requests in another order, one or more at ``place`` at other times."""
        other = Stretch(*(getattr(self, each.name)[order] for each in fields(self)))
        other.at_ms[place] = at_ms
        return other

    def passes_own_connection(self, place: int, to: int) -> bool:
        """Return True if another request of its connection is between two places of a request.

        A broker reads the next one when it has sent the answer to the one before
        (``SocketServer.Processor``), so they are recorded in the order of their lines.
        """
        passed = self.connection[min(place, to) : max(place, to) + 1]
        return int((passed == self.connection[place]).sum()) > 1


@dataclass(frozen=True, slots=True)
class History:
    """Requests in the order of one history, and what each of them leaves unexplained."""

    stretch: Stretch
    row: Int64s  # the place of each in the history that was found
    due_ms: Floats
    cost: Floats

    @classmethod
    def of(cls, stretch: Stretch, begun: SensorStates, row: Int64s | None = None) -> History:
        """Return the history of requests after the samples of ``begun``, which stay."""
        due_ms = due_ms_of(stretch, begun.take(np.array([0])))
        rows = np.arange(len(due_ms)) if row is None else row
        return cls(stretch, rows, due_ms, _costs(stretch, due_ms))

    @property
    def total(self) -> float:
        """Return the cost of all requests, such as 1.5: one unexplained, one that is late."""
        return float(self.cost.sum())

    def cost_of(self, row: int) -> float:
        """Return the cost of one request: 0, _LATE_COST or 1."""
        return float(self.cost[np.flatnonzero(self.row == row)[0]])

    def off_ms(self, row: int) -> float:
        """Return by how much the throttle of one request is off, such as 20.5."""
        place = np.flatnonzero(self.row == row)[0]
        return float(abs(self.stretch.logged_ms[place] - self.due_ms[place]))

    def total_for(self, accused: int) -> float:
        """Return the cost of all requests, that of the accused one twice, such as 2.0."""
        return self.total + self.cost_of(accused)

    def is_better_than(self, found: History, accused: int) -> bool:
        """Return True if this history leaves less of all requests unexplained than ``found``.

        That the line of the ``accused`` one is late counts twice, but where requests came in
        another order.
        """
        total = self.total_for(accused) if np.array_equal(self.row, found.row) else self.total
        return total < found.total

    def is_worse_than(self, other: History) -> Bools:
        """Return, per request, True where ``other`` explains one that this one does not."""
        return np.asarray(self.is_unlike(other) & (self.cost == 1))

    def is_unlike(self, other: History) -> Bools:
        """Return, per request, True where only one of this history and ``other`` explains it.

        This history is in the order of the one that was found.
        """
        is_explained = np.zeros(len(self.row), bool)
        is_explained[other.row] = other.cost < 1
        return np.asarray((self.cost < 1) != is_explained[self.row])

    def others(
        self, accused: int, begun: SensorStates, window: Window, *, itself: bool
    ) -> Iterator[History]:
        """Yield the histories in which one request was recorded at another time, nearest first.

        It begins a sample, is of another one, finds one that has left, or passes the accused one;
        or the first ones were recorded on another sensor. ``accused`` names a request as ``row``
        does.
        """
        place = int(np.flatnonzero(self.row == accused)[0])
        yield from self.preceded(place, begun)
        off_ms = round(float(self.stretch.logged_ms[place] - self.due_ms[place]))
        own_ms = self.stretch.at_ms
        counted = np.flatnonzero(~self.stretch.is_elsewhere)
        began = np.zeros((2, len(own_ms)), np.int64)
        began[:, counted] = samples_began_ms(own_ms[counted], begun, window.window_ms)
        left_ms = _samples_leave_ms(own_ms[counted], began[0, counted], window)
        moves = _moves(self.stretch, began, left_ms, place, off_ms, window, itself=itself)
        for k, to, at_ms in sorted(moves, key=lambda move: abs(move[2] - own_ms[move[0]])):
            if self.stretch.passes_own_connection(k, to):
                continue
            yield self.with_move(k, to, at_ms, begun)

    def preceded(self, place: int, begun: SensorStates) -> Iterator[History]:
        """Yield those in which the first of what may precede the sensor was recorded elsewhere.

        One, two and more of those before ``place``.
        """
        may_precede = self.stretch.may_precede & ~self.stretch.is_elsewhere
        for k in np.flatnonzero(may_precede[:place])[:PASSED_MAX].tolist():
            is_elsewhere = self.stretch.is_elsewhere.copy()
            is_elsewhere[: k + 1] |= may_precede[: k + 1]
            yield History.of(replace(self.stretch, is_elsewhere=is_elsewhere), begun, self.row)

    def exchanged(self, place: int, begun: SensorStates) -> Iterator[History]:
        """Yield those in which the request at ``place`` and another stand in each other's place.

        Each is recorded as near to the other's time as its line admits.
        """
        part = self.stretch
        for k in _exchanging(part, place):
            both, exchanged = [place, k], [k, place]
            order = np.arange(len(self.row))
            order[both] = exchanged
            from_ms = part.earliest_ms[exchanged] - part.line_lag_max_ms[exchanged]
            at_ms = np.clip(part.at_ms[both], from_ms, part.latest_ms[exchanged])
            yield History.of(part.moved(order, both, at_ms), begun, self.row[order])

    def with_move(self, k: int, to: int, at_ms: int, begun: SensorStates) -> History:
        """Return the history in which the request at ``k`` is at place ``to``, at another time."""
        order = np.insert(np.delete(np.arange(len(self.row)), k), to, k)
        return History.of(self.stretch.moved(order, to, at_ms), begun, self.row[order])


def samples_began_ms(
    recorded_at_ms: Int64s, begun: SensorStates, window_ms: int
) -> tuple[Int64s, Int64s]:
    """Return when the sample of each request began (ms), and the one before it.

    The first requests go on with the current sample of ``begun`` (``SampledStat.record``).
    """
    times = recorded_at_ms.tolist()
    began_ms = int(begun.start_ms[0, begun.index[0]]) if begun.count[0] else times[0]
    before_ms, own, before = began_ms, [], []
    for at_ms in times:
        if at_ms - began_ms >= window_ms:
            before_ms, began_ms = began_ms, at_ms
        own.append(began_ms)
        before.append(before_ms)
    return np.array(own), np.array(before)


def _samples_leave_ms(recorded_at_ms: Int64s, began_ms: Int64s, window: Window) -> Int64s:
    """Return when the samples of requests leave their sensor (ms), in order.

    A sample leaves a time after it began, from 3.8 on after its last request
    (``SampledStat.purgeObsoleteSamples``).
    """
    last = np.flatnonzero(np.append(began_ms[1:] != began_ms[:-1], True))
    since_ms = recorded_at_ms if window.keeps_overlapping else began_ms
    return np.sort(since_ms[last] + window.expire_age_ms)


def _moves(
    part: Stretch,
    began: Int64s,
    left_ms: Int64s,
    accused: int,
    off_ms: int,
    window: Window,
    *,
    itself: bool,
) -> Iterator[tuple[int, int, int]]:
    """Yield a row, its new place and its new time: of all that change a sample, or pass another.

    Past the row ``accused`` goes what may have come before it, or after it. ``began`` [2, n] is of
    :func:`samples_began_ms`, ``left_ms`` of :func:`_samples_leave_ms`: the request that finds that
    a sample has left begins another in its place, and the window is as long as that one is old.
    The request that a sample leaves by, its first or from 3.8 on its last, is moved too: then the
    sample has just left as the ``accused`` one comes, or is about to.
    ``off_ms`` is by how much longer the ``accused`` one was throttled than replayed: the start of a
    sample is moved by as much, or by what is left of it over whole samples, for of a window that is
    not full only that counts (``Rate.windowSize``).
    """
    window_ms, at_ms, (began_ms, before_began_ms) = window.window_ms, part.at_ms, began
    from_ms, until_ms = part.earliest_ms - part.line_lag_max_ms, part.latest_ms
    # Times are cut to a millisecond, on either side.
    shift_ms = [
        shift + cut_ms
        for shift in (off_ms, off_ms % window_ms - window_ms, off_ms % window_ms)
        for cut_ms in (-1, 0, 1)
    ]
    may_leave = from_ms < began_ms
    may_begin = until_ms >= began_ms + window_ms
    is_first = at_ms == began_ms
    is_last = np.append(began_ms[1:] != began_ms[:-1], True)
    gone_ms = int(at_ms[accused]) - window.expire_age_ms
    lets_leave = is_last if window.keeps_overlapping else is_first
    lets_leave &= (from_ms <= gone_ms + 1) & (until_ms >= gone_ms)
    left = [np.searchsorted(left_ms, each, side="right") for each in (from_ms, at_ms, until_ms)]
    moves = may_leave | may_begin | is_first | (left[0] < left[2]) | lets_leave
    moves[accused] |= itself
    moves &= ~part.is_elsewhere
    for k in np.flatnonzero(moves[: accused + 1])[::-1].tolist():
        own_ms, start_ms, low_ms, high_ms = (
            int(column[k]) for column in (at_ms, began_ms, from_ms, until_ms)
        )
        begins_ms = int(before_began_ms[k]) + window_ms
        times = {low_ms, high_ms, start_ms - 1, begins_ms - 1, begins_ms}
        times |= {start_ms + window_ms - 1, start_ms + window_ms}
        times |= {own_ms + each for each in shift_ms} if is_first[k] else set()
        edges_ms = {int(each) - 1 for each in left_ms[left[0][k] : left[1][k]]}
        edges_ms |= {int(each) for each in left_ms[left[1][k] : left[2][k]]}
        edges_ms |= {gone_ms, gone_ms + 1} if lets_leave[k] else set()
        times |= edges_ms if itself or k != accused else set()
        # A sample may have left between two of its own times.
        times |= {int(part.earliest_ms[k])} if itself and k == accused else set()
        for moved_ms in sorted(times - {own_ms}):
            is_same = start_ms <= moved_ms < start_ms + window_ms
            is_same &= not (is_first[k] or (itself and k == accused)) and moved_ms not in edges_ms
            if low_ms <= moved_ms <= high_ms and not is_same:
                place = int(np.searchsorted(at_ms, moved_ms, side="right"))
                yield k, place - (place > k), moved_ms
    yield from passing(part, accused)


def passing(part: Stretch, accused: int) -> Iterator[tuple[int, int, int]]:
    """Yield a row, its new place and its new time: of what may have been on the other side.

    A handler reads the clock first and records after it (``KafkaApis.handleProduceRequest``): one
    that waited in between passes with its own time. Were the line of ``accused`` itself late, it
    would be due more: that is asked elsewhere.
    """
    at_ms, until_ms = part.at_ms, part.latest_ms
    from_ms = part.earliest_ms - part.line_lag_max_ms
    after = np.flatnonzero(until_ms[:accused] + PROVES_MS >= part.earliest_ms[accused])
    for k in after[-PASSED_MAX:].tolist():
        yield from ((k, accused, each) for each in {int(until_ms[k]), int(at_ms[k])})
    before = accused + 1 + np.flatnonzero(from_ms[accused + 1 :] <= at_ms[accused])
    for k in before[:PASSED_MAX].tolist():
        yield k, accused, min(int(until_ms[k]), int(at_ms[accused]))


def _exchanging(part: Stretch, accused: int) -> Iterator[int]:
    """Yield the places of those that ``accused`` may have changed places with.

    What is between them is replayed as before, but for the difference of their amounts.
    """
    at_ms, until_ms = part.at_ms, part.latest_ms + PROVES_MS
    from_ms = part.earliest_ms - part.line_lag_max_ms
    places = np.arange(max(accused - PASSED_MAX, 0), min(accused + PASSED_MAX + 1, len(at_ms)))
    is_later = places > accused
    later, earlier = np.where(is_later, places, accused), np.where(is_later, accused, places)
    may_be = (from_ms[later] <= at_ms[earlier]) & (until_ms[earlier] >= at_ms[later])
    # One that is beside it has been passed already.
    for k in places[may_be & (later - earlier > 1)].tolist():
        if not any(part.passes_own_connection(*both) for both in ((accused, k), (k, accused))):
            yield k


def due_ms_of(stretch: Stretch, states: SensorStates) -> Floats:
    """Return the throttle due to each request (ms), below 0 where there is room; ``states`` go on.

    NaN where there is no quota, and of what another sensor counted.
    """
    own = np.flatnonzero(~stretch.is_elsewhere)
    bound = stretch.bound[own]
    replay = replayed_rates(
        stretch.at_ms[own],
        stretch.amount[own],
        bound,
        stretch.logged_ms[own],
        states,
        is_unrecorded=stretch.is_unrecorded[own],
    )
    due_ms = np.full(len(stretch.at_ms), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        due_ms[own] = (replay.rate / bound - 1.0) * replay.window_size_ms
    return due_ms


def _costs(stretch: Stretch, due_ms: Floats) -> Floats:
    """Return 0 for each request that was throttled as due at one of its times, else more."""
    # A millisecond earlier it is due a millisecond more.
    less_ms = np.maximum(stretch.latest_ms - stretch.at_ms, 0) + PROVES_MS + stretch.may_be_less_ms
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
