"""What a broker computed for one amount on a windowed-rate sensor, each number by itself."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import decide
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms


@dataclass(frozen=True, slots=True)
class CountedSample:
    """One sample of the window after the amount was recorded."""

    start_ms: int
    value: float
    is_oldest: bool
    is_current: bool


@dataclass(frozen=True, slots=True)
class RateSteps:
    """From the amount to the throttle; times in milliseconds, the rate per second."""

    samples: tuple[CountedSample, ...]
    total: float
    # From the start of the oldest sample until now, and what was added for windows that were not
    # reached back to.
    elapsed_ms: int
    added_ms: int
    # So many whole windows are counted at least.
    full_windows_min: int
    window_size_ms: int
    rate: float
    bound: float
    is_acceptable: bool
    # Before the cap, where there is one.
    uncapped_ms: int
    throttle_time_ms: int

    @property
    def excess(self) -> float:
        """Return how much less would have been let through without a throttle."""
        return max(self.total - self.bound * self.window_size_ms / 1000.0, 0.0)


def rate_steps(
    before: Rate, amount: float, bound: float, now_ms: int, throttle_max_ms: int | None = None
) -> RateSteps:
    """Return the steps for ``amount`` on a sensor in the state ``before``, which stays as it is.

    Source: Kafka's ``ClientQuotaManager.recordAndGetThrottleTimeMs``, ``Rate``, ``QuotaUtils``.
    """
    rate = copy.deepcopy(before)
    made = decide(rate, amount, bound, now_ms, throttle_max_ms=throttle_max_ms)
    oldest = rate.oldest(now_ms)
    elapsed_ms = now_ms - oldest.start_ms
    accepted = is_acceptable(made.rate, bound)
    uncapped_ms = 0 if accepted else throttle_time_ms(made.rate, bound, made.window_size_ms)
    counted = [
        CountedSample(sample.start_ms, sample.value, sample is oldest, i == rate.index)
        for i, sample in enumerate(rate.slots)
        if sample.value or sample is oldest or i == rate.index
    ]
    return RateSteps(
        samples=tuple(sorted(counted, key=lambda sample: sample.start_ms)),
        total=rate.total(now_ms),
        elapsed_ms=elapsed_ms,
        added_ms=made.window_size_ms - elapsed_ms,
        full_windows_min=rate.samples - 1,
        window_size_ms=made.window_size_ms,
        rate=made.rate,
        bound=bound,
        is_acceptable=accepted,
        uncapped_ms=uncapped_ms,
        throttle_time_ms=made.throttle_time_ms,
    )
