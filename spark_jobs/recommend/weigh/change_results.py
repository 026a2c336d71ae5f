"""What became of changes that were applied: did throttling fall as predicted.

A change is looked at on every day whose log begins after it was made, for as long as it stands: no
later change of the same value, and no rollback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_jobs.apply.changes.wording import amount
from spark_jobs.recommend.weigh.configured_values import (
    QuotaEntity,
    ValueKey,
    configured_entity,
    own_entity,
)
from spark_jobs.settings import RecommendSettings

AS_PREDICTED, NOT_AS_PREDICTED, NO_TRAFFIC = "as_predicted", "not_as_predicted", "no_traffic"
_MADE = frozenset({"applied", "already_so"})

Row = Mapping[str, Any]


def change_results(
    applied: Iterable[Row], demand: Sequence[Row], from_ms: int, settings: RecommendSettings
) -> list[dict[str, Any]]:
    """Return a row of ``tables.CHANGE_RESULTS`` for each change that stands, in order of its time.

    ``applied`` are rows of APPLIED_CHANGES of all days, ``demand`` rows of DEMAND of the day, whose
    log begins at ``from_ms``.
    """
    standing: dict[ValueKey, Row] = {}
    for row in sorted(applied, key=lambda r: (r["started_ms"], r["position"])):
        made_ms = row["ended_ms"]
        if row["outcome"] not in _MADE or made_ms is None or made_ms > from_ms:
            continue
        key = (row["quota_type"], QuotaEntity(row["quota_user"], row["quota_client_id"]))
        if row["action"] == "rollback":
            standing.pop(key, None)
        elif row["outcome"] == "applied" or key not in standing:
            standing[key] = row
    return [_result(key[0], key[1], row, demand, settings) for key, row in standing.items()]


def _result(
    quota_type: str,
    entity: QuotaEntity,
    row: Row,
    demand: Sequence[Row],
    settings: RecommendSettings,
) -> dict[str, Any]:
    own = [d for d in demand if d["quota_type"] == quota_type and _is_of(d, entity)]
    throttle_time_ms = sum(d["throttle_time_ms"] for d in own)
    asked = max((d["demand"] for d in own), default=0.0)
    result = _kind(row, own, throttle_time_ms, settings)
    return {
        "application_id": row["application_id"],
        "quota_type": quota_type,
        "quota_user": entity.user,
        "quota_client_id": entity.client_id,
        "applied_ms": row["ended_ms"],
        "value_before": row["value_before"],
        "value_after": row["value_after"],
        "requests": sum(d["requests"] for d in own),
        "throttle_time_ms_before": row["throttle_time_ms_before"],
        "throttle_time_ms_predicted": row["throttle_time_ms_after"],
        "throttle_time_ms": throttle_time_ms,
        "demand": asked,
        "result": result,
        "explanation": _explanation(row, result, throttle_time_ms, asked),
    }


def _is_of(demand: Row, entity: QuotaEntity) -> bool:
    """Return True if the entity's value bounds the sensor, or did before it was removed."""
    sensor = (demand["quota_level"], demand["quota_user"], demand["quota_client_id"])
    return entity in (configured_entity(*sensor), own_entity(*sensor))


def _kind(row: Row, own: Sequence[Row], throttle_time_ms: int, settings: RecommendSettings) -> str:
    if not own:
        return NO_TRAFFIC
    predicted = row["throttle_time_ms_after"] or 0
    allowed = max(int((1 + settings.left_share_max) * predicted), settings.min_throttle_ms)
    return AS_PREDICTED if throttle_time_ms <= allowed else NOT_AS_PREDICTED


def _explanation(row: Row, result: str, throttle_time_ms: int, asked: float) -> str:
    quota_type, after = row["quota_type"], row["value_after"]
    now = "no value of its own" if after is None else amount(after, quota_type)
    before = "none" if row["value_before"] is None else amount(row["value_before"], quota_type)
    changed = f"From {before} to {now}"
    if result == NO_TRAFFIC:
        return f"{changed}: there was no traffic since."
    predicted = (row["throttle_time_ms_after"] or 0) / 1000
    measured = (
        f"{changed}: throttled for {throttle_time_ms / 1000:,.1f} s, where {predicted:,.1f} s were "
        "predicted"
    )
    if result == AS_PREDICTED:
        return f"{measured}."
    if after is not None and asked > after:
        return f"{measured}: it asks for {amount(asked, quota_type)} by now."
    return f"{measured}."
