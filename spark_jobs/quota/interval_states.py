"""The states of many windowed rates as intervals, and the rows that move them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from spark_jobs.quota.states import Floats, Int8s, Int64s, SensorStates

NEVER = np.iinfo(np.int64).max
# The last axis of IntervalStates.times and of .values.
START_MIN, START_MAX, LAST_MIN, LAST_MAX, EMPTIED_MIN, EMPTIED_MAX = range(6)
VALUE_MIN, VALUE_MAX, FLOAT_MIN, FLOAT_MAX = range(4)
TIMES = (
    "start_min_ms", "start_max_ms", "last_min_ms", "last_max_ms", "emptied_min_ms",
    "emptied_max_ms",
)  # fmt: skip
VALUES = ("value_min", "value_max", "float_min", "float_max")
# That of .open_times: events that are in the current sample or have opened the next one.
OPEN_FROM, OPEN_UNTIL = range(2)


class IntervalStates(NamedTuple):
    """The states of S sensors of at most M samples, as intervals; the kernel writes into it."""

    keeps_overlapping: Int8s  # [S], of the rate profile
    samples: Int64s  # [S]
    window_ms: Int64s  # [S]
    times: Int64s  # [S, M, 6]
    values: Floats  # [S, M, 4]
    open_times: Int64s  # [S, 2], NEVER: nothing is open
    open_values: Floats  # [S, 2]
    sample_count: Int64s  # [S]
    sample_index: Int64s  # [S], slot of the current sample

    @classmethod
    def of(cls, states: SensorStates) -> Self:
        """Return the intervals of exactly known states: what a sensor held, neither more nor less.

        What was recorded and never logged before is not in them: it is gone after a whole window.

        >>> from spark_jobs.quota.rate_profile import RateProfile
        >>> exact = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
        >>> exact.restore(0, 0, [(5, 7, 1.5)])
        >>> states = IntervalStates.of(exact)
        >>> [float(x) for x in states.values[0, 0, :2]]
        [1.5, 1.5]
        """
        n, slots = states.start_ms.shape
        times = np.full((n, slots, 6), NEVER, np.int64)
        times[:, :, START_MIN] = times[:, :, START_MAX] = states.start_ms
        times[:, :, LAST_MIN] = times[:, :, LAST_MAX] = states.last_event_ms
        values = np.zeros((n, slots, 4))
        values[:, :, VALUE_MIN] = values[:, :, VALUE_MAX] = states.value
        return cls(
            keeps_overlapping=states.keeps_overlapping.copy(),
            samples=states.samples.copy(),
            window_ms=states.window_ms.copy(),
            times=times,
            values=values,
            open_times=np.full((n, 2), NEVER, np.int64),
            open_values=np.zeros((n, 2)),
            sample_count=states.count.copy(),
            sample_index=states.index.copy(),
        )

    def may_hold_a_sample(self, sensor: int, earliest_ms: int, latest_ms: int) -> None:
        """Begin a sensor's first sample with an event of which nothing before is known.

        That event, between these times, may be of a sample that began up to a window before it.
        """
        began_ms = earliest_ms - int(self.window_ms[sensor]) + 1
        self.times[sensor, 0] = (began_ms, latest_ms, began_ms, latest_ms, NEVER, NEVER)
        self.values[sensor, 0] = 0.0
        self.sample_count[sensor], self.sample_index[sensor] = 1, 0

    def export(self, sensor: int) -> dict[str, Any]:
        """Return one sensor's state as plain values, which :meth:`restore` takes."""
        held = slice(0, int(self.sample_count[sensor]))
        open_from_ms, open_until_ms = _told(self.open_times[sensor])
        open_min, open_max = self.open_values[sensor].tolist()
        return {
            "sample_index": int(self.sample_index[sensor]),
            "samples": [
                dict(zip(TIMES + VALUES, (*_told(times), *values.tolist()), strict=True))
                for times, values in zip(
                    self.times[sensor, held], self.values[sensor, held], strict=True
                )
            ],
            "open_from_ms": open_from_ms,
            "open_until_ms": open_until_ms,
            "open_min": open_min,
            "open_max": open_max,
        }

    def restore(self, sensor: int, held: Mapping[str, Any]) -> None:
        """Set one sensor's state to what :meth:`export` told of one with the same settings."""
        assert len(held["samples"]) <= self.times.shape[1], held
        for slot, sample in enumerate(held["samples"]):
            self.times[sensor, slot] = _kept(sample[name] for name in TIMES)
            self.values[sensor, slot] = [sample[name] for name in VALUES]
        self.open_times[sensor] = _kept((held["open_from_ms"], held["open_until_ms"]))
        self.open_values[sensor] = held["open_min"], held["open_max"]
        self.sample_count[sensor] = len(held["samples"])
        self.sample_index[sensor] = held["sample_index"]


def _told(times_ms: Int64s) -> list[int | None]:
    return [None if ms == NEVER else ms for ms in times_ms.tolist()]


def _kept(times_ms: Iterable[int | None]) -> list[int]:
    return [NEVER if ms is None else ms for ms in times_ms]


class IntervalRows(NamedTuple):
    """Amounts to be recorded, n rows; a sensor's rows in order of their likeliest record time."""

    sensor: Int64s  # row of the states
    earliest_ms: Int64s
    latest_ms: Int64s
    amount_min: Floats
    amount_max: Floats
    bound: Floats  # NaN: none in force
    behaviour: Int8s  # RECORD or RECORD_ONLY
    request: Int64s  # rows of one request carry one number: they keep their order
    unlogged_max: Floats  # what the window may hold besides, of lines that are missing


class RateIntervals(NamedTuple):
    """Per row: the rate per second and the throttle lie in [min, max]; zeros where not measured."""

    rate_min: Floats
    rate_max: Floats
    throttle_time_min_ms: Int64s
    throttle_time_max_ms: Int64s
