"""Whether brokers counted otherwise than configured: what the throttles of a day say together.

They may have counted by the rate of another version, or one connection apart from the others.
Throttles of one sensor may deviate because its samples began at other times. What nearly all
throttles of a sensor, of a broker, or of all brokers of one version say, only another way of
counting explains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.judge.causes.hypotheses import (
    GAIN_MIN,
    SHARE_MIN,
    SHARE_MIN_UNACCUSED,
    THROTTLES_MIN,
    THROTTLES_MIN_UNACCUSED,
    Explanation,
    OtherReplay,
    Score,
    is_explained,
)
from spark_jobs.judge.causes.sensor_decisions import SensorDecisions, throttle_ms
from spark_jobs.judge.causes.stretch_findings import ExplainedStretch, explained_stretch
from spark_jobs.judge.causes.stretches import Stretch
from spark_jobs.quota.codes import CONFIGURED, COUNTED_APART
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.states import Bools, Int64s

_DEVIATING_MIN = 10
# Of a sensor with a wrong decision, such as after a client was given a window of its own.
_THROTTLES_MIN_WHOLE = 2
# Of a sensor without one: a sample that began at another record may look like a connection apart.
_THROTTLES_MIN_APART = 10
# A sample that leaves between two throttles frees whoever asks then, and soon no one connection.
_FREE_MIN, _FREE_SHARE_MIN = 10, 0.9
# Requests were placed by the rate of the broker's version: where throttles are of another, some
# times are off by a little, and one in five throttles with them.
_SHARE_MIN_TOGETHER = 0.8


@dataclass(frozen=True, slots=True)
class Counts:
    """Decisions that say anything, such as 144, and how many of them each way explains."""

    decisions: int = 0
    explained: int = 0  # by the other way of counting
    configured: int = 0  # by that of the broker's version
    deviating: int = 0  # that the broker's version does not explain
    deviating_explained: int = 0
    throttles: int = 0  # of the sensor, that only the other way explains
    free: int = 0  # of a connection apart: not throttled between throttles of the others

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both together."""
        return Counts(*(getattr(self, n) + getattr(other, n) for n in Counts.__slots__))

    @property
    def is_clear(self) -> bool:
        """Return True if only the other way explains them: four in five, and far more.

        Of many throttles three in five: no other cause gives them to the millisecond.
        """
        is_many = self._is_most(SHARE_MIN) and self.throttles >= THROTTLES_MIN_UNACCUSED
        is_told = self.throttles >= THROTTLES_MIN or self.free >= _FREE_MIN
        return is_many or (self._is_most(_SHARE_MIN_TOGETHER) and is_told)

    @property
    def is_own(self) -> bool:
        """Return True if most of what deviates does so in this way."""
        return self.deviating_explained >= SHARE_MIN * self.deviating

    @property
    def is_own_of_many(self) -> bool:
        """Return True if so much of what deviates does so that it is of a way that others tell."""
        is_part = self.deviating_explained >= GAIN_MIN * self.deviating
        return is_part and self.throttles >= THROTTLES_MIN

    @property
    def is_whole(self) -> bool:
        """Return True if the other way explains all that deviates, two throttles among them."""
        is_all = self.deviating_explained == self.deviating
        return self._is_most(SHARE_MIN) and is_all and self.throttles >= _THROTTLES_MIN_WHOLE

    @property
    def is_nearly_whole(self) -> bool:
        """Return True if it explains nearly all of everything, many throttles among them."""
        is_most = self.deviating_explained >= SHARE_MIN_UNACCUSED * self.deviating
        is_most &= self._is_most(SHARE_MIN_UNACCUSED)
        return is_most and (self.throttles >= _THROTTLES_MIN_APART or self.free >= 2 * _FREE_MIN)

    def _is_most(self, share_min: float) -> bool:
        return (
            self.explained >= share_min * self.decisions
            and self.explained - self.configured >= GAIN_MIN * self.decisions
            and self.deviating >= _DEVIATING_MIN
        )


@dataclass(frozen=True, slots=True)
class CountingTrial:
    """One sensor's decisions of a day, and what one other way of counting makes of them."""

    key: SensorKey
    own: str  # the profile of its broker's version, such as rate_3_8
    hypothesis: str  # OTHER_RATE_PROFILE or COUNTED_APART
    tried: str  # a profile, or a connection
    counts: Counts
    told: ExplainedStretch | None  # of the sensor's life that deviates, or of several
    is_accused: bool = True  # a decision of the sensor is wrong


def counting_trial(
    key: SensorKey, own: str, history: SensorDecisions, replay: OtherReplay, change_ms: int
) -> CountingTrial:
    """Return a trial: the counts of a sensor's ``history`` as ``replay`` counts it, and a stretch.

    Such as 144 decisions, all explained by rate_3_3, of which rate_3_8 explains 72. ``replay`` is
    of another rate profile than the ``own`` one, or of a connection apart from the others.
    """
    configured_ms = history.throttle_ms(history.bound)
    other_ms = throttle_ms(replay.rate, replay.window_size_ms, history.bound)
    says = _tells(history, configured_ms)
    says &= (history.logged_ms > 0) | (configured_ms > 0) | (other_ms > 0)
    is_tried = np.zeros(len(history), bool)
    is_tried[replay.rows] = True
    says &= is_tried
    agrees = is_explained(history.logged_ms, configured_ms)
    is_other = is_explained(history.logged_ms, other_ms)
    deviating = says & ~agrees
    throttles = deviating & is_other & (history.logged_ms > 0)

    def counted(rows: Bools) -> Counts:
        masks = (rows, rows & is_other, rows & agrees, rows & ~agrees, rows & ~agrees & is_other)
        return Counts(*(int(np.count_nonzero(mask)) for mask in (*masks, throttles)))

    counts = counted(says)
    if replay.apart is not None:
        # The others' requests were placed as if all were counted together, and some are off.
        is_own = history.connection == replay.apart
        of_connection = replace(counted(says & is_own), free=_free(history, is_own, says, agrees))
        counts = of_connection if of_connection.is_clear else counts
    told = None
    if counts.deviating:
        # No process counts in two ways: it did so for as long as this sensor lived.
        epoch = history.sensor_epoch
        first, last = epoch[np.flatnonzero(deviating)[[0, -1]]]
        is_bound = ~np.isnan(history.bound)
        rows = np.flatnonzero(is_tried & is_bound & (epoch >= first) & (epoch <= last))
        stretch = Stretch(int(rows[0]), int(rows[-1]) + 1, 0, len(history))
        explanation = _explanation(stretch, counts, replay)
        told = explained_stretch(key, history, explanation, change_ms)
    is_accused = bool(history.is_wrong.any())
    return CountingTrial(key, own, replay.hypothesis, replay.detail, counts, told, is_accused)


def _free(history: SensorDecisions, is_own: Bools, says: Bools, agrees: Bools) -> int:
    """Return the number of a connection's deviating decisions without a throttle, such as 27.

    Those count that have throttles of the others before and after them; none where more than one in
    ten of all such decisions is of another connection.
    """
    of_others = np.flatnonzero(says & ~is_own)
    free = np.flatnonzero(says & ~agrees & (history.logged_ms == 0))
    after = np.searchsorted(of_others, free, side="right")
    before = np.searchsorted(of_others, free) - 1
    is_between = (before >= 0) & (after < len(of_others))
    for neighbours in (before, after):
        rows = of_others[np.where(is_between, neighbours, 0)] if len(of_others) else neighbours
        is_between &= history.logged_ms[rows] > 0
    own = int(np.count_nonzero(is_between & is_own[free]))
    return own if own >= _FREE_SHARE_MIN * np.count_nonzero(is_between) else 0


def is_worth_a_trial(history: SensorDecisions) -> bool:
    """Return True if a connection apart may be told: one decision is wrong, or enough deviate."""
    configured_ms = history.throttle_ms(history.bound)
    agrees = is_explained(history.logged_ms, configured_ms)
    deviating = np.count_nonzero(_tells(history, configured_ms) & ~agrees)
    return bool(history.is_wrong.any() or deviating >= _DEVIATING_MIN)


def _tells(history: SensorDecisions, configured_ms: Int64s) -> Bools:
    # Of two quotas of one request the larger throttle is logged: the other one's tells nothing.
    is_alone = history.request_throttle_max_ms == 0
    return np.asarray((configured_ms >= 0) & ~np.isnan(history.bound) & is_alone)


def _explanation(stretch: Stretch, counts: Counts, replay: OtherReplay) -> Explanation:
    def score(hypothesis: str, explained: int, throttles: int, detail: str | None) -> Score:
        share = explained / counts.decisions
        return Score(hypothesis, share, explained, throttles, detail=detail)

    configured = score(CONFIGURED, counts.configured, 0, None)
    winner = score(replay.hypothesis, counts.explained, counts.throttles, replay.detail)
    return Explanation(stretch, winner, configured, configured, counts.decisions, None)


def counted_otherwise(
    trials: Iterable[CountingTrial], stretches: Iterable[ExplainedStretch] = ()
) -> dict[SensorKey, ExplainedStretch]:
    """Return the sensors that were counted otherwise, each with what is told of it.

    ``trials`` hold, for each sensor, the likelier of two alike ways first; ``stretches`` are what
    explains parts of a sensor's day.
    """
    listed = list(trials)
    in_part = {(one.key, one.hypothesis, one.evidence["detail"]) for one in stretches}
    pools: defaultdict[tuple[object, ...], Counts] = defaultdict(Counts)
    for trial in listed:
        for pool in _pools(trial):
            pools[pool] += trial.counts
    found: dict[SensorKey, ExplainedStretch] = {}
    best: dict[SensorKey, int] = {}
    for trial in listed:
        counts, told = trial.counts, trial.told
        is_told_in_part = (trial.key, trial.hypothesis, trial.tried) in in_part
        # Whatever others say, what deviates here does so in this way.
        clear = [
            pools[pool].explained
            for pool in _pools(trial)
            if _is_clear(trial, pools[pool])
            and (
                counts.is_own
                or (pools[pool] != counts and (counts.is_own_of_many or is_told_in_part))
            )
        ]
        if told is None or not clear or max(clear) <= best.get(trial.key, 0):
            continue
        found[trial.key], best[trial.key] = told, max(clear)
    return found


def _is_clear(trial: CountingTrial, counts: Counts) -> bool:
    """Return True if ``counts`` tell of the trial; more has to tell of a connection apart.

    A sample that began at another record than replayed may look the same: a decision of the sensor
    is wrong, or it explains nearly all.
    """
    if trial.hypothesis != COUNTED_APART:
        return counts.is_clear
    if not trial.is_accused:
        return counts.is_nearly_whole
    return counts.is_clear or counts.is_whole


def _pools(trial: CountingTrial) -> tuple[tuple[object, ...], ...]:
    """Return the keys of the pools that a trial counts towards.

    Such as those of its sensor, of broker 1, and of all that are said to count by rate_3_8. A
    connection is of one sensor alone.
    """
    alike = (trial.own, trial.tried)
    if trial.hypothesis == COUNTED_APART:
        return (("sensor", trial.key, *alike),)
    return (("sensor", trial.key, *alike), ("broker", trial.key.broker_id, *alike), alike)
