"""Rows of ``tables.APPLIED_CHANGES``: what was meant to be changed, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spark_jobs.apply.changes.carry_out import ChangeResult, Outcome
from spark_jobs.apply.changes.change_plan import PlannedChange, Step
from spark_jobs.apply.changes.quota_admin import QuotaKey, key_of

APPLY, ROLLBACK = "apply", "rollback"


@dataclass(frozen=True, slots=True)
class Application:
    """One run of apply or rollback; the columns that its rows have in common."""

    application_id: str
    action: str
    takes_back: str | None
    started_ms: int
    applied_by: str
    note: str | None
    bootstrap_servers: str
    kafka_cluster_id: str | None
    evidence_day: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Throttle time of the evidence's day, as it was and as the backtest has it."""

    throttle_time_ms_before: int | None = None
    throttle_time_ms_after: int | None = None


Forecasts = Mapping[QuotaKey, Forecast]


def forecasts_of(recommendations: Sequence[Mapping[str, Any]]) -> dict[QuotaKey, Forecast]:
    """Return what the rows of ``tables.RECOMMENDATIONS`` predict."""
    return {
        (row["quota_type"], row["quota_user"], row["quota_client_id"]): Forecast(
            row["throttle_time_ms_before"], row["throttle_time_ms_after"]
        )
        for row in recommendations
    }


def intended_rows(
    application: Application, plan: Sequence[PlannedChange], forecasts: Forecasts
) -> list[dict[str, Any]]:
    """Return the rows to write before the first request: a run that is cut off leaves these."""
    results = [
        ChangeResult(
            change,
            Outcome.INTENDED if change.step == Step.APPLY else Outcome.ALREADY_SO,
            message=None,
            read_back=None,
            is_read_back=False,
        )
        for change in plan
    ]
    return _rows(application, results, None, forecasts)


def ended_rows(
    application: Application, results: Sequence[ChangeResult], ended_ms: int, forecasts: Forecasts
) -> list[dict[str, Any]]:
    """Return the rows to write when the run has ended, however it did."""
    return _rows(application, results, ended_ms, forecasts)


def _rows(
    application: Application,
    results: Sequence[ChangeResult],
    ended_ms: int | None,
    forecasts: Forecasts,
) -> list[dict[str, Any]]:
    return [
        {
            **asdict(application),
            "position": position,
            "quota_type": result.planned.alteration.quota_type,
            "quota_user": result.planned.alteration.user,
            "quota_client_id": result.planned.alteration.client_id,
            "value_before": result.planned.found,
            "value_after": result.planned.alteration.after,
            "value_read_back": result.read_back,
            "is_read_back": result.is_read_back,
            "outcome": str(result.outcome),
            "message": result.message,
            "reason": result.planned.alteration.reason,
            "ended_ms": ended_ms,
            **asdict(forecasts.get(key_of(result.planned.alteration), Forecast())),
        }
        for position, result in enumerate(results)
    ]
