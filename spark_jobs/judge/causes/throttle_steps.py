"""Which quota a broker went by, told by how much longer each throttle is than the one before it.

A throttle is what the samples hold at the quota, less the time that they span:
``throttle = held / bound - window``. Of two requests in a row that both are throttled the second
one adds its bytes to what is held, and the time in between to the window, whenever the samples
began: 8,000 B after 100 ms make the throttle 700 ms longer at a quota of 10,000 B/s. Only where a
sample left in between is it another step. So the steps tell a quota that the replay of a sensor
cannot, where its requests were placed by another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.judge.causes.hypotheses import (
    EXPLAINED_WITHIN_MS,
    MARGIN_MIN_UNACCUSED,
    SHARE_MIN,
    SIZES_MIN,
    BoundEstimate,
    Explanation,
    OtherQuota,
    Score,
    distinct,
    unknown_quota,
)
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions
from spark_jobs.judge.causes.stretches import Stretch, maximal_runs
from spark_jobs.quota.codes import CONFIGURED
from spark_jobs.quota.states import Bools, Floats, Int64s

STEPS_MIN = 10
"""So many steps between throttles have to tell of a quota, and say other than the configured."""
_PRECISE_MS = 100
"""A step of so many ms tells the quota to a hundredth."""


@dataclass(frozen=True, slots=True)
class ThrottleSteps:
    """Steps between throttles of one configured quota; arrays of one length.

    Such as of 8,000 B in 800 ms: the throttle is 700 ms longer, 100 ms later.
    """

    row: Int64s  # of the history: the later one of the two
    amount: Floats  # of the later one
    step_ms: Int64s  # by which the throttles' ends, and the requests, are apart

    def taken(self, rows: Bools) -> ThrottleSteps:
        """Return these steps alone."""
        return ThrottleSteps(self.row[rows], self.amount[rows], self.step_ms[rows])

    def due_ms(self, bound: float) -> Floats:
        """Return the steps (ms) at a quota, such as 800 for 8,000 B at 10,000 B/s."""
        return np.asarray(self.amount * 1000.0 / bound)

    def fits(self, bound: float) -> Bools:
        """Return True where a step is that of the quota."""
        return np.asarray(np.abs(self.due_ms(bound) - self.step_ms) <= EXPLAINED_WITHIN_MS)


def throttle_steps(history: SensorDecisions, group: slice) -> ThrottleSteps:
    """Return the steps between throttled requests in a row, of the rows of one configured quota.

    In the order of their lines, as a line is written when its request was recorded. A fetch that is
    answered with nothing is taken out again, and of two quotas the longer throttle is logged:
    neither makes a step.
    """
    order = group.start + np.argsort(history.log_time_ms[group], kind="stable")
    logged_ms = history.logged_ms[order]
    tells = (logged_ms > 0) & ~history.is_unrecorded[order] & ~np.isnan(history.amount[order])
    tells &= history.request_throttle_max_ms[order] == 0
    later = np.flatnonzero(tells[1:] & tells[:-1]) + 1
    ends_ms = logged_ms + history.log_time_ms[order]
    step_ms = ends_ms[later] - ends_ms[later - 1]
    return ThrottleSteps(order[later], history.amount[order][later], step_ms)


def explain_by_steps(
    history: SensorDecisions, stretch: Stretch, quotas: Sequence[OtherQuota]
) -> Explanation | None:
    """Return the other quota that the steps of a stretch are of, None where they tell of none.

    The stretch comes back as far as its quota's steps go; ``evidence`` counts the steps in it that
    are another one at the configured quota.
    """
    configured = float(history.bound[stretch.first])
    steps = throttle_steps(history, slice(stretch.group_first, stretch.group_end))
    inside = steps.taken((steps.row >= stretch.first) & (steps.row < stretch.end))
    estimate = _estimate(inside)
    if estimate is None:
        return None

    def score(hypothesis: str, bound: float, detail: str | None = None) -> Score:
        told = _informative(inside, bound, configured)
        explained = int(np.count_nonzero(told.fits(bound)))
        share = explained / max(len(told.row), 1)
        return Score(hypothesis, share, explained, explained, bound, detail)

    known = [score(q.hypothesis, q.bound, q.level) for q in quotas if q.bound != configured]
    ranked = distinct([*known, *unknown_quota(score, estimate.bound, configured)])
    if not ranked:
        return None
    winner, *others = ranked
    assert winner.bound is not None
    told = _informative(inside, winner.bound, configured)
    if not _is_told(told, winner):
        return None
    fitting = int(np.count_nonzero(told.fits(configured)))
    rival = Score(CONFIGURED, fitting / len(told.row), fitting, 0)
    if winner.share - rival.share < MARGIN_MIN_UNACCUSED:
        return None
    runner_up = max([rival, *others], key=lambda one: one.share)
    whole = _extended(steps, stretch, winner.bound, configured)
    return Explanation(whole, winner, runner_up, rival, len(told.row), estimate)


def _informative(steps: ThrottleSteps, bound: float, configured: float) -> ThrottleSteps:
    """Return the steps that are another one at the configured quota."""
    apart_ms = np.abs(steps.due_ms(bound) - steps.due_ms(configured))
    return steps.taken(apart_ms > 2 * EXPLAINED_WITHIN_MS)


def _is_told(told: ThrottleSteps, winner: Score) -> bool:
    """Return True if enough steps of several sizes are of the winner's quota."""
    assert winner.bound is not None
    sizes = np.unique(told.amount[told.fits(winner.bound)])
    is_many = winner.explained >= STEPS_MIN and len(sizes) >= SIZES_MIN
    return is_many and winner.share >= SHARE_MIN


def _estimate(steps: ThrottleSteps) -> BoundEstimate | None:
    """Return the quota of the middle step, of those that tell it to a hundredth."""
    told = steps.taken((steps.step_ms >= _PRECISE_MS) & (steps.amount > 0))
    if len(told.row) < STEPS_MIN:
        return None
    each = told.amount * 1000.0 / told.step_ms
    low, middle, high = np.quantile(each, (0.25, 0.5, 0.75)).tolist()
    return BoundEstimate(middle, low, high, len(each))


def _extended(steps: ThrottleSteps, stretch: Stretch, bound: float, configured: float) -> Stretch:
    """Return the stretch as far as more steps are of the quota alone than of the configured one."""
    told = _informative(steps, bound, configured)
    is_own, is_configured = told.fits(bound), told.fits(configured)
    signs = is_own.astype(np.int64) - is_configured
    runs = [told.row[first:end] for first, end in maximal_runs(signs.tolist())]
    near = [row for row in runs if row.min() < stretch.end and row.max() >= stretch.first]
    return Stretch(
        first=min([stretch.first, *(int(row.min()) for row in near)]),
        end=max([stretch.end, *(int(row.max()) + 1 for row in near)]),
        group_first=stretch.group_first,
        group_end=stretch.group_end,
    )
