"""Which hypotheses explain the stretches of a day that the configured quotas do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.judge.causes.hypotheses import explain_stretch
from spark_jobs.judge.causes.stretch_findings import ExplainedStretch, explained_stretch
from spark_jobs.judge.causes.stretches import find_stretches
from spark_jobs.judge.counterfactual import (
    HISTORY_COLUMNS,
    lost_states,
    other_profiles,
    other_quotas,
    rows_of,
    sensor_decisions,
    sensors_in,
)
from spark_jobs.quota.codes import BANDWIDTH_TYPES
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS, SensorKey
from spark_jobs.replay.broker_rules import NEWEST_PROFILE, rules_of
from spark_jobs.replay.read_lost_requests import read_lost_requests
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.resolve.resolve_quotas import read_timeline
from spark_jobs.settings import JudgeSettings
from spark_jobs.warehouse.read import open_table, read_table, sensor_filter
from spark_jobs.warehouse.scope import RunScope

# So many decisions are in memory at a time, or those of one sensor.
_ROWS_AT_A_TIME = 2_000_000


def explain_stretches(scope: RunScope, settings: JudgeSettings) -> list[ExplainedStretch]:
    """Return the explained stretches in which many throttles are not the configured bound's.

    Only sensors with enough such decisions are looked at; without one nothing more is read.
    """
    suspects = _suspects(scope, settings)
    if not suspects:
        return []
    day = _Day.of(scope, settings)
    return [
        stretch
        for batch in _batches(scope, suspects)
        for decisions in sensors_in(batch)
        for stretch in day.explain(decisions)
    ]


@dataclass(frozen=True, slots=True)
class _Day:
    """What the stretches of one day are explained with."""

    settings: JudgeSettings
    resolutions: ResolutionTable
    lost: LostRequests
    rules: dict[int, BrokerRules]
    changes: list[dict[str, object]]

    @classmethod
    def of(cls, scope: RunScope, settings: JudgeSettings) -> _Day:
        resolutions = ResolutionTable(read_timeline(scope), {})
        brokers = read_table(scope, "brokers", ["broker_id", "rate_profile"]).to_pylist()
        unknown = [b["broker_id"] for b in brokers if not b["rate_profile"]]
        return cls(
            settings=settings,
            resolutions=resolutions,
            lost=read_lost_requests(scope, resolutions),
            rules=rules_of(scope, dict.fromkeys(unknown, NEWEST_PROFILE)),
            changes=read_table(scope, "quota_changes").to_pylist(),
        )

    def explain(self, decisions: pa.RecordBatch) -> Iterator[ExplainedStretch]:
        """Yield the explained stretches of one sensor's ``decisions``."""
        key = SensorKey(*(decisions[name][0].as_py() for name in SENSOR_COLUMNS))
        tolerance_ms = self.settings.tolerance_ms
        # A window is a second unless it is configured otherwise: as the verdicts take it.
        warm_up_ms = self.settings.warm_up_windows * 1000
        history = sensor_decisions(decisions, self.resolutions, self.lost, warm_up_ms)
        stretches = find_stretches(history, tolerance_ms, self.settings.finding_min_decisions)
        rules = self.rules[key.broker_id]
        profiles = other_profiles(history, rules) if stretches else []
        for stretch in stretches:
            rows = rows_of(decisions, stretch)
            at_ms = history.recorded_at_ms[stretch.rows]
            explanation = explain_stretch(
                history,
                stretch,
                other_quotas(self.changes, rows, int(at_ms[0]), int(at_ms[-1])),
                [*profiles, *lost_states(history, stretch, rules, tolerance_ms)],
            )
            if explanation is None:
                continue
            found = explained_stretch(key, history, explanation, self.settings.change_ms)
            if found is not None:
                yield found


def _suspects(scope: RunScope, settings: JudgeSettings) -> dict[SensorKey, int]:
    """Return the sensors to look at, and how many decisions each has."""
    logged, ours = pc.field("logged_throttle_time_ms"), pc.field("replayed_throttle_time_ms")
    expected = pc.coalesce(ours, pa.scalar(0, pa.int32()))
    tolerance = pa.scalar(settings.tolerance_ms, pa.int32())
    # An un-recorded amount is recovered from the throttle, and fits any bound.
    is_off = (pc.abs(pc.subtract(logged, expected)) > tolerance) | pc.field("is_unrecorded")
    is_off = is_off | ((logged > 0) != (expected > 0))
    is_bandwidth = pc.field("quota_type").isin(BANDWIDTH_TYPES)
    off = _counts(scope, is_bandwidth & is_off)
    found = {key for key, n in off.items() if n >= settings.finding_min_decisions}
    if not found:
        return {}
    return {key: n for key, n in _counts(scope, is_bandwidth).items() if key in found}


def _counts(scope: RunScope, where: pc.Expression) -> Counter[SensorKey]:
    counts: Counter[SensorKey] = Counter()
    scanner = open_table(scope, "decisions").scanner(columns=list(SENSOR_COLUMNS), filter=where)
    for batch in scanner.to_batches():
        by_sensor = pa.Table.from_batches([batch]).group_by(list(SENSOR_COLUMNS))
        for row in by_sensor.aggregate([([], "count_all")]).to_pylist():
            counts[SensorKey.of(row)] += row["count_all"]
    return counts


def _batches(scope: RunScope, suspects: dict[SensorKey, int]) -> Iterator[pa.Table]:
    """Yield the decisions of ``suspects``, several sensors at a time."""
    together: list[SensorKey] = []
    rows = 0
    for key in sorted(suspects, key=str):
        if together and rows + suspects[key] > _ROWS_AT_A_TIME:
            yield _decisions(scope, together)
            together, rows = [], 0
        together.append(key)
        rows += suspects[key]
    yield _decisions(scope, together)


def _decisions(scope: RunScope, sensors: Sequence[SensorKey]) -> pa.Table:
    return open_table(scope, "decisions").to_table(
        columns=list(HISTORY_COLUMNS), filter=sensor_filter(sensors)
    )
