"""One quota change, tried between each two requests of the clients that it concerns.

Where all are explained least badly, it was in force.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import (
    Events,
    Samples,
    Window,
    after_unknown_begin,
    earlier,
)
from spark_jobs.replay.alignment.explanation import UNEXPLAINED_COST
from spark_jobs.replay.alignment.search import search
from spark_jobs.replay.sensors.client_requests import ClientRequests

# A change accuses nobody for a second (``JudgeSettings.change_ms``).
# Earlier than a controller handled it is the clock's cut alone.
EARLIER_MS, LATER_MS = 20, 1_000
# Between two moments that explain equally much the likelier one is the sooner.
_COST_PER_MS = 0.002
# Long before the first throttle, or beside a lie, few hypotheses may be too few to keep the true
# one. Where the best moment leaves several throttles unexplained, all are tried again with more.
_WIDTHS = (128, 512)
_DOUBTFUL_COST = 3 * UNEXPLAINED_COST
# The moment of the answer is likely enough to be tried with all the rows there are, and more.
_ANSWERED_WIDTHS = (*_WIDTHS, 2048)
# One after LATER_MS must explain nearly all that the best sooner moment does not.
_UNEXPLAINED_SHARE_MAX = 0.1
_ROWS_MAX, _ROWS_BEFORE_MAX = 3_000, 1_000
# More where it takes more to know what a sensor holds as the quota changes, such as 75 requests a
# second in the 39 s of windows of three.
_ROWS_TO_KNOW_MAX = 4_000
_SENSORS_MAX = 6
# So many throttles more tell of a moment, whatever is said by what was not throttled.
_THROTTLES_MORE_MIN = 5
# Everything explained: no other moment can be better.
_PERFECT_COST = 2.0


class Untold(NamedTuple):
    """A moment that its change alone does not tell of.

    Other changes, located beside it, may tell where it costs less than ``cost_max`` then.
    """

    at_ms: int
    cost_max: float


def _answered_untold(answered_ms: int, found_ms: int, cost: float) -> Untold | None:
    """Return the moment of the answer where another one was found that leaves a throttle wrong."""
    if answered_ms == found_ms or cost <= UNEXPLAINED_COST:
        return None
    return Untold(answered_ms, cost - UNEXPLAINED_COST)


class ChangeTrial:
    """One change, tried at every moment it may have happened."""

    def __init__(
        self,
        clients: Sequence[ClientRequests],
        sensors: Sequence[int],
        moments_ms: tuple[int, int, int],
        at_ms: Int64s,
        change: int,
        window: Window,
        moves_sensors: bool,
        epoch: tuple[int, int],
        *,
        begins_late: bool = False,
    ) -> None:
        self._clients = clients
        self._nominal_ms, earliest_ms, latest_ms = moments_ms
        self._earliest_ms = min(earliest_ms, self._nominal_ms) - EARLIER_MS
        self._at_ms = at_ms
        self._change = change
        self._window = window
        self._lag_ms = lag_ms = window.expire_age_ms + 2 * window.window_ms
        self._latest_ms = min(latest_ms, self._nominal_ms + lag_ms)
        # A restart makes every sensor anew: what was recorded before it, or after, is of another.
        self._began_ms, self._ends_ms = epoch
        self._from_ms = max(self._nominal_ms - 2 * lag_ms, self._began_ms)
        self._warm_ms = self._nominal_ms - lag_ms
        after_ms = 2 * lag_ms if moves_sensors else LATER_MS + 3 * window.window_ms
        self._until_ms = min(self._nominal_ms + after_ms, self._ends_ms)
        self._rows_before_max = _ROWS_BEFORE_MAX
        self._known_costs: dict[tuple[int, int, bytes, bytes], tuple[float, bool]] = {}
        self._moves_sensors = moves_sensors
        self._begins_late = begins_late
        concerned = (client for client in clients if client.is_concerned(change))
        self._thrown = [
            (client, client.thrown()) for client in concerned if np.isnan(client.bounds).any()
        ]
        throttles = {sensor: self._throttles(sensor) for sensor in sensors}
        # Those with the most throttles around the change come first.
        self._ranked = sorted(sensors, key=lambda sensor: -throttles[sensor])[:_SENSORS_MAX]
        self._sensors = [sensor for sensor in self._ranked if throttles[sensor]]
        self.untold: Untold | None = None

    def best(self, *, may_push: bool) -> Int64s:
        """Return the times (ms) of all changes, with this one at its best.

        Later changes never come before this one: they are moved along with it, or they limit it.
        """
        if not self._sensors:
            return self._pushed(max(int(self._at_ms[self._change]), self._lowest()))
        soon_ms = self._nominal_ms + LATER_MS
        moments = sorted(self._moments(soon_ms, may_push), key=lambda m: abs(m - self._nominal_ms))
        best, best_cost = moments[0], np.inf
        for width in _WIDTHS:
            for moment in moments:
                cost = self._cost(moment, width, best_cost)
                if cost < best_cost:
                    best, best_cost = moment, cost
                if cost < _PERFECT_COST:
                    return self._pushed(best)
            if best_cost < _DOUBTFUL_COST:
                self.untold = _answered_untold(moments[0], best, best_cost)
                return self._pushed(best)
            if width == _WIDTHS[0] and (later := self._much_later(best, may_push)) is not None:
                return self._pushed(later)
        if self._is_explained(moments[0]):
            return self._pushed(moments[0])
        likeliest = self._likeliest(best, moments)
        self.untold = _answered_untold(moments[0], best, best_cost)
        if best != likeliest:
            self.untold = Untold(best, _DOUBTFUL_COST)
        return self._pushed(likeliest)

    def explains(
        self, moment: int, widths: Sequence[int] = _WIDTHS, *, cost_max: float = _DOUBTFUL_COST
    ) -> bool:
        """Return True if hardly anything stays unexplained with the change at ``moment``.

        Or what stays costs less than ``cost_max``.
        """
        return any(self._cost(moment, width, cost_max) < cost_max for width in widths)

    def _is_explained(self, moment: int) -> bool:
        """Return True if ``moment`` explains nearly all, looked at from its sensors' beginning.

        Where requests are dense, the hypotheses that are kept may lack the true one by chance. Of
        samples whose beginning is known there are fewer.
        """
        trial = copy.copy(self)
        epoch_ms = [self._began_ms, self._nominal_ms]
        concerned = (each for each in self._clients if each.is_concerned(self._change))
        before = sum(
            int(np.diff(np.searchsorted(each.estimate_ms, epoch_ms))[0]) for each in concerned
        )
        if before <= _ROWS_TO_KNOW_MAX:
            trial._from_ms = self._began_ms
            trial._rows_before_max = _ROWS_TO_KNOW_MAX
        return trial.explains(moment, _ANSWERED_WIDTHS)

    def _likeliest(self, best: int, moments: Sequence[int]) -> int:
        """Return the moment of ``moments`` that is told where none explains everything.

        The first one where ``best`` explains not even one throttle more. Of a change that sends
        requests to another sensor, throttles alone tell: beside lies, any moment late enough
        explains that a request was not throttled.
        """
        trial, width = self, _WIDTHS[-1]
        if self._moves_sensors:
            trial, width = self._of_throttles_alone(), _WIDTHS[0]
        answered_cost, cost = (trial._cost(each, width, np.inf) for each in (moments[0], best))
        if answered_cost - (cost - self._cost_of_distance(best)) < UNEXPLAINED_COST:
            best, cost = moments[0], answered_cost
        if self._moves_sensors:
            cost_max = cost - _THROTTLES_MORE_MIN * UNEXPLAINED_COST
            for moment in moments:
                cost = trial._cost(moment, width, cost_max)
                if cost < cost_max:
                    best, cost_max = moment, cost
        return best

    def _of_throttles_alone(self) -> ChangeTrial:
        """Return the same trial, to which requests that were not throttled tell nothing."""
        trial = copy.copy(self)
        trial._clients = [client.telling_throttles() for client in self._clients]
        trial._known_costs = {}
        return trial

    def _much_later(self, soon: int, may_push: bool) -> int | None:
        """Return the moment after LATER_MS that explains nearly all that ``soon`` cannot.

        None where there is none, or where a broker that never follows the change is explained as
        well: that one is not late but wrong. What was not throttled tells too, by the quota of
        before, of sensors without a throttle.
        """
        width, latest_ms = _WIDTHS[0], self._latest_ms
        trial = copy.copy(self)
        trial._sensors = self._ranked
        trial._until_ms = min(latest_ms + self._lag_ms, self._ends_ms)
        cost_max = min(
            _UNEXPLAINED_SHARE_MAX * trial._cost(soon, width, np.inf),
            trial._cost(latest_ms, width, np.inf) - _DOUBTFUL_COST,
        )
        best = None
        for moment in sorted(self._moments(latest_ms, may_push)):
            cost = trial._cost(moment, width, cost_max)
            if cost < cost_max:
                best, cost_max = moment, cost
        return best

    def _lowest(self) -> int:
        return int(self._at_ms[self._change - 1]) if self._change else self._earliest_ms

    def _moments(self, latest_ms: int, may_push: bool) -> Iterator[int]:
        """Yield the milliseconds between two requests of clients that the change concerns."""
        lowest = max(self._lowest(), self._earliest_ms)
        highest = max(latest_ms, lowest)
        if not may_push and self._change + 1 < len(self._at_ms):
            highest = min(highest, int(self._at_ms[self._change + 1]))
        seen = {lowest, min(max(self._nominal_ms, lowest), highest)}
        for client in self._clients:
            if client.is_concerned(self._change):
                first, last = np.searchsorted(client.estimate_ms, [lowest, highest])
                seen.update((client.estimate_ms[first:last] + 1).tolist())
        # What is throttled may be the first of its own millisecond that had a quota.
        for client, thrown in self._thrown:
            seen.update(client.estimate_ms[thrown].tolist())
        yield from (moment for moment in seen if lowest <= moment <= highest)

    def _pushed(self, moment: int) -> Int64s:
        at_ms = self._at_ms.copy()
        at_ms[self._change] = moment
        return np.maximum.accumulate(at_ms)

    def _throttles(self, sensor: int) -> int:
        """Return the number of a sensor's throttles around the change, whenever that came."""
        moments = max(self._lowest(), self._earliest_ms), self._nominal_ms + LATER_MS
        tried = [self._rows(sensor, self._pushed(moment)) for moment in moments]
        return max(
            (int(np.sum(t.logged_throttle_time_ms > 0)) for t in tried if t is not None), default=0
        )

    def _cost(self, moment: int, width: int, cost_max: float) -> float:
        """Return the cost of what all sensors leave unexplained with the change at ``moment``.

        A cost above ``cost_max`` is infinite.
        """
        at_ms = self._pushed(moment)
        cost = self._cost_of_distance(moment) + self._cost_without_quota(at_ms)
        for sensor in self._sensors:
            rows = self._rows(sensor, at_ms)
            if rows is None:
                continue
            cost += self._cost_of(sensor, rows, width, cost_max - cost)
            if cost > cost_max:
                return np.inf
        return cost

    def _cost_of_distance(self, moment: int) -> float:
        return _COST_PER_MS * min(abs(moment - self._nominal_ms), LATER_MS)

    def _cost_without_quota(self, at_ms: Int64s) -> float:
        """Return the cost of throttles of requests that no quota held: a sound broker throws none.

        Were they free, the last moment would explain most of a client that gets a quota.
        """
        thrown = 0
        for client, rows in self._thrown:
            span_ms = [self._from_ms, self._until_ms]
            first, last = np.searchsorted(client.estimate_ms[rows], span_ms)
            changes = client.changes_before(rows[first:last], at_ms)
            thrown += int(np.isnan(np.asarray(client.bounds)[changes]).sum())
        return thrown * UNEXPLAINED_COST

    def _cost_of(self, sensor: int, rows: Events, width: int, cost_max: float) -> float:
        # Between two requests of one sensor every moment is the same to it.
        same = (sensor, width, rows.latest_ms.tobytes(), rows.bound.tobytes())
        least, is_whole = self._known_costs.get(same, (0.0, False))
        if not is_whole and least <= cost_max:
            empty = Samples.empty(self._window.slots)
            least = search(rows, empty, self._window, width, cost_max).cost
            self._known_costs[same] = least, least <= cost_max
        return least

    def _rows(self, sensor: int, at_ms: Int64s) -> Events | None:
        """Return a sensor's requests around the change, were the changes in force then."""
        parts = []
        begins = True
        for client in self._clients:
            if sensor not in client.sensors:
                continue
            first, last = np.searchsorted(client.estimate_ms, [self._from_ms, self._until_ms])
            changes = client.changes_before(slice(first, last), at_ms)
            is_of = np.asarray(client.sensors)[changes] == sensor
            held = np.searchsorted(client.estimate_ms, self._began_ms)
            earlier = client.changes_before(slice(held, first), at_ms)
            begins &= not (np.asarray(client.sensors)[earlier] == sensor).any()
            picked = np.arange(first, last)[is_of]
            if len(picked):
                bounds = np.asarray(client.bounds)[changes[is_of]]
                parts.append((client, picked, bounds))
        if not parts:
            return None
        return self._joined(parts, begins=begins)

    def _joined(
        self, parts: Sequence[tuple[ClientRequests, Int64s, np.ndarray]], *, begins: bool
    ) -> Events:
        estimate_ms = np.concatenate([client.estimate_ms[rows] for client, rows, _ in parts])
        turn = np.argsort(estimate_ms, kind="stable")
        known_from_ms = self._nominal_ms - self._lag_ms - self._window.window_ms
        to_know, before = np.searchsorted(estimate_ms[turn], [known_from_ms, self._nominal_ms])
        before_max = max(self._rows_before_max, min(int(before - to_know), _ROWS_TO_KNOW_MAX))
        first = max(0, min(int(before) - before_max, len(turn) - _ROWS_MAX))
        turn = turn[first : first + _ROWS_MAX + before_max - _ROWS_BEFORE_MAX]
        columns = {
            name: np.concatenate([getattr(client.events, name)[rows] for client, rows, _ in parts])
            for name in Events._fields
        }
        columns["bound"] = np.concatenate([bounds for _, _, bounds in parts])
        events = Events(**{name: column[turn] for name, column in columns.items()})
        if begins and first == 0:
            return earlier(events, 0) if self._begins_late else events
        known_ms = self._warm_ms if first == 0 else int(estimate_ms[turn[0]]) + self._lag_ms
        return after_unknown_begin(events, estimate_ms[turn] >= known_ms, self._window)
