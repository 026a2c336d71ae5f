"""The timeline of quotas, as the step makes it of what every ingested day knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.resolve.timeline.intervals import SAME_CHANGE_WITHIN_MS
from spark_jobs.warehouse.read import read_table
from tests.builders.tables_builder import NOON_MS, row, scope_in, write_day, write_rows
from tests.spark_jobs.ingest.quota_sources.quota_events import event

LEARNED_MS = NOON_MS + 2 * SAME_CHANGE_WITHIN_MS


@pytest.mark.parametrize(
    ("source", "in_force_ms"), [("server_log", LEARNED_MS), ("inferred", NOON_MS + 5)]
)
def test_a_broker_lags_as_far_as_its_log_says_where_that_tells_of_its_start(
    tmp_path: Path, source: str, in_force_ms: int
) -> None:
    scope = write_day(scope_in(tmp_path))
    told = [event("log", NOON_MS), event("server_log", LEARNED_MS, broker_id=1)]
    write_rows(scope, "quota_events", [row("quota_events", **each.row()) for each in told])
    start = row("broker_starts", broker_id=1, started_ms=NOON_MS - 1_000, source=source)
    write_rows(scope, "broker_starts", [start])
    resolve_quotas(scope)
    (found,) = read_table(scope, "quota_changes").to_pylist()
    assert found["valid_from_ms"] == in_force_ms
