"""A day's decisions → the ``recommendations`` table, and the files that carry them out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import AuditFailedError
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.recommend.backtest import BrokerRule, broker_rules
from spark_jobs.recommend.cases import cases_of
from spark_jobs.recommend.closed_loop import ClosedLoop, Replayed, replay_waiting, waiting_evidence
from spark_jobs.recommend.configured_values import ConfiguredValues, end_of_day_ms
from spark_jobs.recommend.days import SeenDay, over_days, seen_day
from spark_jobs.recommend.departed import without_departed
from spark_jobs.recommend.evidence import confidence, evidence
from spark_jobs.recommend.files import write_files
from spark_jobs.recommend.forecast import (
    BrokerForecast,
    Forecasts,
    Trial,
    forecast_by_broker,
    forecast_of,
    kept_of,
    throttle_time_of,
)
from spark_jobs.recommend.merge import with_merges
from spark_jobs.recommend.observation import Observation, observe
from spark_jobs.recommend.proposal import PROPOSED, Case, Rules, bounding_cases
from spark_jobs.recommend.read_traffic import bound_sensors, traffic_of
from spark_jobs.recommend.rolling_origin import CaseKey, EarlierDay, origins_of, trials_of
from spark_jobs.recommend.split import split_forecasts, splits_of, with_splits
from spark_jobs.recommend.traffic import SENSOR, BoundSensor, SensorKey
from spark_jobs.recommend.unused import unused_rows
from spark_jobs.recommend.withheld import withhold_failed
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.days import DAY_MS
from spark_jobs.warehouse.tables import FINDING_KINDS, RECOMMENDATIONS

__all__ = ["EarlierDay", "observed", "recommend", "write_files"]


def observed(
    decisions: pa.Table | ds.Dataset, rates: pa.Table, brokers: pa.Table
) -> list[Observation]:
    """Return what a day showed of each sensor that a quota bounds, sorted by key.

    ``decisions`` is read in portions; given as a dataset it is never in memory as a whole. Raises
    AuditFailedError where a decision names a broker that ``brokers`` does not have.
    """
    data = _dataset(decisions)
    sensors = bound_sensors(data)
    return _observations(data, sensors, _seconds_of_traffic(rates), broker_rules(brokers))


def recommend(
    today: Sequence[Observation],
    decisions: pa.Table | ds.Dataset,
    quota_changes: pa.Table,
    brokers: pa.Table,
    findings: pa.Table,
    settings: RecommendSettings,
    earlier: Sequence[EarlierDay] = (),
    day: int | None = None,
    closed_loop: ClosedLoop | None = None,
) -> pa.Table:
    """Return the rows of ``recommendations`` of one day, sorted by quota type and entity.

    ``today`` is what the day showed, ``earlier`` what the days before it did, in time order;
    ``day`` is its own number since the epoch, if not that of its last request. ``closed_loop``
    replays the day's clients where they wait; without it arrivals stay as logged.
    """
    data = _dataset(decisions)
    rules = Rules(broker_rules(brokers), _faults(findings), settings)
    if day is None:
        day = max((seen.sensor.last_ms for seen in today), default=0) // DAY_MS
    days = [*(one.seen for one in earlier), seen_day(day, today)]
    changes = quota_changes.to_pylist()
    values = ConfiguredValues(changes, end_of_day_ms(day * DAY_MS))
    cases = cases_of(over_days(days, settings), values, rules)
    of_days = [*(one.decisions for one in earlier), data]
    cases = without_departed(cases, days, of_days, values, rules)
    splits = splits_of(cases, days, of_days, changes, rules)
    cases = with_splits(cases, splits, values, settings)
    logged = _forecasts(data, cases, days[-1], rules.brokers)
    logged |= split_forecasts(data, cases, rules.brokers)
    throttles = {key: throttle_time_of(logged, key) for key in logged}
    replayed = replay_waiting(closed_loop, cases, throttles, days[-1])
    trials = trials_of(
        [(case.quota_type, case.entity) for case in cases if case.proposal.status == PROPOSED],
        origins_of([*earlier, EarlierDay(days[-1], data, closed_loop)], changes, rules),
        rules,
    ) | {split.key: list(split.trials) for split in splits}
    basis = _Basis(
        logged if replayed is None else replayed.forecasts(logged, cases),
        replayed, trials, days[-1], rules,
    )  # fmt: skip
    rows = [_row(case, basis) for case in cases]
    rows += unused_rows(cases, values, len(days), settings)
    rows = with_merges(rows, cases, days, of_days, values, rules)
    rows.sort(key=lambda r: (r["quota_type"], r["quota_user"] or "", r["quota_client_id"] or ""))
    return pa.Table.from_pylist(rows, schema=RECOMMENDATIONS)


def _dataset(decisions: pa.Table | ds.Dataset) -> ds.Dataset:
    return ds.dataset(decisions) if isinstance(decisions, pa.Table) else decisions


def _observations(
    data: ds.Dataset,
    sensors: list[BoundSensor],
    seconds: Mapping[SensorKey, int],
    rules: Mapping[int, BrokerRule],
) -> list[Observation]:
    by_key = {sensor.key: sensor for sensor in sensors}
    seen = []
    for traffic in traffic_of(data, sensors):
        unknown = sorted(set(np.unique(traffic.amounts.broker_id).tolist()) - set(rules))
        if unknown:
            raise AuditFailedError(
                f"decisions of {traffic.key} name broker {unknown[0]}, but the brokers table has "
                f"{sorted(rules)} only; ingest and replay the day again"
            )
        seen.append(observe(by_key[traffic.key], traffic, seconds.get(traffic.key, 0), rules))
    return seen


def _seconds_of_traffic(rates: pa.Table) -> dict[SensorKey, int]:
    """Return in how many seconds each sensor had traffic; for mutations, from first to last.

    Mutations are rare by nature: a topic a minute for an hour is plenty of evidence.
    """
    second = "second_ms"
    grouped = rates.group_by(list(SENSOR)).aggregate(
        [(second, "count_distinct"), (second, "min"), (second, "max")]
    )
    seconds = {}
    for row in grouped.to_pylist():
        spanned = (row[f"{second}_max"] - row[f"{second}_min"]) // 1000 + 1
        is_mutation = row["quota_type"] == QuotaType.CONTROLLER_MUTATION_RATE
        key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
        seconds[key] = spanned if is_mutation else row[f"{second}_count_distinct"]
    return seconds


def _faults(findings: pa.Table) -> dict[SensorKey, set[str]]:
    faults: dict[SensorKey, set[str]] = defaultdict(set)
    for row in findings.select([*SENSOR, "kind", "hypothesis"]).to_pylist():
        if row["kind"] in FINDING_KINDS:
            key = (row["quota_type"], row["quota_user"], row["quota_client_id"])
            faults[key] |= {row["kind"], row["hypothesis"]} - {None}
    return dict(faults)


def _forecasts(
    data: ds.Dataset, cases: Iterable[Case], today: SeenDay, rules: Mapping[int, BrokerRule]
) -> dict[SensorKey, tuple[BrokerForecast, ...]]:
    """Return what the proposals lead to, by replaying the traffic of the sensors they bound."""
    changing = [case for case in cases if case.proposal.proposed is not None]
    proposed = {
        key: case.proposal.proposed
        for key, case in bounding_cases(changing).items()
        if key in today.observations and case.proposal.proposed is not None
    }
    sensors = [today.observations[key].sensor for key in sorted(proposed)]
    return {
        traffic.key: forecast_by_broker(traffic, proposed[traffic.key], rules)
        for traffic in traffic_of(data, sensors)
    }


@dataclass(frozen=True, slots=True)
class _Basis:
    """What every row is made from besides its case."""

    forecasts: Forecasts
    replayed: Replayed | None
    trials: Mapping[CaseKey, Sequence[Trial]]
    today: SeenDay
    rules: Rules


def _row(proposed: Case, basis: _Basis) -> dict[str, Any]:
    settings = basis.rules.settings
    own = basis.trials.get((proposed.quota_type, proposed.entity), ())
    kept = kept_of(own, settings)
    waiting = basis.replayed.waiting(proposed, settings) if basis.replayed else None
    case = withhold_failed(proposed, kept, waiting, settings)
    proposal = case.proposal
    latest = [basis.today.observations.get(o.sensor.key) for o in case.changing]
    forecast = None
    if proposal.status == PROPOSED:
        forecast = forecast_of((o.sensor.key for o in case.observations), basis.forecasts)
    return {
        "quota_type": case.quota_type,
        "quota_user": case.entity.user,
        "quota_client_id": case.entity.client_id,
        "status": proposal.status,
        "kind": proposal.kind,
        "current": case.current,
        "previous": case.previous,
        "proposed": proposal.proposed,
        "lower": proposal.lower,
        "upper": proposal.upper,
        "reason": proposal.reason,
        "confidence": confidence(case, basis.rules),
        "clamped_by": proposal.clamped_by,
        "hottest_broker_id": case.hottest.hottest.broker_id,
        "throttle_time_ms_before": sum(o.throttle_time_ms for o in latest if o is not None),
        "throttle_time_ms_after": None if forecast is None else forecast.throttle_time_ms,
        "days_seen": max(o.days for o in case.observations),
        "backtest_trials": kept.trials,
        "backtest_kept": kept.kept,
        "evidence": json.dumps(
            evidence(case, forecast, own, settings) | waiting_evidence(waiting), ensure_ascii=False
        ),
    }
