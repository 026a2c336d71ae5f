"""What would have been proposed on earlier days, tried on the day after each.

A proposal made from all days cannot be tried on a day that it was not made from. The rule that made
it can: at the end of each earlier day it is asked again, knowing no later day, and what it says is
replayed with the traffic of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow.dataset as ds

from spark_jobs.recommend.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.closed_loop import ClosedLoop, Harm, is_more_harm, replay_waiting
from spark_jobs.recommend.configured_values import QuotaEntity
from spark_jobs.recommend.days import SeenDay
from spark_jobs.recommend.entities import Case, bounding_cases
from spark_jobs.recommend.proposal import PROPOSED
from spark_jobs.recommend.read_traffic import traffic_of
from spark_jobs.recommend.traffic import SensorKey
from spark_jobs.settings import RecommendSettings

CaseKey = tuple[str, QuotaEntity]


@dataclass(frozen=True, slots=True)
class Trial:
    """One proposal of an earlier day on the day after it; throttle times are replayed."""

    day: int
    current: float
    proposed: float
    throttle_time_ms_before: int
    throttle_time_ms_after: int
    # What is left of the value above the largest rate: a share, negative where it was passed.
    headroom_before: float
    headroom_after: float
    # It went only as far as one step may.
    is_step: bool = False
    # Neighbours that would have been throttled more, where the day was replayed with its clients.
    harmed: tuple[Harm, ...] = ()

    def is_needed(self, settings: RecommendSettings) -> bool:
        """Return whether there was anything to promise: a raise of what was not throttled was not.

        A lower value always promises not to throttle.
        """
        is_raise = self.proposed > self.current
        return not is_raise or self.throttle_time_ms_before >= max(settings.min_throttle_ms, 1)

    def is_kept(self, settings: RecommendSettings) -> bool:
        """Return whether a raise did what it is for, or a lower value added little throttling.

        A raise leaves little throttling and covers what the next day asked for: a client that
        waits is throttled little by any larger value, and would send more. One step of several
        promises less throttling only. Nothing is kept that cost its neighbours more than it gained.
        """
        gained_ms = self.throttle_time_ms_before - self.throttle_time_ms_after
        if is_more_harm(self.harmed, gained_ms):
            return False
        is_raise = self.proposed > self.current
        share = settings.left_share_max if is_raise and not self.is_step else 1.0
        allowed = max(int(share * self.throttle_time_ms_before), settings.min_throttle_ms)
        covers = self.headroom_after >= 0 or self.is_step or not is_raise
        return covers and self.throttle_time_ms_after <= allowed


class Kept(NamedTuple):
    """How often a proposal kept its promise, of the days on which there was one to keep."""

    kept: int
    trials: int


def kept_of(trials: Iterable[Trial], settings: RecommendSettings) -> Kept:
    """Return how often what would have been proposed did what it promised."""
    needed = [trial for trial in trials if trial.is_needed(settings)]
    return Kept(sum(trial.is_kept(settings) for trial in needed), len(needed))


@dataclass(frozen=True, slots=True)
class Origin:
    """The cases as they were at the end of a day, and the day after with its decisions."""

    cases: Sequence[Case]
    following: SeenDay
    decisions: ds.Dataset
    closed_loop: ClosedLoop | None = None


def trials_of(
    wanted: Iterable[CaseKey],
    origins: Iterable[Origin],
    rules: Mapping[int, BrokerRule],
    settings: RecommendSettings,
) -> dict[CaseKey, list[Trial]]:
    """Return the trials of each wanted entity, a clamped proposal's among them, oldest first."""
    found: dict[CaseKey, list[Trial]] = {key: [] for key in wanted}
    for origin in origins if found else ():
        cases = [
            case
            for case in origin.cases
            if (case.quota_type, case.entity) in found
            and case.proposal.status == PROPOSED
            and case.proposal.proposed is not None
        ]
        for case, trial in _trials(cases, origin, rules, settings):
            found[case.quota_type, case.entity].append(trial)
    return found


def _trials(
    cases: Sequence[Case],
    origin: Origin,
    rules: Mapping[int, BrokerRule],
    settings: RecommendSettings,
) -> Iterator[tuple[Case, Trial]]:
    """Yield each case with its trial; a client with an override of its own is no follower then."""
    seen = origin.following.observations
    case_of = {key: case for key, case in bounding_cases(cases).items() if key in seen}
    throttles: dict[SensorKey, tuple[int, int]] = {}
    for traffic in traffic_of(origin.decisions, [seen[key].sensor for key in sorted(case_of)]):
        case = case_of[traffic.key]
        before, after = (
            int(np.sum(throttle_with(traffic, bound, rules)))
            for bound in (case.current, _proposed(case))
        )
        throttles[traffic.key] = before, after
    as_logged = {key: after for key, (_, after) in throttles.items()}
    replayed = replay_waiting(origin.closed_loop, cases, as_logged, origin.following)
    for case in cases:
        own = [o.sensor.key for o in case.observations if case_of.get(o.sensor.key) is case]
        if own:
            waiting = replayed.waiting(case, settings) if replayed else None
            trial = _trial(case, own, throttles, origin.following)
            yield case, replace(trial, harmed=waiting.harmed if waiting else ())


def _proposed(case: Case) -> float:
    proposed = case.proposal.proposed
    assert proposed is not None, "only cases with a value are tried"
    return proposed


def _trial(
    case: Case,
    own: Sequence[SensorKey],
    throttles: Mapping[SensorKey, tuple[int, int]],
    following: SeenDay,
) -> Trial:
    proposed = _proposed(case)
    peak = max(load.demand.rate for key in own for load in following.observations[key].brokers)
    return Trial(
        day=following.day,
        current=case.current,
        proposed=proposed,
        throttle_time_ms_before=sum(throttles[key][0] for key in own),
        throttle_time_ms_after=sum(throttles[key][1] for key in own),
        headroom_before=1 - peak / case.current,
        headroom_after=1 - peak / proposed,
        is_step=case.proposal.clamped_by is not None,
    )
