"""What would have been proposed on earlier days, tried on the day after each.

A proposal made from all days cannot be tried on a day that it was not made from. The rule that made
it can: at the end of each earlier day it is asked again, knowing no later day, and what it says is
replayed with the traffic of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.recommend.read_traffic import traffic_of
from spark_jobs.recommend.weigh.backtest import throttle_with
from spark_jobs.recommend.weigh.cases import cases_of
from spark_jobs.recommend.weigh.configured_values import ConfiguredValues, ValueKey, end_of_day_ms
from spark_jobs.recommend.weigh.forecast import ClosedLoop, Trial, replay_waiting
from spark_jobs.recommend.weigh.outlook import SeenDay, over_days
from spark_jobs.recommend.weigh.proposal import Case, Rules, bounding_cases
from spark_jobs.recommend.weigh.traffic import SensorId
from spark_jobs.recommend.weigh.withheld import within_capacity
from spark_jobs.warehouse.days import DAY_MS


@dataclass(frozen=True, slots=True)
class EarlierDay:
    """A day before the one that is recommended for, with what it showed and its decisions."""

    seen: SeenDay
    decisions: ds.Dataset
    closed_loop: ClosedLoop | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The cases as they were at the end of a day, and the day after."""

    cases: Sequence[Case]
    following: EarlierDay


def origins_of(
    days: Sequence[EarlierDay],
    changes: Sequence[Mapping[str, Any]],
    rules: Rules,
) -> Iterator[Origin]:
    """Yield every day but the last as it looked at its end, with the day after it."""
    for i in range(1, len(days)):
        known = [day.seen for day in days[:i]]
        values = ConfiguredValues(changes, end_of_day_ms(known[-1].day * DAY_MS))
        # What was found wrong then is not asked: findings of other days are not at hand.
        cases = cases_of(over_days(known, rules.settings), values, replace(rules, faults={}))
        yield Origin(within_capacity(cases, values.explicit(), rules.settings), days[i])


def trials_of(
    wanted: Iterable[ValueKey],
    origins: Iterable[Origin],
    rules: Rules,
) -> dict[ValueKey, list[Trial]]:
    """Return the trials of each wanted entity, a clamped proposal's among them, oldest first."""
    found: dict[ValueKey, list[Trial]] = {key: [] for key in wanted}
    for origin in origins if found else ():
        cases = [
            case
            for case in origin.cases
            if case.key in found
            and case.proposal.status == PROPOSED
            and case.proposal.proposed is not None
        ]
        for case, trial in _trials(cases, origin, rules):
            found[case.key].append(trial)
    return found


def _trials(
    cases: Sequence[Case],
    origin: Origin,
    rules: Rules,
) -> Iterator[tuple[Case, Trial]]:
    """Yield each case with its trial; a client with an override of its own is no follower then."""
    following = origin.following
    seen = following.seen.observations
    case_of = {key: case for key, case in bounding_cases(cases).items() if key in seen}
    throttles: dict[SensorId, tuple[int, int]] = {}
    for traffic in traffic_of(following.decisions, [seen[key].sensor for key in sorted(case_of)]):
        case = case_of[traffic.key]
        before, after = (
            int(np.sum(throttle_with(traffic, bound, rules.brokers)))
            for bound in (case.current, _proposed(case))
        )
        throttles[traffic.key] = before, after
    as_logged = {key: after for key, (_, after) in throttles.items()}
    replayed = replay_waiting(following.closed_loop, cases, as_logged, following.seen)
    for case in cases:
        own = [o.sensor.key for o in case.observations if case_of.get(o.sensor.key) is case]
        if own:
            waiting = replayed.waiting(case, rules.settings) if replayed else None
            trial = _trial(case, own, throttles, following.seen)
            yield case, replace(trial, harmed=waiting.harmed if waiting else ())


def _proposed(case: Case) -> float:
    proposed = case.proposal.proposed
    assert proposed is not None, "only cases with a value are tried"
    return proposed


def _trial(
    case: Case,
    own: Sequence[SensorId],
    throttles: Mapping[SensorId, tuple[int, int]],
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
