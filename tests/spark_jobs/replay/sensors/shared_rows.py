"""Decisions on requests that have a request quota, as the replay leaves them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.replay.sensors.sensor_states import DECISION, REPLAYED, BrokerRules
from spark_jobs.replay.sensors.shared_throttles import SHARED
from tests.builders.tables_builder import row

RULES = {
    1: BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000),
    2: BrokerRules(RateProfile.RATE_3_8, 11, 2000, 11, 1000),
}
OPEN = ("indeterminate", "request_quota_interval")

Row = dict[str, Any]


def decided(
    before: tuple[str, str | None] = OPEN,
    alone: tuple[str, str | None] = ("over_throttled", None),
    **columns: Any,
) -> Row:
    """Return a row of REPLAYED: verdicts that hold as yet, and if no request quota existed."""
    of_replay = {
        "row_kind": DECISION,
        "has_request_bound": True,
        "throttle_time_min_ms": None,
        "throttle_time_max_ms": None,
        "throttle_time_likely_min_ms": None,
        "throttle_time_likely_max_ms": None,
        "verdict": before[0],
        "reason": before[1],
        "verdict_alone": alone[0],
        "reason_alone": alone[1],
    }
    return row("decisions") | of_replay | columns


def on_request(least: int | None, most: int | None, **columns: Any) -> Row:
    """Return the decision on the request quota, with the interval that the replay has for it."""
    own = {
        "quota_type": "request_percentage",
        "throttle_time_min_ms": least,
        "throttle_time_max_ms": most,
        "throttle_time_likely_min_ms": least,
        "throttle_time_likely_max_ms": most,
    }
    return decided(**own | columns)


def joined(decision: Row, **of_request: int | None) -> Row:
    """Return a row of SHARED: with what is known of the request, whichever decision it is."""
    return decision | dict.fromkeys(SHARED.names[len(REPLAYED) :]) | of_request


def table_of_replayed(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=REPLAYED)
