"""Values that are set for nobody: an override without traffic on any of the days at hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spark_jobs.apply.changes.wording import amount
from spark_jobs.recommend.configured_values import ConfiguredValues
from spark_jobs.recommend.proposal import NOT_ENOUGH_DATA, PROPOSED, Case
from spark_jobs.settings import RecommendSettings

RECLAIM = "reclaim"


def unused_rows(
    cases: Sequence[Case], values: ConfiguredValues, days: int, settings: RecommendSettings
) -> list[dict[str, Any]]:
    """Return a row of ``recommendations`` for each override that no case is about.

    It is proposed to be removed once ``reclaim_min_days`` days have shown no traffic; a default is
    never: it is there for who comes.
    """
    used = {(case.quota_type, case.entity) for case in cases}
    rows = []
    for (quota_type, entity), bound in values.explicit().items():
        if (quota_type, entity) in used or entity.is_default or settings.raise_only:
            continue
        is_proposed = days >= settings.reclaim_min_days and entity.can_be_named
        seen = f"Set to {amount(bound, quota_type)}, and without traffic on {_days(days)}."
        reason = seen if is_proposed else f"{seen} {_not_yet(settings)}"
        rows.append(
            {
                "quota_type": quota_type,
                "quota_user": entity.user,
                "quota_client_id": entity.client_id,
                "status": PROPOSED if is_proposed else NOT_ENOUGH_DATA,
                "kind": RECLAIM if is_proposed else None,
                "current": bound,
                "previous": bound,
                "proposed": None,
                "lower": None,
                "upper": None,
                "reason": reason,
                "confidence": "medium" if is_proposed else "low",
                "clamped_by": None,
                "hottest_broker_id": None,
                "throttle_time_ms_before": 0,
                "throttle_time_ms_after": 0 if is_proposed else None,
                "days_seen": 0,
                "backtest_trials": 0,
                "backtest_kept": 0,
                "evidence": json.dumps({"days_at_hand": days}),
            }
        )
    return rows


def _days(days: int) -> str:
    return "the day at hand" if days == 1 else f"all {days} days at hand"


def _not_yet(settings: RecommendSettings) -> str:
    return f"Not reclaimed before {settings.reclaim_min_days} days without any."
