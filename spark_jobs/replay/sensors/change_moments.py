"""Requests around quota changes → the moments that explain their throttles best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.sensors.change_trial import ChangeTrial, Untold
from spark_jobs.replay.sensors.client_requests import NO_SENSOR, ClientRequests
from spark_jobs.resolve.timeline.enabled_levels import BEGINNING_MS, END_MS


def locate_changes(
    clients: Sequence[ClientRequests],
    nominal_ms: Int64s,
    bounds_ms: tuple[Int64s, Int64s],
    window: Window,
    restarts_ms: Sequence[int] = (),
) -> Int64s:
    """Return the time (ms) from which each change was in force, in order.

    ``nominal_ms`` are the moments of the controller's answers, in order, ``bounds_ms`` those from
    which on, and until which, a broker follows. A change that nothing tells of keeps its own. At
    ``restarts_ms`` the broker began anew, with no sensors.

    Each change is located beside the others. A moment that only requests tell that were not
    throttled is taken where another change, located beside it, makes it explain everything. So is
    the answer's own, where that explains more than the moment that was found beside the others.
    """
    at_ms = np.array(nominal_ms, np.int64)
    trials = _Trials(clients, nominal_ms, bounds_ms, window, restarts_ms)
    untold: dict[int, Untold] = {}
    for is_second_round in (False, True):
        for change in range(len(at_ms)):
            if trial := trials.of(change, at_ms):
                at_ms = trial.best(may_push=not is_second_round)
                if is_second_round and trial.untold is not None:
                    untold[change] = trial.untold
    for change, moment in untold.items():
        at_ms = trials.beside_others(change, moment, at_ms)
    return at_ms


@dataclass(frozen=True, slots=True)
class _Trials:
    """What each change is tried with."""

    clients: Sequence[ClientRequests]
    nominal_ms: Int64s
    bounds_ms: tuple[Int64s, Int64s]
    window: Window
    restarts_ms: Sequence[int]

    def of(self, change: int, at_ms: Int64s, *, begins_late: bool = False) -> ChangeTrial | None:
        """Return the trial of one change, the others being in force from ``at_ms`` on.

        None where it concerns no sensor. ``begins_late`` says that the lines of sensors' first
        requests may be late.
        """
        sensors, moves_sensors = _concerned(self.clients, change)
        if not sensors:
            return None
        nominal_ms = int(self.nominal_ms[change])
        earliest_ms, latest_ms = (int(bound_ms[change]) for bound_ms in self.bounds_ms)
        return ChangeTrial(
            self.clients, sensors, (nominal_ms, earliest_ms, latest_ms), at_ms, change,
            self.window, moves_sensors, _epoch(nominal_ms, self.restarts_ms),
            begins_late=begins_late,
        )  # fmt: skip

    def beside_others(self, change: int, untold: Untold, at_ms: Int64s) -> Int64s:
        """Return ``at_ms``, or the times with ``change`` at the untold moment if they tell of it.

        The changes whose requests may still count by then are located beside it. Where that tells
        nothing of a change that sends requests to another sensor, the line of a sensor's first
        request is taken to be late: every sample hangs on that request.
        """
        moment, cost_max = untold
        _, moves_sensors = _concerned(self.clients, change)
        near_ms = 2 * (self.window.expire_age_ms + 2 * self.window.window_ms)
        is_near = np.abs(self.nominal_ms - self.nominal_ms[change]) <= near_ms
        for begins_late in (False, True) if moves_sensors else (False,):
            found_ms = at_ms.copy()
            found_ms[change] = moment
            found_ms[:change] = np.minimum(at_ms[:change], moment)
            found_ms[change + 1 :] = np.maximum(at_ms[change + 1 :], moment)
            for other in np.flatnonzero(is_near).tolist():
                if other != change and (trial := self.of(other, found_ms, begins_late=begins_late)):
                    found_ms = trial.best(may_push=False)
            trial = self.of(change, found_ms, begins_late=begins_late)
            is_there = found_ms[change] == moment
            if is_there and trial and trial.explains(moment, cost_max=cost_max):
                return found_ms
        return at_ms


def _epoch(at_ms: int, restarts_ms: Sequence[int]) -> tuple[int, int]:
    """Return between which restarts (ms) a moment lies."""
    began_ms = max((each for each in restarts_ms if each <= at_ms), default=BEGINNING_MS)
    return began_ms, min((each for each in restarts_ms if each > at_ms), default=END_MS)


def _concerned(clients: Sequence[ClientRequests], change: int) -> tuple[list[int], bool]:
    """Return the sensors that a change concerns, and whether requests move between them."""
    concerned = [client for client in clients if client.is_concerned(change)]
    sensors = {sensor for c in concerned for sensor in (c.sensors[change], c.sensors[change + 1])}
    return sorted(sensors - {NO_SENSOR}), any(client.moves(change) for client in concerned)
