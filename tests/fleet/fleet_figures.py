"""The figures of a fleet: its rate of wrong decisions, and whether it keeps the limits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

# Of the lock: Great Expectations needs it.
from scipy.stats import binomtest

from spark_jobs.score.agreement import Tally
from spark_jobs.score.score_capture import share
from tests.fleet.run_score import RunScore

MILLION = 1_000_000
CONFIDENCE = 0.95

WRONG_PER_MILLION_MAX = 1.0
FAILED_RUNS_SHARE_MAX = 0.1
"""Runs whose load failed say nothing; more of them than this say that the fleet is broken."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One demand on a fleet: what was found, and whether it is enough.

    ``is_of_accusations`` where missing it means that somebody sound was accused.
    """

    demand: str
    found: str
    is_kept: bool
    is_of_accusations: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of several runs as one."""

    runs: int
    loaded: int
    decisions: int
    decided: int
    wrong: int
    findings: int
    missing: int
    produces: Tally
    mutations: Tally

    @property
    def wrong_per_million(self) -> float:
        """Return how many of a million judged decisions were called wrong."""
        return MILLION * self.wrong / self.decided if self.decided else math.nan

    @property
    def wrong_per_million_bound(self) -> float:
        """Return what that rate is not above, with a confidence of CONFIDENCE."""
        return MILLION * upper_bound(self.wrong, self.decided)


def totals(scores: Iterable[RunScore]) -> Totals:
    """Return the counts of all runs together."""
    produces, mutations = Tally(), Tally()
    scores = list(scores)
    for score in scores:
        produces.add(score.produces)
        mutations.add(score.mutations)
    return Totals(
        runs=len(scores),
        loaded=sum(score.run.is_loaded for score in scores),
        decisions=sum(score.decisions for score in scores),
        decided=sum(score.decided for score in scores),
        wrong=sum(len(score.accusations) for score in scores),
        findings=sum(len(score.findings) for score in scores),
        missing=sum(score.missing for score in scores),
        produces=produces,
        mutations=mutations,
    )


def upper_bound(events: int, tries: int) -> float:
    """Return the share that is not exceeded with CONFIDENCE: Clopper and Pearson's, one-sided.

    >>> upper_bound(0, 0), round(1_000_000 * upper_bound(0, 3_000_000), 3)
    (1.0, 0.999)
    """
    if tries == 0:
        return 1.0
    test = binomtest(events, tries, alternative="less")
    return float(test.proportion_ci(CONFIDENCE, method="exact").high)


def limits(scores: Sequence[RunScore]) -> list[Limit]:
    """Return each demand on a fleet of sound brokers."""
    total = totals(scores)
    mutations = share(total.mutations.agreeing, total.mutations.decisions)
    agreements = _known(scores, lambda score: score.decision_agreement)
    throttles = _known(scores, lambda score: score.throttle_within_1ms)
    wrong_max = WRONG_PER_MILLION_MAX * total.decided / MILLION
    return [
        Limit("decisions were judged", f"{total.decided:,}", total.decided > 0),
        Limit("0 findings of warning or critical", f"{total.findings}", total.findings == 0, True),
        Limit(
            f"at most {WRONG_PER_MILLION_MAX:g} decision called wrong in a million",
            f"{total.wrong} of {total.decided:,}", total.wrong <= wrong_max, True,
        ),
        Limit(
            "mutations replayed right: all",
            f"{total.mutations.agreeing} of {total.mutations.decisions}", mutations in (None, 1.0),
        ),
        _at_least("decisions agree on 0.999 in nine of ten runs", agreements, 0.999, 0.9),
        _at_least("decisions agree on 0.995 in all runs", agreements, 0.995, 1.0),
        _at_least("throttles are within 1 ms on 0.95 in nine of ten runs", throttles, 0.95, 0.9),
        Limit(
            "throttles are within 1 ms on 0.98 in the median run",
            f"{statistics.median(throttles):.4f}" if throttles else "-",
            not throttles or statistics.median(throttles) >= 0.98,
        ),
    ]  # fmt: skip


def misses_a_limit(score: RunScore) -> bool:
    """Return True if a run alone keeps not every demand, so that it is worth a look.

    Such as: it accuses nobody, and 0.95 of its decisions agree.
    """
    return not all(limit.is_kept for limit in limits([score]))


def has_too_many_failed(failed: int, runs: int) -> bool:
    """Return whether so many runs gave nothing to score that the others prove little.

    >>> has_too_many_failed(1, 3), has_too_many_failed(2, 3), has_too_many_failed(2, 20)
    (False, True, False)
    """
    return failed > max(1, FAILED_RUNS_SHARE_MAX * runs)


def _known(scores: Iterable[RunScore], of: Callable[[RunScore], float | None]) -> list[float]:
    return [figure for figure in map(of, scores) if figure is not None]


def _at_least(demand: str, figures: Sequence[float], least: float, runs_share: float) -> Limit:
    reached = sum(figure >= least for figure in figures)
    found = f"{reached} of {len(figures)} runs, the least {min(figures, default=math.nan):.4f}"
    return Limit(demand, found, reached >= runs_share * len(figures))
