"""Single requests that one client's sensors throttled or refused, to be explained one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.dataset as ds

from quota_pages.history import Wanted
from quota_pages.kept_tables import kept_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.visible_text import shortened, visible

REQUESTS_MAX = 20
_BATCH_ROWS = 8192  # few are wanted: reading stops early
_COLUMNS = [
    "recorded_at_ms", "broker_id", "api_name", "user", "client_id", "logged_throttle_time_ms",
    "replayed_throttle_time_ms", "logged_admitted", "verdict", "source_file", "source_line",
]  # fmt: skip


def throttled_requests(
    scope: RunScope, wanted: Wanted, broker_ids: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return up to REQUESTS_MAX requests of the day in the range; reading stops with the last.

    Rows of ``decisions``, in order of time, the topics of a mutation as one; ``line`` names the
    line of the log as ``explain`` takes it.
    """
    held_back = (ds.field("logged_throttle_time_ms") > 0) | ~ds.field("logged_admitted")
    where = replace(wanted, broker_ids=broker_ids).is_row("recorded_at_ms") & held_back
    found = kept_table(scope, "decisions").scanner(
        columns=_COLUMNS,
        filter=where,
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
    )
    requests: dict[tuple[str, int], dict[str, Any]] = {}
    for row in found.head(REQUESTS_MAX).to_pylist():
        line = (row["source_file"], row["source_line"])
        requests[line] = _together(requests[line], row) if line in requests else row
    for (file, number), row in requests.items():
        row["line"] = f"{file}:{number}"
        row["client"] = shortened(visible(row["client_id"] or ""))
    return sorted(requests.values(), key=lambda row: (row["recorded_at_ms"], row["source_line"]))


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two topics of a mutation as the request that they came in."""
    replayed = [r["replayed_throttle_time_ms"] for r in (one, other)]
    worse = other if one["verdict"] == "agree" else one
    return one | {
        "logged_admitted": one["logged_admitted"] and other["logged_admitted"],
        "replayed_throttle_time_ms": max((ms for ms in replayed if ms is not None), default=None),
        "verdict": worse["verdict"],
    }
