"""Why a broker's metric and its log may disagree: what would make them agree is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.judge.metrics.comparison import Comparison, Tolerances
from spark_jobs.judge.metrics.expected import Expectation, Span
from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE
from spark_jobs.judge.metrics.sensor_amounts import Int64s

CLOCKS_DIFFER = "clocks_differ"
OTHER_WINDOW = "other_window"
BROKER_COUNTED_MORE = "broker_counted_more"
LOG_HOLDS_MORE = "log_holds_more"
BOTH_WAYS = "both_ways"

_TRIED_SAMPLES = 40
_SHIFTS_S = (*range(1, 121), *(hour * 3600 for hour in range(1, 15)))
_WINDOW_SAMPLES = (2, 3, 6, 11, 16, 21, 31, 61)
# What is tried must explain so much, and so much more than nothing at all.
_EXPLAINS = 0.8
_EXPLAINS_MORE_BY = 0.3
_ONE_WAY = 0.8


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What explains a disagreement best.

    ``shift_s``: the metric is what the log says so many seconds earlier; ``samples``: as if the
    broker kept so many samples. Both None where that is not the cause.
    """

    cause: str
    shift_s: int | None = None
    samples: int | None = None


def likely_cause(
    comparison: Comparison, expectation: Expectation, tolerances: Tolerances
) -> LikelyCause:
    """Return the cause that would make metric and log agree, else the side that has more."""
    if comparison.metric == BYTE_RATE:
        tried = np.unique(np.linspace(0, comparison.compared - 1, _TRIED_SAMPLES).astype(int))
        found = _shifted(comparison, expectation, tolerances, tried)
        if found is not None:
            return found
        found = _of_another_window(comparison, expectation, tolerances, tried)
        if found is not None:
            return found
    wrong = ~comparison.agrees
    # Where the log expects no value at all, the broker has more.
    is_less = comparison.measured[wrong] < comparison.span.least[wrong]
    less = float(is_less.mean())
    if less <= 1 - _ONE_WAY:
        return LikelyCause(BROKER_COUNTED_MORE)
    return LikelyCause(LOG_HOLDS_MORE if less >= _ONE_WAY else BOTH_WAYS)


def _shifted(
    comparison: Comparison, expectation: Expectation, tolerances: Tolerances, tried: Int64s
) -> LikelyCause | None:
    shifts_s = np.array(sorted((0, *_SHIFTS_S, *(-s for s in _SHIFTS_S)), key=abs))
    at_ms = comparison.at_ms[tried]
    moments = at_ms[None, :] - 1000 * shifts_s[:, None]
    distinct, places = np.unique(moments, return_inverse=True)
    expected = expectation.at(distinct, np.zeros(0, np.int64))[places].reshape(moments.shape)
    slack = tolerances.slack(comparison.metric)
    holds = Span(expected, expected).holds(comparison.measured[tried], tolerances.share, slack)
    shares = holds.mean(axis=1)
    # Of shifts that explain as much the one in the middle is the likeliest: stamps are coarse.
    best = float(shares.max())
    if best < max(_EXPLAINS, shares[0] + _EXPLAINS_MORE_BY):
        return None
    middle = int(np.median(shifts_s[shares >= best - 1e-9]))
    return LikelyCause(CLOCKS_DIFFER, shift_s=middle)


def _of_another_window(
    comparison: Comparison, expectation: Expectation, tolerances: Tolerances, tried: Int64s
) -> LikelyCause | None:
    slack = tolerances.slack(comparison.metric)

    def share_of(samples: int) -> float:
        history = expectation.history
        other = history.with_rule(replace(history.rule, samples=samples))
        expected = replace(expectation, history=other).at(
            comparison.at_ms[tried], np.zeros(0, np.int64)
        )
        span = Span(expected, expected)
        return float(span.holds(comparison.measured[tried], tolerances.share, slack).mean())

    own = expectation.history.rule.samples
    shares = {n: share_of(n) for n in _WINDOW_SAMPLES if n != own}
    best = max(shares, key=lambda n: shares[n])
    if shares[best] < max(_EXPLAINS, share_of(own) + _EXPLAINS_MORE_BY):
        return None
    return LikelyCause(OTHER_WINDOW, samples=best)
