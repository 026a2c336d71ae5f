"""A day's decisions → the ``recommendations`` table, and the files that carry them out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from spark_jobs.errors import AuditFailedError
from spark_jobs.quota.quota_type import QuotaType
from spark_jobs.recommend.backtest import BrokerRule, broker_rules
from spark_jobs.recommend.configured_values import ConfiguredValues, end_of_day_ms
from spark_jobs.recommend.entities import Case, cases_of
from spark_jobs.recommend.evidence import confidence, evidence
from spark_jobs.recommend.files import write_files
from spark_jobs.recommend.forecast import Forecasts, forecast_by_broker, forecast_of
from spark_jobs.recommend.observation import Observation, observe
from spark_jobs.recommend.proposal import PROPOSED
from spark_jobs.recommend.sensors import Sensor, bound_sensors, traffic_of
from spark_jobs.recommend.traffic import SENSOR, SensorKey
from spark_jobs.settings import RecommendSettings
from spark_jobs.tables import FINDING_KINDS, RECOMMENDATIONS

__all__ = ["recommend", "write_files"]


def recommend(
    decisions: pa.Table | ds.Dataset,
    rates: pa.Table,
    quota_changes: pa.Table,
    brokers: pa.Table,
    findings: pa.Table,
    settings: RecommendSettings,
) -> pa.Table:
    """Return the rows of ``recommendations`` of one day, sorted by quota type and entity.

    ``decisions`` is read in portions, twice; given as a dataset it is never in memory as a whole.
    Raises AuditFailedError where a decision names a broker that ``brokers`` does not have.
    """
    data = ds.dataset(decisions) if isinstance(decisions, pa.Table) else decisions
    sensors = bound_sensors(data)
    if not sensors:
        return RECOMMENDATIONS.empty_table()
    rules = broker_rules(brokers)
    values = ConfiguredValues(
        quota_changes.to_pylist(), end_of_day_ms(max(s.last_ms for s in sensors))
    )
    seen = _observations(data, sensors, _seconds_of_traffic(rates), rules)
    faults = _faults(findings)
    cases = cases_of(seen, values, faults, settings)
    forecasts = _forecasts(data, cases, rules)
    rows = [_row(case, forecasts, faults, settings) for case in cases]
    return pa.Table.from_pylist(rows, schema=RECOMMENDATIONS)


def _observations(
    data: ds.Dataset,
    sensors: list[Sensor],
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
    for row in findings.select([*SENSOR, "kind"]).to_pylist():
        if row["kind"] in FINDING_KINDS:
            faults[row["quota_type"], row["quota_user"], row["quota_client_id"]].add(row["kind"])
    return dict(faults)


def _forecasts(
    data: ds.Dataset, cases: Iterable[Case], rules: Mapping[int, BrokerRule]
) -> Forecasts:
    """Return what the proposals lead to, by replaying the traffic of the sensors they bound."""
    proposed: dict[SensorKey, float] = {}
    sensors = []
    for case in cases:
        if case.proposal.proposed is not None:
            for seen in case.observations:
                proposed[seen.sensor.key] = case.proposal.proposed
                sensors.append(seen.sensor)
    return {
        traffic.key: forecast_by_broker(traffic, proposed[traffic.key], rules)
        for traffic in traffic_of(data, sorted(sensors, key=lambda sensor: sensor.key))
    }


def _kind(case: Case) -> str | None:
    proposed = case.proposal.proposed
    if proposed is None:
        return None
    if case.previous is None:
        return "new_override"
    if case.entity.is_default:
        return "default"
    return "raise" if proposed > case.current else "lower"


def _row(
    case: Case,
    forecasts: Forecasts,
    faults: Mapping[SensorKey, set[str]],
    settings: RecommendSettings,
) -> dict[str, object]:
    proposal = case.proposal
    forecast = forecast_of(case, forecasts) if proposal.status == PROPOSED else None
    return {
        "quota_type": case.quota_type,
        "quota_user": case.entity.user,
        "quota_client_id": case.entity.client_id,
        "status": proposal.status,
        "kind": _kind(case),
        "current": case.current,
        "previous": case.previous,
        "proposed": proposal.proposed,
        "lower": proposal.lower,
        "upper": proposal.upper,
        "reason": proposal.reason,
        "confidence": confidence(case, faults, settings),
        "clamped_by": proposal.clamped_by,
        "hottest_broker_id": case.hottest.hottest.broker_id,
        "throttle_time_ms_before": case.throttle_time_ms,
        "throttle_time_ms_after": None if forecast is None else forecast.throttle_time_ms,
        "evidence": json.dumps(evidence(case, forecast), ensure_ascii=False),
    }
