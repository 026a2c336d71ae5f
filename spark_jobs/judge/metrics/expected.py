"""What a metric may have been around a moment: a scrape is not stamped when the broker is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE
from spark_jobs.judge.metrics.sensor_amounts import (
    Bools,
    Floats,
    Int64s,
    SampleRule,
    SensorAmounts,
    measured_at,
)

_STEP_MS = 100
# A minute is looked at in coarser steps: what a rate does in one second tells little of it.
_STEPS_MAX = 60


@dataclass(frozen=True, slots=True)
class Expectation:
    """How to foretell one metric of a sensor."""

    metric: str
    history: SensorAmounts

    def at(self, at_ms: Int64s, read_ms: Int64s) -> Floats:
        """Return the metric at moments in order, NaN where it has no value; see measured_at."""
        if self.metric == BYTE_RATE:
            return measured_at(self.history, at_ms, read_ms).rate
        return _averages(self.history, at_ms, read_ms)


class Span(NamedTuple):
    """The least and the most of a metric, NaN where it had no value."""

    least: Floats
    most: Floats

    def holds(self, values: Floats, tolerance: float, slack: float) -> Bools:
        """Return True for values inside, or outside by ``tolerance`` (a share) and ``slack``."""
        low = self.least - tolerance * np.abs(self.least) - slack
        high = self.most + tolerance * np.abs(self.most) + slack
        inside: Bools = (low <= values) & (values <= high)
        return inside

    def joined(self, other: Span) -> Span:
        """Return the bounds that hold for both."""
        return Span(np.fmin(self.least, other.least), np.fmax(self.most, other.most))


def throttle_history(decisions: SensorAmounts, rule: SampleRule) -> SensorAmounts:
    """Return the amounts of a client's sensor of throttle times: each throttle that was thrown.

    Source: Kafka's ``ClientQuotaManager.throttle``; its sensor has the broker's metrics.num.samples
    and metrics.sample.window.ms, not the quota's.
    """
    rows = decisions.throttle_ms > 0
    return replace(
        decisions,
        rule=rule,
        at_ms=decisions.at_ms[rows],
        amount=decisions.throttle_ms[rows].astype(np.float64),
        bound=decisions.bound[rows],
        is_unrecorded=np.zeros(int(rows.sum()), bool),
        throttle_ms=decisions.throttle_ms[rows],
        epoch=decisions.epoch[rows],
        carried=None,
    )


def span_around(
    expectation: Expectation, at_ms: Int64s, before_ms: int, after_ms: int, read_ms: Int64s
) -> Span:
    """Return the least and the most of a metric from ``before_ms`` before to ``after_ms`` after.

    Looked at in steps, and right after each amount, where it jumps.
    """
    step_ms = max(_STEP_MS, (before_ms + after_ms) // _STEPS_MAX)
    offsets = np.arange(-before_ms, after_ms + step_ms, step_ms).clip(max=after_ms)
    around = (at_ms[:, None] + offsets[None, :]).ravel()
    amounts_ms = expectation.history.at_ms
    nearest = np.searchsorted(at_ms, amounts_ms)
    is_near = np.zeros(len(amounts_ms), bool)
    for place, reach_ms in ((nearest - 1, after_ms), (nearest, before_ms)):
        inside = (place >= 0) & (place < len(at_ms))
        distance = np.abs(amounts_ms - at_ms[np.clip(place, 0, len(at_ms) - 1)])
        is_near |= inside & (distance <= reach_ms)
    moments = np.unique(np.concatenate([around, amounts_ms[is_near]]))
    found = expectation.at(moments, read_ms)
    least, most = np.empty(len(at_ms)), np.empty(len(at_ms))
    begins = np.searchsorted(moments, at_ms - before_ms)
    ends = np.searchsorted(moments, at_ms + after_ms, side="right")
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        known = found[begin:end][np.isfinite(found[begin:end])]
        least[i], most[i] = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
    return Span(least, most)


def _averages(history: SensorAmounts, at_ms: Int64s, read_ms: Int64s) -> Floats:
    """Return the mean throttle time of the samples; NaN of none. Kafka: ``Avg.combine``."""
    counts = replace(history, amount=np.ones(len(history.amount)))
    sums = measured_at(history, at_ms, read_ms, is_checked=False).total
    thrown = measured_at(counts, at_ms, read_ms, is_checked=False).total
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(thrown > 0, sums / thrown, np.nan)
