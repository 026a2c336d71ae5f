"""A row of ``recommendations``: the value, the numbers behind it, and how far to rely on them."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.apply.changes.quota_alteration import PROPOSED
from spark_jobs.apply.changes.wording import amount
from spark_jobs.quota.codes import QuotaType
from spark_jobs.recommend.weigh.configured_values import ConfiguredValues, ValueKey
from spark_jobs.recommend.weigh.forecast import (
    BrokerForecast,
    Forecasts,
    ReplayedLoop,
    Trial,
    forecast_of,
    kept_of,
    waiting_evidence,
)
from spark_jobs.recommend.weigh.outlook import SeenDay
from spark_jobs.recommend.weigh.proposal import NOT_ENOUGH_DATA, Case, Rules, trade_off_curve
from spark_jobs.recommend.weigh.withheld import withhold_failed
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse.tables import RECOMMENDATIONS

# With more amounts than this missing from the log, a peak says little.
UNKNOWN_SHARE_MAX = 0.05
# So many times the least traffic make a peak one to rely on.
AMPLE_TIMES_LEAST = 10
RECLAIM = "reclaim"

Row = dict[str, Any]
BLANK_ROW: Row = dict.fromkeys(RECOMMENDATIONS.names) | dict.fromkeys(
    ("throttle_time_ms_before", "days_seen", "backtest_trials", "backtest_kept"), 0
)
"""A row of RECOMMENDATIONS that nothing was replayed or tried for."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What every row is made from besides its case."""

    forecasts: Forecasts
    replayed: ReplayedLoop | None
    trials: Mapping[ValueKey, Sequence[Trial]]
    today: SeenDay
    rules: Rules


def row_of(proposed: Case, basis: Basis) -> Row:
    """Return the row of ``tables.RECOMMENDATIONS`` for a case."""
    settings = basis.rules.settings
    own = basis.trials.get(proposed.key, ())
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
        "throttle_time_ms_after": _sum(forecast, "throttle_time_ms"),
        "days_seen": case.days,
        "backtest_trials": kept.trials,
        "backtest_kept": kept.kept,
        "evidence": json.dumps(
            evidence(case, forecast, own, settings) | waiting_evidence(waiting), ensure_ascii=False
        ),
    }


def confidence(case: Case, rules: Rules) -> str:
    """Return the confidence in a case: ``low``, ``medium`` or ``high``.

    ``low``: not enough data, decisions that contradict the rules, or amounts missing from the log.
    ``medium``: a throttled client asked for an unknown amount more, a limit cut the step, a request
    quota (the log lacks network threads' time), or not much traffic. Else ``high``.
    """
    unknown = sum(o.unknown_amounts for o in case.observations)
    is_wrong = any(rules.faults.get(o.sensor.key) for o in case.changing)
    is_scarce = case.proposal.status == NOT_ENOUGH_DATA
    if is_scarce or is_wrong or unknown > UNKNOWN_SHARE_MAX * case.requests:
        return "low"
    is_uncertain = (
        case.throttle_time_ms > 0
        or case.proposal.clamped_by is not None
        or case.quota_type == QuotaType.REQUEST_PERCENTAGE
        or case.seconds < AMPLE_TIMES_LEAST * rules.settings.min_seconds
    )
    return "medium" if is_uncertain else "high"


def evidence(
    case: Case,
    forecast: Mapping[int, BrokerForecast] | None,
    trials: Sequence[Trial],
    settings: RecommendSettings,
) -> dict[str, object]:
    """Return the numbers as a JSON object; rates in the quota's unit."""
    hottest = case.hottest.hottest
    return {
        "requests": case.requests,
        "seconds_of_traffic": case.seconds,
        "clients": len(case.observations),
        "peak_rate": hottest.peak_rate,
        "peak_at": dt.datetime.fromtimestamp(hottest.peak_at_ms / 1000, dt.UTC).isoformat(
            timespec="milliseconds"
        ),
        "demand_at_least": hottest.demand.rate,
        "demand_basis": hottest.demand.basis,
        "throttled_requests_before": sum(o.throttled_requests for o in case.changing),
        "throttled_requests_after": _sum(forecast, "throttled_requests"),
        "muted_before_ms": sum(o.muted_ms for o in case.changing),
        "days_seen": case.days,
        "burst_days": sorted({_date(day) for o in case.observations for day in o.burst_days}),
        "rises_by_day": case.hottest.slope,
        "rate_p50": hottest.rates.p50,
        "rate_p95": hottest.rates.p95,
        "rate_p99": hottest.rates.p99,
        "near_bound_share": hottest.rates.near_bound_share,
        "backtest": [_tried(trial, settings) for trial in trials],
        "muted_after_ms": _sum(forecast, "muted_ms"),
        "logged_throttle_time_ms": sum(o.logged_throttle_time_ms for o in case.changing),
        "unknown_amounts": sum(o.unknown_amounts for o in case.observations),
        "brokers": _brokers(case, forecast),
        **_curve(case, settings),
        **_shared_bucket(case),
    }


def _curve(case: Case, settings: RecommendSettings) -> dict[str, object]:
    """Return, of a default, what it and the number of overrides trade."""
    if not case.entity.is_default:
        return {}
    points = trade_off_curve(case.observations, settings)
    return {"default_and_overrides": [list(point) for point in points]}


def _shared_bucket(case: Case) -> dict[str, object]:
    """Return, of a split, whose bucket it leaves and what that does to the others in it."""
    bucket = case.leaves
    if bucket is None:
        return {}
    return {
        "share_of_amounts": bucket.share,
        "neighbours": [
            {
                "days": bucket.days,
                "client_ids": bucket.client_ids - 1,
                "throttle_time_ms_before": bucket.neighbours_throttle_time_ms_before,
                "throttle_time_ms_after": bucket.neighbours_throttle_time_ms_after,
            }
        ],
    }


def _tried(trial: Trial, settings: RecommendSettings) -> dict[str, object]:
    return {
        "day": _date(trial.day),
        "current": trial.current,
        "proposed": trial.proposed,
        "throttle_time_ms_before": trial.throttle_time_ms_before,
        "throttle_time_ms_after": trial.throttle_time_ms_after,
        "headroom_before": trial.headroom_before,
        "headroom_after": trial.headroom_after,
        "harmed": len(trial.harmed),
        "needed": trial.is_needed(settings),
        "kept": trial.is_kept(settings),
    }


def _date(day: int) -> str:
    return str(dt.date(1970, 1, 1) + dt.timedelta(days=day))


def _sum(forecast: Mapping[int, BrokerForecast] | None, figure: str) -> int | None:
    return None if forecast is None else sum(getattr(b, figure) for b in forecast.values())


def _brokers(case: Case, forecast: Mapping[int, BrokerForecast] | None) -> list[dict[str, object]]:
    loads = defaultdict(list)
    for seen in case.changing:
        for load in seen.brokers:
            loads[load.broker_id].append(load)
    after = forecast or {}
    return [
        {
            "broker_id": broker_id,
            "peak_rate": max(load.peak_rate for load in own),
            "throttle_time_ms_before": sum(load.throttle_time_ms for load in own),
            # A broker may have been asked on earlier days only.
            "throttle_time_ms_after": after[broker_id].throttle_time_ms
            if broker_id in after
            else None,
        }
        for broker_id, own in sorted(loads.items())
    ]


def unused_rows(
    cases: Sequence[Case], values: ConfiguredValues, days: int, settings: RecommendSettings
) -> list[Row]:
    """Return a row of ``recommendations`` for each override that no case is about.

    It is proposed to be removed once ``reclaim_min_days`` days have shown no traffic; a default is
    never: it is there for who comes.
    """
    used = {case.key for case in cases}
    at_hand = "the day at hand" if days == 1 else f"all {days} days at hand"
    rows = []
    for (quota_type, entity), bound in values.explicit().items():
        if (quota_type, entity) in used or entity.is_default or settings.raise_only:
            continue
        is_proposed = days >= settings.reclaim_min_days and entity.can_be_named
        reason = f"Set to {amount(bound, quota_type)}, and without traffic on {at_hand}."
        if not is_proposed:
            reason += f" Not reclaimed before {settings.reclaim_min_days} days without any."
        rows.append(
            BLANK_ROW
            | {
                "quota_type": quota_type,
                "quota_user": entity.user,
                "quota_client_id": entity.client_id,
                "status": PROPOSED if is_proposed else NOT_ENOUGH_DATA,
                "kind": RECLAIM if is_proposed else None,
                "current": bound,
                "previous": bound,
                "reason": reason,
                "confidence": "medium" if is_proposed else "low",
                "throttle_time_ms_after": 0 if is_proposed else None,
                "evidence": json.dumps({"days_at_hand": days}),
            }
        )
    return rows
