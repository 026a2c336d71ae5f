"""Which of a sensor's rows are fixed by a moment, in which order, and at which record times.

What is fixed does not depend on how the rows came in: they are looked at only at whole multiples
of two rate windows since the Unix epoch, and the outcome of a look depends only on the rows before.
So a log that is cut anywhere is replayed as if it were whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.constants import PROVES_MS
from spark_jobs.quota.states import Int64s, SensorStates, remembered_ms
from spark_jobs.replay.alignment.events import (
    EXACT,
    UP_TO,
    Events,
    Samples,
    Window,
    after_unknown_begin,
)
from spark_jobs.replay.alignment.explanation import UNEXPLAINED
from spark_jobs.replay.alignment.placement import Placed
from spark_jobs.replay.alignment.sample_beginnings import KNOWN_BY
from spark_jobs.replay.alignment.window import Aligned, align_window
from spark_jobs.replay.rates.judgement import judge_placed
from spark_jobs.replay.rates.other_times import replayed
from spark_jobs.replay.rates.stream_rows import SensorRows
from spark_jobs.resolve.broker_log import NOT_STAMPED

# A stretch with throttles is aligned when it has ROWS_MIN rows and spans LOOKS_ALIGNED, or has
# ROWS_MAX rows or lasts SPAN_MAX_MS.
ROWS_MIN, ROWS_MAX = 2_048, 16_384
SPAN_MAX_MS = 600_000
LOOKS_ALIGNED = 3
# A sensor's first request is often a slow one, whose time is the least certain, and every sample of
# steady traffic hangs on it. So the first rows of a sensor wait for throttles for so long.
BEGIN_MS, BEGIN_ROWS = 120_000, 8_192
# The bits of an int64 name the samples.
SAMPLES_MAX = 60
# Tries of throttled fetches are judged together up to a whole multiple of this since the epoch.
TRIES_MS = 600_000
TRIES_MAX = 65_536
LOOKS_BEFORE_TRIES = 3
APART_MS = 2_000
"""No request that is still to come was recorded so long before the moment up to which all are there
by their estimates."""


RIGHT_PER_WRONG = 3
"""A broker throttles rightly more often than not by so much, where throttles tell of a state."""

NOT_HELD = -1


class Fixed(NamedTuple):
    """The first rows of an epoch in the order of their recording; arrays of one length."""

    order: np.ndarray
    recorded_at_ms: np.ndarray
    is_proven: np.ndarray
    is_explained: np.ndarray  # bool: by another history than the one that was found
    is_impossible: np.ndarray  # bool: no times that lines admit give its throttle
    is_neither: np.ndarray  # bool: no quota beside a change gives its throttle
    is_begin_told: np.ndarray  # bool: throttles before it tell that nothing was held unlogged
    group: np.ndarray  # rows of one group are judged together
    held_ms: np.ndarray  # when the sample began that alone the sensor held, before the first row

    @classmethod
    def plainly(cls, at_ms: np.ndarray, start: int, stop: int, group: int) -> Fixed:
        """Return the rows from ``start`` to before ``stop`` as estimated."""
        rows = np.arange(start, stop)
        return cls.unjudged(rows, at_ms[start:stop], np.full(len(rows), group))

    @classmethod
    def unjudged(cls, order: np.ndarray, at_ms: np.ndarray, group: np.ndarray) -> Fixed:
        """Return the rows of ``order`` at their times (ms), of which no throttle says anything."""
        none = np.zeros(len(order), bool)
        held_ms = np.full(len(order), NOT_HELD)
        return cls(order, at_ms, none, none, none, none, none, group, held_ms)

    def take(self, rows: np.ndarray) -> Fixed:
        """Return the entries of these rows."""
        return Fixed(*(column[rows] for column in self))

    @classmethod
    def joined(cls, parts: Sequence[Fixed]) -> Fixed:
        """Return the entries of ``parts``, at least one, one after the other."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True)
class Fixing:
    """How rows of one quota type are fixed; as it stands here, at their estimates and at once."""

    look_ms: int = 1  # from one look to the next
    kept_ms: int = 0  # the age from which a look fixes rows with nothing to explain

    def told(self, logged_ms: np.ndarray, tried_ms: np.ndarray) -> np.ndarray:
        """Return True for each row with something that has to be explained."""
        return np.zeros(len(logged_ms), bool)

    def keeps_begin(self, at_ms: np.ndarray, look_ms: int) -> bool:
        """Return True if a sensor that begins with rows at these times waits at a look."""
        return False

    def fix(self, rows: SensorRows, states: SensorStates, until_ms: int | None) -> list[Fixed]:
        """Return the rows fixed when all rows before ``until_ms`` (a look) are there.

        ``until_ms`` None: no more rows come, all are fixed. ``states`` (one sensor's) moves on with
        the fixed rows.
        """
        return [Fixed.plainly(rows.at_ms, 0, _before(rows.at_ms, until_ms), 0)]


class RequestTimeFixing(Fixing):
    """Requests at their estimates, once none that overlaps them can come."""

    def told(self, logged_ms: np.ndarray, tried_ms: np.ndarray) -> np.ndarray:
        """Return True for every request, for what may have been recorded around it."""
        return np.ones(len(logged_ms), bool)

    def fix(self, rows: SensorRows, states: SensorStates, until_ms: int | None) -> list[Fixed]:
        """Return the rows at the beginning that surely do not overlap any that follow."""
        n = stop = len(rows.at_ms)
        if until_ms is not None:
            latest_ms = np.maximum.accumulate(rows.log_time_ms)
            earliest_ms = np.minimum.accumulate(rows.earliest_ms[::-1])[::-1]
            following_ms = np.minimum(np.append(earliest_ms[1:], until_ms), until_ms - APART_MS)
            cuts = np.flatnonzero(latest_ms < following_ms)
            stop = int(cuts[-1]) + 1 if len(cuts) else 0
            if n - stop >= ROWS_MAX:
                stop = n - ROWS_MIN
        return [Fixed.plainly(rows.at_ms, 0, stop, 0)]


class FetchFixing(Fixing):
    """Fetches at their estimates; tries of throttled ones wait for what follows them."""

    @classmethod
    def of(cls, window: Window) -> FetchFixing:
        """Return the fixing of sensors with this rate window."""
        look_ms = 2 * window.expire_age_ms
        return cls(look_ms, LOOKS_BEFORE_TRIES * look_ms)

    def told(self, logged_ms: np.ndarray, tried_ms: np.ndarray) -> np.ndarray:
        """Return True for each fetch that was throttled."""
        return np.asarray(logged_ms > 0)

    def fix(self, rows: SensorRows, states: SensorStates, until_ms: int | None) -> list[Fixed]:
        """Return the fixed fetches, tries in one group with what was read around them."""
        at_ms, told = rows.at_ms, np.flatnonzero(rows.logged_ms > 0)
        fixed: list[Fixed] = []
        start = 0
        while start < len(at_ms):
            place = int(np.searchsorted(told, start))
            if place == len(told):
                stop = _before(at_ms, None if until_ms is None else until_ms - self.kept_ms)
                if stop > start:
                    fixed.append(Fixed.plainly(at_ms, start, stop, len(fixed)))
                return fixed
            first_ms = int(at_ms[told[place]])
            context_ms = first_ms // self.look_ms * self.look_ms - self.kept_ms
            before = int(np.searchsorted(at_ms, context_ms))
            if before > start:
                fixed.append(Fixed.plainly(at_ms, start, before, len(fixed)))
                start = before
            end_ms = (first_ms // TRIES_MS + 1) * TRIES_MS
            is_there = until_ms is None or until_ms >= end_ms
            stop = int(np.searchsorted(at_ms, end_ms)) if is_there else _before(at_ms, until_ms)
            if stop - start >= TRIES_MAX:
                stop = start + TRIES_MAX
            elif not is_there:
                return fixed
            fixed.append(Fixed.plainly(at_ms, start, stop, len(fixed)))
            start = stop
        return fixed


@dataclass(frozen=True, slots=True)
class ProduceFixing(Fixing):
    """Produces at the times and in the order that explain the logged throttles best."""

    window: Window = field(kw_only=True)

    @classmethod
    def of(cls, window: Window) -> ProduceFixing:
        """Return the fixing of sensors with this rate window."""
        look_ms = 2 * window.expire_age_ms
        return cls(look_ms, look_ms, window=window)

    def told(self, logged_ms: np.ndarray, tried_ms: np.ndarray) -> np.ndarray:
        """Return True for each row that was throttled, or was due to be."""
        return np.asarray((logged_ms > 0) | (tried_ms > 0))

    def keeps_begin(self, at_ms: np.ndarray, look_ms: int) -> bool:
        """Return True for as long as the first rows may wait for throttles."""
        is_soon = look_ms < int(at_ms[0]) + BEGIN_MS
        return is_soon and int(np.searchsorted(at_ms, look_ms)) < BEGIN_ROWS

    def fix(self, rows: SensorRows, states: SensorStates, until_ms: int | None) -> list[Fixed]:
        """Return the rows fixed by alignment, and between throttles as estimated."""
        fixed: list[Fixed] = []
        start, n = 0, len(rows.at_ms)
        while start < n:
            first = self._next_told(rows, states, start)
            begins = start == 0 and states.count[0] == 0
            if first is None:
                if until_ms is not None and begins and self.keeps_begin(rows.at_ms, until_ms):
                    return fixed
                stop = _before(rows.at_ms, None if until_ms is None else until_ms - self.kept_ms)
                self._go_on(rows, states, fixed, start, stop)
                return fixed
            look_ms = int(rows.at_ms[first]) // self.look_ms * self.look_ms
            before = int(np.searchsorted(rows.at_ms, look_ms - self.kept_ms))
            if begins and self.keeps_begin(rows.at_ms, look_ms):
                before = start
            self._go_on(rows, states, fixed, start, before)
            start = max(start, before)
            due = self._due(rows.at_ms, start, look_ms + self.look_ms, until_ms)
            if due is None:
                return fixed
            part = self._aligned(rows, states, start, due[0], is_last=due[1])
            fixed.append(part)
            start += len(part.order)
        return fixed

    def _next_told(self, rows: SensorRows, states: SensorStates, start: int) -> int | None:
        """Return the next row that has something to explain if all before are as estimated."""
        trial = states.take(np.array([0]))
        for block in range(start, len(rows.at_ms), ROWS_MAX):
            part = slice(block, min(block + ROWS_MAX, len(rows.at_ms)))
            tried = replayed(rows, np.arange(len(rows.at_ms))[part], rows.at_ms[part], trial)
            told = self.told(rows.logged_ms[part], tried.throttle_time_ms)
            if told.any():
                return block + int(told.argmax())
        return None

    def _due(
        self, at_ms: np.ndarray, start: int, look_ms: int, until_ms: int | None
    ) -> tuple[int, bool] | None:
        """Return the end of the rows to align at the first look due, and True if that look is last.

        None if that look is still to come.
        """
        while True:
            is_last = until_ms is None and look_ms > at_ms[-1]
            if until_ms is not None and look_ms > until_ms:
                stop = _before(at_ms, until_ms)
                return (start + ROWS_MAX, False) if stop - start >= ROWS_MAX else None
            stop = int(at_ms.searchsorted(look_ms))
            if stop - start >= ROWS_MAX:
                is_last &= stop - start == ROWS_MAX
                return start + ROWS_MAX, is_last
            span_ms = int(at_ms[stop - 1] - at_ms[start]) if stop > start else 0
            is_long = span_ms >= LOOKS_ALIGNED * self.look_ms
            if is_last or span_ms >= SPAN_MAX_MS or (stop - start >= ROWS_MIN and is_long):
                return stop, is_last
            if stop == len(at_ms):
                return None
            # The first look at which another row is there.
            look_ms = int(at_ms[stop]) // self.look_ms * self.look_ms + self.look_ms

    def _go_on(
        self, rows: SensorRows, states: SensorStates, fixed: list[Fixed], start: int, stop: int
    ) -> None:
        if stop > start:
            places = np.arange(start, stop)
            replayed(rows, places, rows.at_ms[start:stop], states)
            fixed.append(Fixed.plainly(rows.at_ms, start, stop, 0))

    def _aligned(
        self, rows: SensorRows, states: SensorStates, start: int, stop: int, *, is_last: bool
    ) -> Fixed:
        if np.isnan(rows.amount[start:stop]).any():
            replayed(rows, np.arange(start, stop), rows.at_ms[start:stop], states)
            return Fixed.plainly(rows.at_ms, start, stop, 0)
        events = _events(rows, start, stop)
        found, held_ms = self._found(rows, states, events, start, is_last=is_last)
        judged = judge_placed(rows, start, found.placed, events, states, self.window, found.fixed)
        if judged.is_moved:
            placed = judged.moved(states, self.window)
            again = judge_placed(rows, start, placed, events, states, self.window, found.fixed)
            judged = again.after(judged)
        done, other = slice(0, found.fixed), judged.other
        place = other.row[done]
        order = start + judged.placed.order[place]
        now_ms = replayed(rows, order, other.at_ms[done], states).throttle_time_ms
        is_proven, is_explained = judged.holds(place, now_ms)
        return Fixed(
            order,
            other.at_ms[done],
            is_proven,
            is_explained,
            judged.is_impossible[place],
            judged.is_neither[place],
            _begin_told(rows, order, now_ms, self.window),
            np.zeros(len(order), np.int64),
            np.full(len(order), held_ms),
        )

    def _found(
        self, rows: SensorRows, states: SensorStates, events: Events, start: int, *, is_last: bool
    ) -> tuple[Aligned, int]:
        """Return the aligned events, and when the sample began that alone ``states`` now hold.

        That is NOT_HELD, but where throttles tell that the log began amid the sensor's requests, or
        that samples began at other times than thought since long before the first throttle.
        """
        window = self.window
        new = align_window(events, _samples(states), window, is_last=is_last)
        if not (new.placed.status == UNEXPLAINED).any():
            return new, NOT_HELD
        part = slice(start, start + len(events.amount))
        at_ms, known_for_ms = rows.at_ms[part], rows.known_for_ms[part]
        logged_ms, thrown_ms = _throttles(rows, start, new.placed, states)
        off = _off(logged_ms, thrown_ms)
        if not start and not states.count[0] and known_for_ms[0] < window.window_ms:
            held = self._held(rows, states, events, start, known_for_ms, off, is_last=is_last)
            if held is not None:
                return held
        first_told = int(self.told(logged_ms, thrown_ms).argmax())
        untold_ms = int(new.placed.recorded_at_ms[first_told]) - self._remembered_ms
        before = int(np.searchsorted(at_ms, untold_ms, side="right")) - 1
        cuts = np.flatnonzero(new.placed.is_cut()[: max(before, 0)])
        if len(cuts):
            # Nothing tells of these. Those that throttles tell of are aligned anew, for themselves.
            return replace(new, fixed=min(int(cuts[-1]) + 1, new.fixed)), NOT_HELD
        held = None
        if before >= 0:
            known_for_ms = at_ms - at_ms[0]
            held = self._held(rows, states, events, start, known_for_ms, off, is_last=is_last)
        return (new, NOT_HELD) if held is None else held

    @property
    def _remembered_ms(self) -> int:
        return remembered_ms(self.window.samples, self.window.window_ms)

    def _held(
        self,
        rows: SensorRows,
        states: SensorStates,
        events: Events,
        start: int,
        known_for_ms: Int64s,
        off: int,
        *,
        is_last: bool,
    ) -> tuple[Aligned, int] | None:
        """Return the aligned events after a sample of which nothing is known, and when it began.

        None where that leaves no fewer throttles wrong than ``off``; else ``states`` hold it alone.
        """
        window = self.window
        amid = after_unknown_begin(events, known_for_ms >= self._remembered_ms, window)
        found = align_window(amid, Samples.empty(window.slots), window, is_last=is_last)
        if found.fixed < 2:
            return None
        held_ms = int(found.placed.recorded_at_ms[0])
        placed = Placed._make(column[1:] for column in found.placed)
        held = Aligned(placed._replace(order=placed.order - 1), found.fixed - 1, found.width)
        with_held = states.take(np.array([0]))
        with_held.hold(0, held_ms)
        # Lies leave throttles unexplained, too: those that are right tell what it held.
        if off <= _off(*_throttles(rows, start, held.placed, with_held)):
            return None
        states.hold(0, held_ms)
        return held, held_ms


def _begin_told(
    rows: SensorRows, order: np.ndarray, replayed_ms: np.ndarray, window: Window
) -> np.ndarray:
    """Return True where the throttles before each row tell that nothing was held unlogged.

    What a sensor holds of before it is known makes throttles longer, until it leaves: where
    KNOWN_BY since then are replayed without it, and RIGHT_PER_WRONG for each that is not, there is
    none, but a sample that began then. ``replayed_ms`` is in ``order``.
    """
    at_ms, known_for_ms, logged_ms = (
        column[order] for column in (rows.at_ms, rows.known_for_ms, rows.logged_ms)
    )
    tells = (logged_ms > 0) | (replayed_ms > 0)
    tells &= ~np.isnan(rows.bound[order]) & ~rows.has_request_bound[order]
    is_off = tells & (np.abs(logged_ms - replayed_ms) > PROVES_MS)
    is_right = tells & ~is_off & (logged_ms > 0)
    # Long after it is known nothing is held of before.
    is_young = known_for_ms < BEGIN_MS + remembered_ms(window.samples, window.window_ms)
    known_from_ms = at_ms - known_for_ms
    found = np.zeros(len(order), bool)
    for begin_ms in np.unique(known_from_ms[is_young]).tolist():
        is_since = at_ms >= begin_ms
        right, wrong = (np.cumsum(each & is_since) - each for each in (is_right, is_off))
        is_told = (right >= KNOWN_BY) & (right >= RIGHT_PER_WRONG * wrong)
        found |= is_young & (known_from_ms == begin_ms) & is_told
    return found


def _throttles(
    rows: SensorRows, start: int, placed: Placed, states: SensorStates
) -> tuple[Int64s, Int64s]:
    """Return the throttles (ms) that were logged and those replayed, from row ``start`` on."""
    trial, order = states.take(np.array([0])), start + placed.order
    replay = replayed(rows, order, placed.recorded_at_ms, trial)
    return rows.logged_ms[order], replay.throttle_time_ms


def _off(logged_ms: Int64s, replayed_ms: Int64s) -> int:
    """Return the number of throttles, such as 93, off by over PROVES_MS."""
    return int((np.abs(logged_ms - replayed_ms) > PROVES_MS).sum())


def _before(at_ms: np.ndarray, until_ms: int | None) -> int:
    return len(at_ms) if until_ms is None else int(np.searchsorted(at_ms, until_ms))


def _events(rows: SensorRows, start: int, stop: int) -> Events:
    """Return the rows as the search takes them; the broker's own stamp is at most 1 ms late."""
    part = slice(start, stop)
    stamp_ms = rows.stamp_ms[part]
    is_stamped = stamp_ms != NOT_STAMPED
    return Events(
        earliest_ms=np.where(is_stamped, stamp_ms - 1, rows.earliest_ms[part]),
        latest_ms=np.where(is_stamped, stamp_ms, rows.latest_ms[part]),
        likely_from_ms=np.where(is_stamped, stamp_ms, rows.likely_from_ms[part]),
        likely_until_ms=np.where(is_stamped, stamp_ms, rows.latest_ms[part]),
        amount=rows.amount[part],
        bound=rows.bound[part],
        logged_throttle_time_ms=rows.logged_ms[part],
        evidence=np.where(rows.has_request_bound[part], UP_TO, EXACT).astype(np.int8),
        line_lag_max_ms=rows.line_lag_max_ms[part],
        connection=rows.connection[part],
    )


def _samples(states: SensorStates) -> Samples:
    return Samples(
        start_ms=states.start_ms[0].copy(),
        last_event_ms=states.last_event_ms[0].copy(),
        value=states.value[0].copy(),
        count=int(states.count[0]),
        index=int(states.index[0]),
    )
