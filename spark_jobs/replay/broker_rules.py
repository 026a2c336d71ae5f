"""Which rate profile each broker follows: as given, or the one that explains its log best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.broker_stream import RowGroup, request_chunks
from spark_jobs.replay.rates.fixed_times import Fixing
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.recorded_amounts import RecordedAmounts
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import Decided
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.replay_broker import DECIDE_ROWS
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.replay.survey_requests import Survey
from spark_jobs.replay.verdicts.verdicts import Tolerances
from spark_jobs.resolve.broker_log import BrokerLog, read_broker_log
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import BROKERS
from spark_jobs.warehouse.write import write_table

# What current brokers follow: used where a log has no throttle that could tell.
NEWEST_PROFILE = RateProfile.RATE_3_8


@dataclass(frozen=True, slots=True)
class ProfileScore:
    """How well one profile explains one broker's logged produce throttles."""

    broker_id: int
    profile: RateProfile
    decisions: int
    agreeing: int
    throttled: int
    within_1ms: int

    @property
    def rank(self) -> tuple[float, float]:
        """Return the shares that rank profiles: of exact throttles, then of equal decisions."""
        return (
            self.within_1ms / self.throttled if self.throttled else 0.0,
            self.agreeing / self.decisions if self.decisions else 0.0,
        )


def rules_of(scope: RunScope, assumed: Mapping[int, RateProfile]) -> dict[int, BrokerRules]:
    """Return each broker's rules; ``assumed`` is used where the table knows no profile."""
    rules = {}
    for row in read_table(scope, "brokers").to_pylist():
        profile = assumed.get(row["broker_id"]) or row["rate_profile"]
        rules[row["broker_id"]] = BrokerRules(
            profile=RateProfile(profile),
            samples=row["samples"],
            window_ms=row["window_ms"],
            controller_samples=row["controller_samples"],
            controller_window_ms=row["controller_window_ms"],
            throttle_max_ms=row["throttle_max_ms"],
        )
    return rules


def profiled_brokers(
    scope: RunScope,
    scores: Callable[[], Sequence[ProfileScore]],
    longest_throttle_ms: Mapping[int, int],
) -> dict[int, BrokerRules]:
    """Return every broker's rules, detecting the profiles that neither user nor archive named.

    What was detected is written into the ``brokers`` table. ``scores`` are asked for only then.
    ``longest_throttle_ms`` is of each broker's log: who holds throttles at the largest int logs it
    wherever it does so.
    """
    unknown = {
        r["broker_id"] for r in read_table(scope, "brokers").to_pylist() if not r["rate_profile"]
    }
    if not unknown:
        return rules_of(scope, {})
    best = best_profiles(scores())
    assumed = {broker: best[broker][-1] if broker in best else NEWEST_PROFILE for broker in unknown}
    held = {broker for broker in unknown if longest_throttle_ms.get(broker) == INT_MAX}
    _record(scope, assumed, detected=set(best), held=held)
    return rules_of(scope, assumed)


def best_profiles(scores: Sequence[ProfileScore]) -> dict[int, tuple[RateProfile, ...]]:
    """Return the profiles that explain each broker's log best, oldest first.

    They are several where the log does not tell them apart; a broker whose log tells none from
    another is left out.
    """
    best: dict[int, tuple[RateProfile, ...]] = {}
    for broker_id in {score.broker_id for score in scores}:
        of_broker = [s for s in scores if s.broker_id == broker_id and s.throttled]
        top = max((s.rank for s in of_broker), default=None)
        equal = tuple(
            p for p in RateProfile if any(s.profile is p and s.rank == top for s in of_broker)
        )
        if 0 < len(equal) < len(RateProfile):
            best[broker_id] = equal
    return best


def _record(
    scope: RunScope, assumed: Mapping[int, RateProfile], detected: set[int], held: set[int]
) -> None:
    rows = read_table(scope, "brokers").to_pylist()
    for row in rows:
        if row["broker_id"] in assumed:
            row["rate_profile"] = str(assumed[row["broker_id"]])
            row["throttle_max_ms"] = INT_MAX if row["broker_id"] in held else None
            row["version_source"] = "detected" if row["broker_id"] in detected else "unknown"
    write_table(pa.Table.from_pylist(rows, schema=BROKERS), "brokers", scope)


_NO_TOLERANCE = Tolerances(throttle_ms=0, warm_up_ms=0, change_ms=0)
_PRODUCES = QuotaType.PRODUCER_BYTE_RATE


@dataclass(frozen=True, slots=True)
class _ScoreTask:
    rules: Mapping[int, BrokerRules]
    resolutions: ResolutionTable
    controller_listeners: frozenset[str]
    broker_log: BrokerLog


def profile_scores(
    spark: SparkSession,
    scope: RunScope,
    brokers: Mapping[int, Sequence[RowGroup]],
    survey: Survey,
    resolutions: ResolutionTable,
) -> list[ProfileScore]:
    """Return the scores of all profiles for every broker that throttled, or should have.

    Requests whose client has a request quota as well tell nothing.
    """
    if not brokers:
        return []
    task = _ScoreTask(
        rules_of(scope, dict.fromkeys(brokers, RateProfile.RATE_3_8)),
        resolutions,
        survey.controller_listeners,
        read_broker_log(scope),
    )
    folder = scope.partition_dir("requests")
    scores = on_workers(spark, list(brokers.items()), partial(_scores, task=task), read=folder)
    return [score for of_broker in scores for score in of_broker]


def _scores(broker: tuple[int, Sequence[RowGroup]], task: _ScoreTask) -> list[ProfileScore]:
    broker_id, groups = broker
    codes = SensorCodes()
    streams = {
        profile: _plain_stream(broker_id, codes, task.rules[broker_id], profile)
        for profile in RateProfile
    }
    scores = {profile: ProfileScore(broker_id, profile, 0, 0, 0, 0) for profile in RateProfile}
    expand = RecordedAmounts(
        broker_id,
        task.resolutions,
        {_PRODUCES: codes},
        task.controller_listeners,
        task.broker_log,
        LostRequests(),
    )
    for requests, order, until_ms in request_chunks(groups, broker_id):
        rows = expand.rows(requests, order)[_PRODUCES]
        alone = rows.take(np.flatnonzero(~rows.has_request_bound))
        for profile, stream in streams.items():
            stream.take(alone)
            if until_ms is None or stream.is_due(DECIDE_ROWS):
                decided = stream.decide(until_ms)
                if decided is not None:
                    scores[profile] = _added(scores[profile], decided)
    return [score for score in scores.values() if score.decisions]


def _plain_stream(
    broker_id: int, codes: SensorCodes, rules: BrokerRules, profile: RateProfile
) -> RateStream:
    states = StreamStates(replace(rules, profile=profile), _PRODUCES)
    return RateStream(broker_id, codes, states, Fixing(), _NO_TOLERANCE, {}, unrecords=False)


def _added(score: ProfileScore, decided: Decided) -> ProfileScore:
    is_bound = ~np.isnan(decided.rows.bound)
    logged_ms, replayed_ms = decided.rows.logged_ms[is_bound], decided.throttle_ms[is_bound]
    throttled = (logged_ms > 0) | (replayed_ms > 0)
    return replace(
        score,
        decisions=score.decisions + int(is_bound.sum()),
        agreeing=score.agreeing + int(((logged_ms > 0) == (replayed_ms > 0)).sum()),
        throttled=score.throttled + int(throttled.sum()),
        within_1ms=score.within_1ms
        + int((throttled & (np.abs(logged_ms - replayed_ms) <= 1)).sum()),
    )
