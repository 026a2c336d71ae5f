"""One series of samples beside what the log of its sensor leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE, MetricSeries
from spark_jobs.judge.metrics.sensor_amounts import SampleRule, SensorAmounts, measured_at
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.states import Bools, Floats, Int64s
from spark_jobs.settings import CrosscheckSettings

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


_SLACK = {BYTE_RATE: 1.0}
"""Bytes per second that are nothing; of throttle times it is ``throttle_slack_ms``."""


def slack_of(metric: str, settings: CrosscheckSettings) -> float:
    """Return the difference of a metric that counts as none, whatever the value."""
    return _SLACK.get(metric, settings.throttle_slack_ms)


@dataclass(frozen=True, slots=True)
class Period:
    """Stretches in [from_ms, until_ms) of which nothing can be said, for one reason."""

    reason: str
    spans: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The samples of one metric of a sensor that were compared, in order, and what came out.

    ``expected`` is the value at the stamp itself, ``span`` what it may have been around it.
    """

    key: SensorKey
    metric: str
    at_ms: Int64s
    measured: Floats
    expected: Floats
    span: Span
    agrees: Bools
    left_out: Mapping[str, int]

    @property
    def compared(self) -> int:
        """Return the number of samples that were compared."""
        return len(self.at_ms)

    @property
    def disagreeing(self) -> int:
        """Return the number of samples that disagree."""
        return int((~self.agrees).sum())

    @property
    def longest_run(self) -> int:
        """Return the length of the longest run of samples that disagree."""
        run = longest = 0
        for agrees in self.agrees.tolist():
            run = 0 if agrees else run + 1
            longest = max(longest, run)
        return longest


def compare(
    key: SensorKey,
    expectation: Expectation,
    samples: MetricSeries,
    unknown: Sequence[Period],
    settings: CrosscheckSettings,
) -> Comparison:
    """Return the outcome of each sample of ``samples`` that is a number and can be foretold.

    ``unknown`` are the periods of which nothing can be said; the first that holds a sample counts.
    """
    at_ms, values, left_out = _comparable(samples, unknown)
    read_ms = np.zeros(0, np.int64) if samples.is_resampled else samples.at_ms
    expected = expectation.at(at_ms, read_ms)
    slack = slack_of(expectation.metric, settings)
    span = Span(expected, expected)
    agrees = span.holds(values, settings.tolerance, slack)
    before_ms = settings.around_ms + settings.scrape_interval_ms * samples.is_resampled
    # Others may read the metric too, or nobody but at other times.
    for reads in (read_ms, np.zeros(0, np.int64)):
        rest = np.flatnonzero(~agrees)
        if not len(rest):
            break
        around = span_around(expectation, at_ms[rest], before_ms, settings.around_ms, reads)
        span = Span(span.least.copy(), span.most.copy())
        wider = Span(span.least[rest], span.most[rest]).joined(around)
        span.least[rest], span.most[rest] = wider.least, wider.most
        agrees[rest] = wider.holds(values[rest], settings.tolerance, slack)
    return Comparison(key, expectation.metric, at_ms, values, expected, span, agrees, left_out)


def _comparable(
    samples: MetricSeries, unknown: Sequence[Period]
) -> tuple[Int64s, Floats, dict[str, int]]:
    left_out: Counter[str] = Counter()
    is_number = np.isfinite(samples.values)
    left_out["no_number"] = int((~is_number).sum())
    at_ms, values = samples.at_ms[is_number], samples.values[is_number]
    for period in unknown:
        begins = np.array([span[0] for span in period.spans], np.int64)
        ends = np.array([span[1] for span in period.spans], np.int64)
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], np.maximum.accumulate(ends[order])
        place = np.searchsorted(begins, at_ms, side="right") - 1
        inside = (place >= 0) & (at_ms < ends[place]) if len(begins) else np.zeros(len(at_ms), bool)
        left_out[period.reason] += int(inside.sum())
        at_ms, values = at_ms[~inside], values[~inside]
    return at_ms, values, {reason: n for reason, n in left_out.items() if n}
