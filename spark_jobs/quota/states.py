"""The states of many sensors as arrays: moved on by the kernels, handed from day to day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from spark_jobs.quota.rate_profile import RateProfile

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SampleValues = tuple[int, int, float]
"""One sample: start_ms, last_event_ms, value."""


_Count = TypeVar("_Count", int, Int64s)


class BucketState(NamedTuple):
    """A token bucket as the log tells of it (``tables.BUCKET``)."""

    tokens_min: float = 0.0
    tokens_max: float = 0.0
    last_update_ms: int = 0
    debt_slack_ms: float | None = None
    debt_bound: float | None = None

    @classmethod
    def of(cls, tokens: float, last_update_ms: int) -> Self:
        """Return a bucket of which only this is told; tokens of NaN: it may hold anything."""
        is_known = not math.isnan(tokens)
        least, most = (tokens, tokens) if is_known else (-math.inf, math.inf)
        return cls(least, most, last_update_ms)

    @property
    def tokens(self) -> float:
        """Return the number of tokens; NaN where it is not known."""
        return self.tokens_max if self.tokens_max == self.tokens_min else math.nan


UNTOUCHED = BucketState()
"""As it is before the first record, which fills it."""
ExportedState = tuple[int, list[SampleValues], BucketState]
"""Current slot, samples in slot order, bucket."""


@dataclass(frozen=True, slots=True)
class SensorStates:
    """The states of S sensors, one row each, of rates (at most M samples) and of token buckets.

    A sensor uses one of the two; the other stays as allocated. The kernels write into the arrays.
    """

    keeps_overlapping: Int8s  # [S], of the rate profile
    allows_zero_window: Int8s  # [S], of the rate profile
    samples: Int64s  # [S], how many the configuration says
    window_ms: Int64s  # [S], the length of one sample
    start_ms: Int64s  # [S, M]
    last_event_ms: Int64s  # [S, M]
    value: Floats  # [S, M]
    count: Int64s  # [S], samples there are
    index: Int64s  # [S], slot of the current sample
    tokens: Floats  # [S], the most there can be
    tokens_least: Floats  # [S], the least; the same unless an amount was not in the log
    last_update_ms: Int64s  # [S]
    # By how much the bucket's debt may end earlier or later, and the bound that this was said of;
    # NaN: nothing was recorded.
    debt_slack_ms: Floats  # [S]
    debt_bound: Floats  # [S]

    @classmethod
    def allocate(
        cls,
        profiles: Sequence[RateProfile],
        samples: Sequence[int],
        window_ms: Sequence[int],
    ) -> Self:
        """Return the states of sensors that have not recorded anything, one per profile given."""
        sizes = {len(profiles), len(samples), len(window_ms)}
        assert len(sizes) == 1, f"profiles, samples and windows of different lengths: {sizes}"
        assert min(samples, default=1) >= 1, min(samples)
        assert min(window_ms, default=1) >= 1, min(window_ms)
        n = len(profiles)
        slots = max((p.slots(s) for p, s in zip(profiles, samples, strict=True)), default=1)
        return cls(
            keeps_overlapping=np.array([p.keeps_overlapping_sample for p in profiles], np.int8),
            allows_zero_window=np.array([p.allows_zero_window for p in profiles], np.int8),
            samples=np.array(samples, np.int64),
            window_ms=np.array(window_ms, np.int64),
            start_ms=np.zeros((n, slots), np.int64),
            last_event_ms=np.zeros((n, slots), np.int64),
            value=np.zeros((n, slots), np.float64),
            count=np.zeros(n, np.int64),
            index=np.zeros(n, np.int64),
            tokens=np.zeros(n, np.float64),
            tokens_least=np.zeros(n, np.float64),
            last_update_ms=np.zeros(n, np.int64),
            debt_slack_ms=np.full(n, np.nan),
            debt_bound=np.full(n, np.nan),
        )

    def __len__(self) -> int:
        return len(self.count)

    def rate_arrays(
        self,
    ) -> tuple[Int8s, Int8s, Int64s, Int64s, Int64s, Int64s, Floats, Int64s, Int64s]:
        """Return the arrays that ``replay_rate`` takes last, in its order."""
        return (
            self.keeps_overlapping,
            self.allows_zero_window,
            self.samples,
            self.window_ms,
            self.start_ms,
            self.last_event_ms,
            self.value,
            self.count,
            self.index,
        )

    def bucket_arrays(self) -> tuple[Int64s, Int64s, Floats, Floats, Int64s]:
        """Return the arrays that ``replay_token_bucket`` takes last, in its order."""
        return (
            self.samples,
            self.window_ms,
            self.tokens,
            self.tokens_least,
            self.last_update_ms,
        )

    def export(self, sensor: int) -> ExportedState:
        """Return the state of one sensor as plain values, which :meth:`restore` takes.

        >>> states = SensorStates.allocate([RateProfile.RATE_3_8], [11], [1000])
        >>> states.restore(0, 0, [(5, 7, 1.5)])
        >>> states.export(0)[:2]
        (0, [(5, 7, 1.5)])
        """
        slots = slice(0, int(self.count[sensor]))
        samples = zip(
            self.start_ms[sensor, slots].tolist(),
            self.last_event_ms[sensor, slots].tolist(),
            self.value[sensor, slots].tolist(),
            strict=True,
        )
        bucket = BucketState(
            float(self.tokens_least[sensor]),
            float(self.tokens[sensor]),
            int(self.last_update_ms[sensor]),
            _number(self.debt_slack_ms[sensor]),
            _number(self.debt_bound[sensor]),
        )
        return int(self.index[sensor]), list(samples), bucket

    def restore(
        self,
        sensor: int,
        index: int,
        samples: Sequence[SampleValues],
        bucket: BucketState = UNTOUCHED,
    ) -> None:
        """Set one sensor's state."""
        slots_max = self.samples[sensor] + self.keeps_overlapping[sensor]
        assert len(samples) <= slots_max, (
            f"{len(samples)} samples for a sensor of {slots_max}: kept under other settings?"
        )
        assert 0 <= index < max(len(samples), 1), (index, len(samples))
        for slot, (start_ms, last_event_ms, value) in enumerate(samples):
            self.start_ms[sensor, slot] = start_ms
            self.last_event_ms[sensor, slot] = last_event_ms
            self.value[sensor, slot] = value
        self.count[sensor] = len(samples)
        self.index[sensor] = index
        self.tokens_least[sensor], self.tokens[sensor] = bucket.tokens_min, bucket.tokens_max
        self.last_update_ms[sensor] = bucket.last_update_ms
        self.debt_slack_ms[sensor] = _or_nan(bucket.debt_slack_ms)
        self.debt_bound[sensor] = _or_nan(bucket.debt_bound)

    def hold(self, sensor: int, start_ms: int) -> None:
        """Make a sensor hold one empty sample, which began at ``start_ms``."""
        self.count[sensor], self.index[sensor] = 1, 0
        self.start_ms[sensor, 0] = self.last_event_ms[sensor, 0] = start_ms
        self.value[sensor, 0] = 0.0

    def forget(self, sensor: int) -> None:
        """Reset one sensor to nothing recorded: a restarted broker, or a sensor idle for an hour.

        Kafka: ``ClientQuotaManager.InactiveSensorExpirationTimeSeconds``.
        """
        self.restore(sensor, 0, [])

    def take(self, sensors: npt.NDArray[np.intp]) -> SensorStates:
        """Return copies of the states of these sensors."""
        return SensorStates(*(getattr(self, name)[sensors] for name in self.__slots__))

    def put(self, sensors: npt.NDArray[np.intp], source: SensorStates) -> None:
        """Set the states of these sensors, each to one of ``source`` with the same settings."""
        for name in self.__slots__:
            getattr(self, name)[sensors] = getattr(source, name)

    def joined(self, other: SensorStates) -> SensorStates:
        """Return the states of both, one after the other; as many slots each, or none at all."""
        if not len(self):
            return other
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return SensorStates(*(np.concatenate(pair) for pair in pairs))


def remembered_ms(samples: _Count, window_ms: _Count) -> _Count:
    """Return for how long (ms) what a sensor recorded may count, such as 13 s of 11 windows of 1 s.

    A sample may begin almost a window before an event, and is kept for its last one.

    >>> remembered_ms(11, 1000)
    13000
    """
    return (samples + 2) * window_ms


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
