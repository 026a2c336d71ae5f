"""The windowed rate in plain Python: slow, and made to be read beside Kafka's source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from spark_jobs.quota.constants import SAMPLES, WINDOW_MS
from spark_jobs.quota.java_math import java_divide, java_long_divide
from spark_jobs.quota.rate_profile import RateProfile

_START_MS = attrgetter("start_ms")


@dataclass(slots=True)
class Sample:
    """What was recorded since ``start_ms``. Kafka: ``SampledStat.Sample``."""

    start_ms: int
    last_event_ms: int
    value: float

    def reset(self, now_ms: int) -> None:
        """Start again, empty, at ``now_ms``."""
        self.start_ms = self.last_event_ms = now_ms
        self.value = 0.0


class Rate:
    """What a sensor recorded per second, over the last samples.

    A sample starts at the event that opened it: there is no grid. The state is ``index`` (the slot
    of the current sample) and ``slots`` (the samples in slot order, which is also the order in
    which their values are added up); a new object made from both goes on where the old one stood.

    Kafka: ``Rate`` over ``WindowedSum``, a ``SampledStat``.

    >>> rate = Rate(RateProfile.RATE_3_8)
    >>> rate.record(5_000.0, now_ms=0)
    >>> rate.record(7_000.0, now_ms=1_500)
    >>> rate.window_size_ms(now_ms=1_500), rate.measure(now_ms=1_500)
    (10500, 1142.857142857143)
    """

    def __init__(
        self,
        profile: RateProfile,
        samples: int = SAMPLES,
        window_ms: int = WINDOW_MS,
        index: int = 0,
        slots: Iterable[Sample] = (),
    ) -> None:
        assert samples >= 1, samples
        assert window_ms >= 1, window_ms
        self.profile = profile
        self.samples = samples
        self.window_ms = window_ms
        self.index = index
        self.slots = list(slots)

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value`` to the current sample, or to a new one once a window has passed.

        Obsolete samples stay: only measuring purges them.

        Kafka: ``SampledStat.record``, ``WindowedSum.update``.
        """
        sample = self._current(now_ms)
        if now_ms - sample.start_ms >= self.window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_event_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate per second; purges, so measuring changes the state.

        Infinite or NaN where the profile allows a window of 0 ms.

        Kafka: ``Rate.measure``.
        """
        return java_divide(self.total(now_ms), self.window_size_ms(now_ms) / 1000.0)

    def total(self, now_ms: int) -> float:
        """Return the sum of all samples, added up in slot order; purges.

        Kafka: ``SampledStat.measure``, ``WindowedSum.combine``.
        """
        self.purge_obsolete_samples(now_ms)
        total = 0.0
        for sample in self.slots:
            total += sample.value
        return total

    def window_size_ms(self, now_ms: int) -> int:
        """Return the milliseconds that the total is divided by; purges.

        They run from the start of the oldest sample. Where that is not long ago, windows are added
        as if nothing had been recorded in them, up to ``samples - 1`` full ones.

        Kafka: ``Rate.windowSize``.
        """
        self.purge_obsolete_samples(now_ms)
        elapsed_ms = now_ms - self.oldest(now_ms).start_ms
        full_windows = java_long_divide(elapsed_ms, self.window_ms)
        full_windows_min = self.samples - 1
        if full_windows < full_windows_min:
            elapsed_ms += (full_windows_min - full_windows) * self.window_ms
        return elapsed_ms if self.profile.allows_zero_window else max(elapsed_ms, 1)

    def oldest(self, now_ms: int) -> Sample:
        """Return the sample that started first, the lower slot of equal ones.

        Kafka: ``SampledStat.oldest``.
        """
        self._current(now_ms)
        return min(self.slots, key=_START_MS)

    def purge_obsolete_samples(self, now_ms: int) -> None:
        """Empty every sample that left the monitored window; it starts again at ``now_ms``.

        Kafka: ``SampledStat.purgeObsoleteSamples``.
        """
        for sample, overdue_ms in zip(self.slots, self.overdue_ms(now_ms), strict=True):
            if overdue_ms >= 0:
                sample.reset(now_ms)

    def overdue_ms(self, now_ms: int) -> list[int]:
        """Return the time (ms) each sample has been obsolete; negative while it is not."""
        window_begins_ms = now_ms - self.samples * self.window_ms
        if self.profile.keeps_overlapping_sample:
            return [window_begins_ms - sample.last_event_ms for sample in self.slots]
        return [window_begins_ms - sample.start_ms for sample in self.slots]

    def _current(self, now_ms: int) -> Sample:
        if not self.slots:
            self.slots.append(Sample(now_ms, now_ms, 0.0))
        return self.slots[self.index]

    def _advance(self, now_ms: int) -> Sample:
        self.index = (self.index + 1) % self.profile.slots(self.samples)
        if self.index >= len(self.slots):
            self.slots.append(Sample(now_ms, now_ms, 0.0))
        sample = self.slots[self.index]
        sample.reset(now_ms)
        return sample
