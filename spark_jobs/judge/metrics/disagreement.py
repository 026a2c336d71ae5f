"""Why a broker's metric and its log disagree, by what would make them agree, as a finding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_jobs.judge.causes.finding_id import finding
from spark_jobs.judge.causes.sentences import entity_name
from spark_jobs.judge.metrics.comparison import Comparison, Expectation, Span, slack_of
from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE, THROTTLE_TIME
from spark_jobs.quota.states import Int64s
from spark_jobs.settings import CrosscheckSettings

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
    comparison: Comparison, expectation: Expectation, settings: CrosscheckSettings
) -> LikelyCause:
    """Return the cause that would make metric and log agree, else the side that has more."""
    if comparison.metric == BYTE_RATE:
        tried = np.unique(np.linspace(0, comparison.compared - 1, _TRIED_SAMPLES).astype(int))
        found = _shifted(comparison, expectation, settings, tried)
        if found is not None:
            return found
        found = _of_another_window(comparison, expectation, settings, tried)
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
    comparison: Comparison, expectation: Expectation, settings: CrosscheckSettings, tried: Int64s
) -> LikelyCause | None:
    shifts_s = np.array(sorted((0, *_SHIFTS_S, *(-s for s in _SHIFTS_S)), key=abs))
    at_ms = comparison.at_ms[tried]
    moments = at_ms[None, :] - 1000 * shifts_s[:, None]
    distinct, places = np.unique(moments, return_inverse=True)
    expected = expectation.at(distinct, np.zeros(0, np.int64))[places].reshape(moments.shape)
    slack = slack_of(comparison.metric, settings)
    holds = Span(expected, expected).holds(comparison.measured[tried], settings.tolerance, slack)
    shares = holds.mean(axis=1)
    # Of shifts that explain as much the one in the middle is the likeliest: stamps are coarse.
    best = float(shares.max())
    if best < max(_EXPLAINS, shares[0] + _EXPLAINS_MORE_BY):
        return None
    middle = int(np.median(shifts_s[shares >= best - 1e-9]))
    return LikelyCause(CLOCKS_DIFFER, shift_s=middle)


def _of_another_window(
    comparison: Comparison, expectation: Expectation, settings: CrosscheckSettings, tried: Int64s
) -> LikelyCause | None:
    slack = slack_of(comparison.metric, settings)

    def share_of(samples: int) -> float:
        history = expectation.history
        other = history.with_rule(replace(history.rule, samples=samples))
        expected = replace(expectation, history=other).at(
            comparison.at_ms[tried], np.zeros(0, np.int64)
        )
        span = Span(expected, expected)
        return float(span.holds(comparison.measured[tried], settings.tolerance, slack).mean())

    own = expectation.history.rule.samples
    shares = {n: share_of(n) for n in _WINDOW_SAMPLES if n != own}
    best = max(shares, key=lambda n: shares[n])
    if shares[best] < max(_EXPLAINS, share_of(own) + _EXPLAINS_MORE_BY):
        return None
    return LikelyCause(OTHER_WINDOW, samples=best)


KIND = "disagrees_with_metrics"
_METRICS = (BYTE_RATE, THROTTLE_TIME)
_UNITS = {BYTE_RATE: "B/s", THROTTLE_TIME: "ms"}


def is_disagreement(comparison: Comparison, samples_min: int, share_min: float) -> bool:
    """Return True if more samples disagree than by chance: in a row, or by their share."""
    wrong = comparison.disagreeing
    if wrong < samples_min:
        return False
    return comparison.longest_run >= samples_min or wrong >= share_min * comparison.compared


def finding_row(
    comparison: Comparison, cause: LikelyCause, cluster: str, lost_requests: int
) -> dict[str, Any]:
    """Return the finding; ``lost_requests`` of the sensor's clients are known to be missing."""
    key = comparison.key
    wrong = np.flatnonzero(~comparison.agrees)
    worst = wrong[int(np.argmax(_distance(comparison)[wrong]))]
    evidence = {
        "metric": comparison.metric,
        "samples": comparison.compared,
        "disagreeing_samples": comparison.disagreeing,
        "longest_run": comparison.longest_run,
        "measured_to_expected": _ratio(comparison, wrong),
        "worst_at_ms": int(comparison.at_ms[worst]),
        "worst_measured": _finite(comparison.measured[worst]),
        "worst_expected": _finite(comparison.expected[worst]),
        "likely_cause": cause.cause,
        "shift_s": cause.shift_s,
        "window_samples": cause.samples,
        "lost_requests": lost_requests,
    }
    return finding(
        cluster,
        key,
        KIND,
        # The two metrics of a sensor are two findings, whichever of them a day has.
        1 + _METRICS.index(comparison.metric),
        evidence,
        from_ms=int(comparison.at_ms[wrong[0]]),
        until_ms=int(comparison.at_ms[wrong[-1]]) + 1,
        decisions=comparison.disagreeing,
        severity="warning",
        explanation=_explanation(comparison, evidence, cause),
    )


def _explanation(comparison: Comparison, evidence: dict[str, Any], cause: LikelyCause) -> str:
    key, unit = comparison.key, _UNITS[comparison.metric]
    who = entity_name(key.quota_user, key.quota_client_id)
    worst = f"{evidence['worst_measured']:,.6g} {unit} where its log leads to " + (
        "none"
        if evidence["worst_expected"] is None
        else f"{evidence['worst_expected']:,.6g} {unit}"
    )
    ratio = evidence["measured_to_expected"]
    typical = "" if ratio is None else f", mostly {ratio:.3g} times what the log says"
    return (
        f"{who[0].upper()}{who[1:]}: the metric {comparison.metric} of broker {key.broker_id} "
        f"({key.quota_type}) disagrees with its log in {comparison.disagreeing:,} of "
        f"{comparison.compared:,} samples{typical}; at worst it is {worst}. "
        f"{_cause(cause, evidence['lost_requests'])}"
    )


def _cause(cause: LikelyCause, lost_requests: int) -> str:
    if cause.cause == CLOCKS_DIFFER:
        assert cause.shift_s is not None, cause
        which = "behind" if cause.shift_s > 0 else "ahead of"
        return (
            f"They agree where the log's clock is {abs(cause.shift_s)} s {which} that of the "
            "metrics: another clock, or another time zone of the log."
        )
    if cause.cause == BROKER_COUNTED_MORE and lost_requests:
        return (
            f"The broker counted more than is logged: {lost_requests:,} requests of its clients "
            "are known to be missing from the log."
        )
    return _CAUSES[cause.cause].format(samples=cause.samples)


_CAUSES = {
    BROKER_COUNTED_MORE: (
        "The broker counted more than is logged: lines are missing from the archive, or other "
        "clients share the sensor."
    ),
    LOG_HOLDS_MORE: (
        "The log holds more than the broker counted: another quota entity counted these requests, "
        "or the log or the metric is of another broker."
    ),
    OTHER_WINDOW: (
        "They agree if the broker keeps {samples} samples: tell the audit of its quota.window.num."
    ),
    BOTH_WAYS: (
        "Sometimes the broker counted more, sometimes less: the metric may be of another broker or "
        "client, or old when it was scraped."
    ),
}


def _distance(comparison: Comparison) -> np.ndarray:
    """Return each sample's distance from its admissible values; infinite where it has none."""
    outside = np.fmax(
        comparison.span.least - comparison.measured, comparison.measured - comparison.span.most
    )
    return np.where(np.isnan(outside), np.inf, outside)


def _ratio(comparison: Comparison, wrong: np.ndarray) -> float | None:
    expected = comparison.expected[wrong]
    usable = np.isfinite(expected) & (expected > 0)
    if not usable.any():
        return None
    return round(float(np.median(comparison.measured[wrong][usable] / expected[usable])), 4)


def _finite(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None
