"""Long streams of amounts on many sensors, made of a seed: what a fast replay could get wrong."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from spark_jobs.quota.kernels import NO_THROTTLE_MAX, RateReplay, replay_rate
from spark_jobs.quota.rate_decision import NOT_MEASURED
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.states import Floats, Int64s, SensorStates
from tests.oracle.jvm_quota import bits
from tests.spark_jobs.quota.literal_rate import replay_literally

EPOCH_MS = 1_700_000_000_000
SAMPLES_MAX = 20
WINDOWS_MS = (1, 7, 1000, 1000, 1000, 2000)
BOUNDS = (0.0, 0.01, 500.0, 1e6, 1e9, np.nan)
STEPS = ("dense", "at once", "edges", "pauses", "sparse", "back")
AMOUNTS = ("bytes", "percent", "near 2^53", "signed", "fractions of huge", "zero")
STRANGE = (0.0, 0.002, 0.02, 0.3)
"""Shares of a sensor's amounts that are of another kind."""
LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RateStream:
    """N amounts as ``replay_rate`` takes them."""

    sensor: Int64s
    recorded_at_ms: Int64s
    amount: Floats
    bound: Floats
    behaviour: Int64s
    logged_throttle_time_ms: Int64s
    throttle_max_ms: Int64s

    @classmethod
    def of(cls, rng: np.random.Generator, states: SensorStates, n: int, *, mixed: bool) -> Self:
        """Return ``n`` rows on the sensors of ``states``, mixed or each sensor's together.

        Each sensor has steps of time and amounts of its own kind, and some of another.
        """
        sensors = len(states)
        sensor = rng.integers(0, sensors, n)
        if not mixed:
            sensor.sort()
        by_sensor = np.argsort(sensor, kind="stable")
        steps_ms = _steps_ms(rng, states, sensor[by_sensor])
        recorded_at_ms = np.empty(n, np.int64)
        recorded_at_ms[by_sensor] = EPOCH_MS + np.cumsum(steps_ms)
        unrecords, no_amount = rng.random(sensors) < 0.4, rng.random(sensors) * 0.2
        behaviour = np.where(unrecords[sensor], 1, 0)
        behaviour[rng.random(n) < (rng.random(sensors) < 0.2)[sensor] * 0.3] = 2
        amount = _amounts(rng, sensor, sensors)
        amount[rng.random(n) < no_amount[sensor]] = np.nan
        bound = rng.choice(BOUNDS, sensors)[sensor]
        changed = rng.random(n) < 0.01
        bound[changed] = rng.choice(BOUNDS, int(changed.sum()))
        return cls(
            sensor=sensor,
            recorded_at_ms=recorded_at_ms,
            amount=amount,
            bound=bound,
            behaviour=behaviour,
            logged_throttle_time_ms=np.where(rng.random(n) < 0.5, rng.integers(0, 40_000, n), 0),
            throttle_max_ms=np.where(rng.random(n) < 0.1, 1000, NO_THROTTLE_MAX),
        )

    def __len__(self) -> int:
        return len(self.sensor)

    def part(self, first: int, stop: int) -> Self:
        """Return the rows from ``first`` on, up to ``stop``."""
        return replace(self, **{f.name: getattr(self, f.name)[first:stop] for f in fields(self)})

    def columns(self) -> list[np.ndarray]:
        """Return the columns in the order of ``replay_rate``."""
        return [getattr(self, f.name) for f in fields(self)]


def random_sensors(rng: np.random.Generator, n: int) -> SensorStates:
    """Return ``n`` sensors of all profiles, of 1 to 20 samples, with nothing recorded."""
    profiles = [list(RateProfile)[i] for i in rng.integers(0, len(RateProfile), n)]
    samples = rng.integers(1, SAMPLES_MAX + 1, n).tolist()
    return SensorStates.allocate(profiles, samples, rng.choice(WINDOWS_MS, n).tolist())


def replayed(stream: RateStream, states: SensorStates) -> RateReplay:
    return replay_rate(*stream.columns(), *states.rate_arrays())


def replayed_literally(stream: RateStream, states: SensorStates) -> RateReplay:
    """Do as :func:`replayed` does, by the literal rule."""
    n = len(stream)
    found = RateReplay(
        amount=stream.amount.copy(),
        rate=np.full(n, np.nan),
        window_size_ms=np.full(n, NOT_MEASURED),
        throttle_time_ms=np.zeros(n, np.int64),
        oldest_value=np.full(n, np.nan),
        purge_margin_ms=np.full(n, LONG_MAX),
    )
    sensor, at_ms, _, bound, *others = stream.columns()
    replay_literally(sensor, at_ms, bound, *others, *states.rate_arrays(), *found)
    return found


def differences(found: RateReplay, expected: RateReplay) -> list[str]:
    """Return the columns that differ in a bit, with the first row that does."""
    return _differing(dict(zip(RateReplay._fields, zip(found, expected, strict=True), strict=True)))


def state_differences(found: SensorStates, expected: SensorStates) -> list[str]:
    """Return the arrays of states that differ in a bit, with the first sensor that does."""
    names = SensorStates.__slots__
    return _differing({name: (getattr(found, name), getattr(expected, name)) for name in names})


def _differing(pairs: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[str]:
    told = []
    for name, (found, expected) in pairs.items():
        if found.dtype.kind == "f":
            found, expected = bits(found), bits(expected)
        if not np.array_equal(found, expected):
            told.append(f"{name}, first at {np.argwhere(found != expected)[0].tolist()}")
    return told


def _steps_ms(rng: np.random.Generator, states: SensorStates, sensor: Int64s) -> Int64s:
    """Return the milliseconds from each row's predecessor on its sensor, rows sorted by sensor."""
    n = len(sensor)
    own = rng.integers(0, len(STEPS), len(states))[sensor]
    kind = np.where(rng.random(n) < 0.1, rng.integers(0, len(STEPS), n), own)
    window_ms, samples = states.window_ms[sensor], states.samples[sensor]
    windows = np.stack([np.ones_like(samples), samples - 1, samples, samples + 1])
    edges = windows[rng.integers(0, 4, n), np.arange(n)] * window_ms + rng.integers(-1, 2, n)
    choices = [
        rng.integers(0, window_ms // 20 + 2),
        np.zeros(n, np.int64),
        np.maximum(edges, 0),
        np.where(rng.random(n) < 0.02, rng.integers(0, 4 * samples * window_ms), window_ms // 50),
        rng.integers(0, 2 * window_ms + 2),
        rng.integers(-window_ms - 2, window_ms + 2),
    ]
    # Rarely as far back as there are samples.
    choices[-1] = np.where(rng.random(n) < 0.01, -samples * window_ms, choices[-1])
    return np.choose(kind, choices)


def _amounts(rng: np.random.Generator, sensor: Int64s, sensors: int) -> Floats:
    n = len(sensor)
    own = rng.integers(0, len(AMOUNTS), sensors)[sensor]
    strange = rng.choice(STRANGE, sensors)[sensor]
    kind = np.where(rng.random(n) < strange, rng.integers(0, len(AMOUNTS), n), own)
    whole = np.floor(rng.exponential(20_000.0, n))
    return np.choose(
        kind,
        [
            whole,
            rng.integers(0, 2**40, n) * 1e-7,
            np.floor(2.0 ** rng.uniform(49, 54, n)) * rng.choice([-1, 1, 1], n),
            whole * rng.choice([-1, 1], n),
            rng.random(n) * 1e16,
            np.where(rng.random(n) < 0.5, 0.0, -0.0),
        ],
    )
