"""The bound that a broker must have had, from its throttles alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.judge.causes.sensor_history import SensorHistory


@dataclass(frozen=True, slots=True)
class BoundEstimate:
    """A bound estimated from ``decisions`` throttles; half of them lie in [low, high]."""

    bound: float
    low: float
    high: float
    decisions: int

    @property
    def spread(self) -> float:
        """Return the middle half's width, relative to the bound."""
        return (self.high - self.low) / self.bound


def estimate_bound(history: SensorHistory, rows: slice) -> BoundEstimate | None:
    """Return the bound that explains the throttles of ``rows`` best, None where there are none.

    Solving Kafka's ``throttle = (rate - bound) / bound * window`` for the bound gives
    ``rate * window / (throttle + window)`` per throttled decision, whatever bound is configured.
    Their median stands where up to half of them are off, because a line is missing or a sample
    began at another millisecond than thought.
    """
    logged_ms, window_ms = history.logged_ms[rows], history.window_size_ms[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        each = history.rate[rows] * window_ms / (logged_ms + window_ms)
    each = each[(logged_ms > 0) & np.isfinite(each) & (each > 0)]
    if not len(each):
        return None
    low, middle, high = np.quantile(each, (0.25, 0.5, 0.75)).tolist()
    return BoundEstimate(middle, low, high, len(each))


def rounded(value: float, digits: int) -> float:
    """Return ``value`` with ``digits`` significant digits.

    >>> rounded(250_003.9, 2), rounded(0.0123456, 3)
    (250000.0, 0.0123)
    """
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
