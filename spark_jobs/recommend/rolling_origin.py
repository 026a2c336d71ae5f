"""What would have been proposed on earlier days, tried on the day after each.

A proposal made from all days cannot be tried on a day that it was not made from. The rule that made
it can: at the end of each earlier day it is asked again, knowing no later day, and what it says is
replayed with the traffic of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.dataset as ds

from spark_jobs.recommend.backtest import BrokerRule, throttle_with
from spark_jobs.recommend.closed_loop import ClosedLoop, replay_waiting
from spark_jobs.recommend.configured_values import QuotaEntity
from spark_jobs.recommend.days import SeenDay
from spark_jobs.recommend.entities import Case, bounding_cases
from spark_jobs.recommend.forecast import Trial
from spark_jobs.recommend.proposal import PROPOSED
from spark_jobs.recommend.read_traffic import traffic_of
from spark_jobs.recommend.traffic import SensorKey
from spark_jobs.settings import RecommendSettings

CaseKey = tuple[str, QuotaEntity]


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
