"""What an ingest found to be missing from the log, as the replay looks it up."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope


def read_lost_requests(scope: RunScope, resolutions: ResolutionTable) -> LostRequests:
    """Return the lookup of a day's gaps, and of those before that its first rates rest on."""
    before = scope.day_before
    gaps = pa.concat_tables([read_table(before, "log_gaps"), read_table(scope, "log_gaps")])
    brokers = read_table(scope, "brokers", ["broker_id", "samples", "window_ms"]).to_pylist()
    # The oldest sample may have begun up to a window before the oldest event that counts.
    window_ms = {b["broker_id"]: (b["samples"] + 1) * b["window_ms"] for b in brokers}
    return LostRequests.of(gaps, resolutions, window_ms)
