"""One series of samples beside what the log of its sensor leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.judge.metrics.expected import Expectation, Span, span_around
from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE, MetricSeries
from spark_jobs.judge.metrics.sensor_amounts import Bools, Floats, Int64s
from spark_jobs.quota.sensor_key import SensorKey

_SLACK = {BYTE_RATE: 1.0}
"""Bytes per second that are nothing; of throttle times it is ``throttle_slack_ms``."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What is no disagreement: a share of the value, and how far a stamp may be off."""

    share: float
    around_ms: int
    scrape_interval_ms: int
    throttle_slack_ms: float

    def slack(self, metric: str) -> float:
        """Return the difference that counts as none, whatever the value."""
        return _SLACK.get(metric, self.throttle_slack_ms)


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
    tolerances: Tolerances,
) -> Comparison:
    """Return the outcome of each sample of ``samples`` that is a number and can be foretold.

    ``unknown`` are the periods of which nothing can be said; the first that holds a sample counts.
    """
    at_ms, values, left_out = _comparable(samples, unknown)
    read_ms = np.zeros(0, np.int64) if samples.is_resampled else samples.at_ms
    expected = expectation.at(at_ms, read_ms)
    slack = tolerances.slack(expectation.metric)
    span = Span(expected, expected)
    agrees = span.holds(values, tolerances.share, slack)
    before_ms = tolerances.around_ms + tolerances.scrape_interval_ms * samples.is_resampled
    # Others may read the metric too, or nobody but at other times.
    for reads in (read_ms, np.zeros(0, np.int64)):
        rest = np.flatnonzero(~agrees)
        if not len(rest):
            break
        around = span_around(expectation, at_ms[rest], before_ms, tolerances.around_ms, reads)
        span = Span(span.least.copy(), span.most.copy())
        wider = Span(span.least[rest], span.most[rest]).joined(around)
        span.least[rest], span.most[rest] = wider.least, wider.most
        agrees[rest] = wider.holds(values[rest], tolerances.share, slack)
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
