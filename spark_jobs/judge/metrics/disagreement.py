"""A disagreement of a broker's metric and its log as a row of ``findings``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from spark_jobs.judge.causes.finding_id import finding_id
from spark_jobs.judge.causes.sentences import entity_name
from spark_jobs.judge.metrics.comparison import Comparison
from spark_jobs.judge.metrics.likely_cause import (
    BOTH_WAYS,
    BROKER_COUNTED_MORE,
    CLOCKS_DIFFER,
    LOG_HOLDS_MORE,
    OTHER_WINDOW,
    LikelyCause,
)
from spark_jobs.judge.metrics.quota_metrics import BYTE_RATE, THROTTLE_TIME

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
    return {
        # The two metrics of a sensor are two findings, whichever of them a day has.
        "finding_id": finding_id(cluster, key, KIND, 1 + _METRICS.index(comparison.metric)),
        **key._asdict(),
        "kind": KIND,
        "from_ms": int(comparison.at_ms[wrong[0]]),
        "until_ms": int(comparison.at_ms[wrong[-1]]) + 1,
        "decisions": comparison.disagreeing,
        "severity": "warning",
        "explanation": _explanation(comparison, evidence, cause),
        "evidence": json.dumps(evidence, sort_keys=True),
        "hypothesis": None,
        "hypothesis_share": None,
        "runner_up": None,
        "runner_up_share": None,
        "estimated_bound": None,
    }


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
