"""Hypothesis strategies of what sensors record: times around whole windows, amounts, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from spark_jobs.quota.kernels import NO_THROTTLE_MAX
from spark_jobs.quota.rate_decision import RECORD, RECORD_AND_UNRECORD, RECORD_ONLY
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import SensorStates

EPOCH_MS = 1_700_000_000_000
SENSORS = 3
ROWS_MAX = 40


def step(window_ms: int) -> st.SearchStrategy[int]:
    """Return milliseconds to the next event: at once, soon, or whole windows give or take one."""
    whole = st.builds(
        lambda k, d: max(k * window_ms + d, 0), st.integers(0, 13), st.integers(-1, 1)
    )
    return st.one_of(st.just(0), st.integers(0, window_ms), whole)


def step_times(window_ms: int) -> st.SearchStrategy[list[int]]:
    return st.lists(step(window_ms), min_size=1, max_size=ROWS_MAX)


AMOUNTS = st.one_of(
    st.integers(0, 20_000).map(float),
    st.floats(0, 1e6),
    st.sampled_from([0.0, 1e-7, 0.1, 1e15, -5.0]),
)
BOUNDS = st.sampled_from([0.0, 0.01, 1.0, 500.0, 500.0, 1e6, math.nan])


@dataclass(frozen=True, slots=True)
class Settings:
    """What each of S sensors is configured with."""

    profiles: list[RateProfile]
    samples: list[int]
    window_ms: list[int]

    def states(self) -> SensorStates:
        return SensorStates.allocate(self.profiles, self.samples, self.window_ms)


def settings() -> st.SearchStrategy[Settings]:
    def each(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
        return st.lists(values, min_size=SENSORS, max_size=SENSORS)

    return st.builds(
        Settings,
        each(st.sampled_from(list(RateProfile))),
        each(st.sampled_from([1, 2, 3, 11])),
        each(st.sampled_from([1, 7, 1000, 1000])),
    )


def _times(rows: list[tuple[object, ...]]) -> list[int]:
    """Return the running sum of the steps, which are the rows' second values."""
    return (EPOCH_MS + np.cumsum([row[1] for row in rows], dtype=np.int64)).tolist()


@dataclass(frozen=True, slots=True)
class RateRow:
    sensor: int
    now_ms: int
    amount: float
    bound: float
    behaviour: int
    logged_throttle_time_ms: int
    throttle_max_ms: int


RATE_COLUMNS = (
    "sensor",
    "now_ms",
    "amount",
    "bound",
    "behaviour",
    "logged_throttle_time_ms",
    "throttle_max_ms",
)


def rate_rows() -> st.SearchStrategy[list[RateRow]]:
    row = st.tuples(
        st.integers(0, SENSORS - 1),
        st.one_of(step(1000), step(7), st.integers(-5, 0)),
        st.one_of(AMOUNTS, st.just(math.nan)),
        BOUNDS,
        st.sampled_from([RECORD, RECORD, RECORD_AND_UNRECORD, RECORD_AND_UNRECORD, RECORD_ONLY]),
        st.one_of(st.just(0), st.integers(0, 40_000)),
        st.sampled_from([NO_THROTTLE_MAX, 1000]),
    )

    def timed(rows: list[tuple[object, ...]]) -> list[RateRow]:
        return [RateRow(r[0], now, *r[2:]) for r, now in zip(rows, _times(rows), strict=True)]

    return st.lists(row, max_size=ROWS_MAX).map(timed)


@dataclass(frozen=True, slots=True)
class MutationRow:
    sensor: int
    now_ms: int
    amount: float
    bound: float
    is_strict: bool
    was_admitted: bool


def mutation_rows(amounts: st.SearchStrategy[float]) -> st.SearchStrategy[list[MutationRow]]:
    row = st.tuples(
        st.integers(0, SENSORS - 1),
        step(1000),
        amounts,
        st.sampled_from([0.0, 0.5, 2.0, 10.0, 10.0, math.nan]),
        st.booleans(),
        st.booleans(),
    )

    def timed(rows: list[tuple[object, ...]]) -> list[MutationRow]:
        return [MutationRow(r[0], now, *r[2:]) for r, now in zip(rows, _times(rows), strict=True)]

    return st.lists(row, max_size=ROWS_MAX).map(timed)


PARTITIONS = st.integers(0, 200).map(float)


def columns(rows: list[object], names: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """Return the named fields of ``rows`` as one array each."""
    kinds = {"amount": np.float64, "bound": np.float64}
    return tuple(
        np.array([getattr(row, name) for row in rows], kinds.get(name, np.int64)) for name in names
    )
