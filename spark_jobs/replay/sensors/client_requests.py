"""One client's requests around quota changes, and what each change makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.quota.states import Int64s
from spark_jobs.replay.alignment.events import EXACT, NOTHING, Events
from spark_jobs.replay.sensors.resolution_table import is_on_other_side

NO_SENSOR = -1


@dataclass(frozen=True, slots=True)
class ClientRequests:
    """One client's requests on one broker, by time, and what each change makes of them."""

    events: Events  # the bound is that of ``bounds``
    estimate_ms: Int64s
    sensors: Sequence[int]  # after no change, after the first, ...; NO_SENSOR: none is kept
    bounds: Sequence[float]  # NaN: none in force

    def telling_throttles(self) -> ClientRequests:
        """Return the requests, of which those that were not throttled tell nothing."""
        is_throttled = self.events.logged_throttle_time_ms > 0
        evidence = np.where(is_throttled, self.events.evidence, NOTHING).astype(np.int8)
        return replace(self, events=self.events._replace(evidence=evidence))

    def thrown(self) -> Int64s:
        """Return the places of the requests that a produce quota throttled, in order."""
        is_thrown = self.events.logged_throttle_time_ms > 0
        return np.flatnonzero(is_thrown & (self.events.evidence == EXACT))

    def changes_before(self, rows: slice | Int64s, at_ms: Int64s) -> Int64s:
        """Return the number of changes before each request, such as 1, in force from ``at_ms`` on.

        It is on the side that its throttle tells (:func:`is_on_other_side`).
        """
        changes = np.searchsorted(at_ms, self.estimate_ms[rows], side="right")
        has_none = np.isnan(self.bounds)
        if not has_none.any() or has_none.all():
            return changes
        sensors = np.asarray(self.sensors)
        is_thrown = self.events.logged_throttle_time_ms[rows] > 0
        for other_ms in (self.events.earliest_ms, self.events.latest_ms):
            other = np.searchsorted(at_ms, other_ms[rows], side="right")
            is_one_sensor = sensors[other] == sensors[changes]
            is_told = is_on_other_side(has_none[changes], has_none[other], is_one_sensor, is_thrown)
            changes = np.where(is_told, other, changes)
        return changes

    def moves(self, change: int) -> bool:
        """Return True if a change sends the requests to another sensor."""
        return self.sensors[change] != self.sensors[change + 1]

    def is_concerned(self, change: int) -> bool:
        """Return True if a change makes a difference to the requests."""
        before, after = self.bounds[change], self.bounds[change + 1]
        is_same = before == after or (np.isnan(before) and np.isnan(after))
        return self.moves(change) or not is_same
