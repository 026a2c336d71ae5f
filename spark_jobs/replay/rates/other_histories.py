"""Whether one or two requests, recorded at other times, explain what a broker is accused of.

A request that begins a sample, or belongs to another one, moves what all that follow are held
against, for two rate windows; its own throttle may say nothing of it. Where the log leaves open
that it did, a throttle that such a history explains is no proof. The history has to leave less
unexplained than the one that was found, of all throttles that hang on the request.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.states import Bools, Int64s, SensorStates
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.history import History, Stretch, due_ms_of, passing

FAILURES_MAX = 8
"""A broker that so many decisions of a stretch accuse for good is not tried any further.

Those that are accused alone, far from others, have as many tries of their own: lies in a row say
nothing of them.
"""
ACCUSED, DOUBTED, LONE = "accused", "doubted", "lone"
MOVES_MAX = 2
"""So many requests may have been recorded at another time, for each other's samples' sake."""
CARRIED_MAX = 4
"""So many histories with one move are tried with another: of those that explain the accused
request, and of those that come nearest to it."""
WORK_MAX = 4_000_000
"""So many requests are replayed for one accused one and move: the nearest histories are tried."""


class OtherHistory(NamedTuple):
    """The history that leaves least unexplained; arrays of one length."""

    row: Int64s  # the request at each place, as a row of the stretch that was found
    at_ms: Int64s  # when it was recorded
    is_explained: Bools  # per row of the stretch: an accused one is explained, or was before


def explained_otherwise(
    accused: Int64s,
    stretch: Stretch,
    states: SensorStates,
    window: Window,
    doubted: Int64s | None = None,
) -> OtherHistory:
    """Return the history of ``stretch`` in which fewer requests stay unexplained.

    ``accused`` are rows whose throttles are not replayed, ``doubted`` others of which nobody is
    accused; ``states`` (one sensor's) are those before the first row. Each history that explains
    one of them is gone on with, and speaks for all that it explains.
    """
    is_explained = np.zeros(len(stretch.at_ms), bool)
    is_asked = is_explained.copy()
    is_asked[accused if doubted is None else np.union1d(accused, doubted)] = True
    is_tried = is_explained.copy()
    if not is_asked.any():
        return OtherHistory(np.arange(len(is_explained)), stretch.at_ms, is_explained)
    before = best = History.of(stretch, states)
    failures = Counter[str]()
    while len(asked := np.flatnonzero(is_asked & ~is_tried)):
        row = int(asked[0])
        is_tried[row] = True
        is_accused = row in accused
        kind = ACCUSED if is_accused else DOUBTED
        is_spent = failures[kind] == FAILURES_MAX
        if is_spent and is_accused and _is_lone(row, is_asked, stretch.at_ms, window.window_ms):
            kind = LONE
        is_done = is_explained[row] and best.cost_of(row) < 1
        if is_done or failures[kind] == FAILURES_MAX:
            is_explained[row] |= is_accused and _is_passed(row, stretch, states, window, is_asked)
            continue
        place = int(np.flatnonzero(best.row == row)[0])
        other = None if is_spent else _explained_by_one(place, best.stretch, states, window)
        if other is not None:
            first, _, history = other
            rows = best.row.copy()
            rows[first : first + len(history.row)] = rows[first + history.row]
            best = History.of(best.stretch.with_part(first, history.stretch), states, rows)
            # What was explained, and is not now, was not replayed wrongly for sure, either.
            is_explained |= before.is_unlike(best)
            is_explained[row] = True
            is_asked |= before.is_unlike(best) & (before.cost < 1)
        # What explains it may contradict what explains another one.
        elif (is_accused and not is_explained[row]) and (
            alone := _explained_by_one(row, stretch, states, window, itself=True)
        ):
            first, found, history = alone
            is_explained[first + np.flatnonzero(found.is_worse_than(history))] = True
        else:
            failures[kind] += 1
    return OtherHistory(best.row, best.stretch.at_ms, is_explained)


def _is_lone(row: int, is_asked: Bools, at_ms: Int64s, window_ms: int) -> bool:
    """Return True where no other request that is asked for was recorded within a window."""
    first, stop = np.searchsorted(at_ms, (at_ms[row] - window_ms, at_ms[row] + window_ms + 1))
    return bool(is_asked[first:stop].sum() == 1)


def _explained_by_one(
    place: int, stretch: Stretch, states: SensorStates, window: Window, *, itself: bool = False
) -> tuple[int, History, History] | None:
    """Return a part of the stretch with two histories: as found, and explaining ``place``; or None.

    The part is told by the place where it begins, such as 40. With ``itself`` the request may also
    have been recorded at another time of its own sample.
    """
    reach = _reach(place, stretch.at_ms, window)
    begun, found = _found(stretch, reach, states)
    first, row, histories = reach.start, place - reach.start, [found]
    for _ in range(MOVES_MAX):
        tries = WORK_MAX // (len(found.row) * max(len(histories), 1)) + 1
        others = [
            other
            for history in histories
            for other in islice(history.others(row, begun, window, itself=itself), tries)
        ]
        explaining = sorted(
            (other for other in others if other.cost_of(row) < 1),
            key=lambda other: other.total_for(row),
        )
        if explaining and explaining[0].is_better_than(found, row):
            return first, found, explaining[0]
        nearer = sorted(
            (other for other in others if other.cost_of(row) >= 1),
            key=lambda other: other.off_ms(row),
        )
        histories = explaining[:CARRIED_MAX] + nearer[:CARRIED_MAX]
    other = min(found.exchanged(row, begun), key=lambda other: other.total_for(row), default=found)
    is_better = other.cost_of(row) < 1 and other.is_better_than(found, row)
    return (first, found, other) if is_better else None


def _reach(place: int, at_ms: Int64s, window: Window) -> slice:
    """Return the places of the requests that have to do with the one at ``place``, such as 3 to 90.

    Those before it may have begun its samples, and those after it may hang on it.
    """
    reach_ms = 2 * window.expire_age_ms + 2 * window.window_ms
    first = int(np.searchsorted(at_ms, at_ms[place] - reach_ms))
    stop = int(np.searchsorted(at_ms, at_ms[place] + window.expire_age_ms, side="right"))
    return slice(first, max(stop, place + 1))


def _found(stretch: Stretch, reach: slice, states: SensorStates) -> tuple[SensorStates, History]:
    """Return the states before the requests of ``reach``, and these as they were found."""
    begun = states.take(np.array([0]))
    due_ms_of(stretch.part(0, reach.start), begun)
    return begun, History.of(stretch.part(reach.start, reach.stop), begun)


def _is_passed(
    place: int, stretch: Stretch, states: SensorStates, window: Window, is_asked: Bools
) -> bool:
    """Return True if a request is explained once one beside it, that is not, is on its other side.

    Nothing tells when one that lies was recorded.
    """
    reach = _reach(place, stretch.at_ms, window)
    part, row = stretch.part(reach.start, reach.stop), place - reach.start
    moves = [
        (k, to, at_ms)
        for k, to, at_ms in passing(part, row)
        if is_asked[reach][k] and not part.passes_own_connection(k, to)
    ]
    # All before is replayed only where there is something to try.
    if not moves:
        return False
    begun, found = _found(stretch, reach, states)
    others = (found.with_move(k, to, at_ms, begun) for k, to, at_ms in moves)
    return any(other.cost_of(row) < 1 and other.total < found.total for other in others)
