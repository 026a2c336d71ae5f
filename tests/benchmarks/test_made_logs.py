"""Made logs are those of a sound broker."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.made_logs import lines_of, template_of, traffic_of
from benchmarks.made_traffic import broker_rows
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk

MEGABYTES = 30


def test_a_made_line_says_what_was_recorded_and_when() -> None:
    templates = {name: template_of(name) for name in ("PRODUCE", "FETCH")}
    traffic = traffic_of(MEGABYTES, templates)
    rows = broker_rows(traffic, 0)
    data = "".join(lines_of(rows, np.arange(len(rows)), 1, traffic, templates)).encode()
    source, options = LineSource("log", 1, 1), LogOptions("UTC", None, {})
    parsed, _ = parse_chunk(data, source, options, ChunkState(), is_last=True)
    found = {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(parsed.requests.schema.names, parsed.requests, strict=True)
    }
    assert parsed.lines_read == len(parsed.requests) == len(rows)
    assert len(data) / 1e6 == pytest.approx(MEGABYTES / traffic.brokers, rel=0.05)
    sizes = rows.size + traffic.overhead_bytes
    assert np.array_equal(found["request_bytes"][rows.is_produce], sizes[rows.is_produce])
    assert np.array_equal(found["throttle_time_ms"], rows.throttle_ms)
    assert (rows.throttle_ms > 0).any()
    assert (found["recorded_earliest_ms"] <= rows.recorded_ms).all()
    assert (rows.recorded_ms <= found["recorded_latest_ms"]).all()
