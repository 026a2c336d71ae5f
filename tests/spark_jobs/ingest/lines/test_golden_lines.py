"""Lines that real brokers of several versions wrote, and the rows they are read as.

``python -m tests.spark_jobs.ingest.lines.test_golden_lines`` writes the expected rows anew;
read the difference before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk

GOLDEN = Path(__file__).parents[3] / "golden" / "request_log"
CASES = sorted(p.name for p in GOLDEN.iterdir())
OPTIONS = LogOptions(timezone="UTC", prefix=None, listener_brokers={})


def read(case: str) -> list[dict[str, Any]]:
    data = (GOLDEN / case / "kafka-request.log").read_bytes()
    source = LineSource("broker=1/kafka-request.log", 1, 1)
    parsed, _ = parse_chunk(data, source, OPTIONS, ChunkState(), is_last=True)
    assert len(parsed.requests) == parsed.lines_read
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in parsed.requests.to_pylist()
    ]


@pytest.mark.parametrize("case", CASES)
def test_real_lines_are_read_as_expected(case: str) -> None:
    expected = json.loads((GOLDEN / case / "requests.json").read_text())
    assert read(case) == expected


def test_every_kind_of_request_a_quota_touches_is_among_them() -> None:
    kinds = {row["api_name"] for case in CASES for row in read(case)}
    touched = {"PRODUCE", "FETCH", "CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"}
    assert kinds >= touched | {"ALTER_CLIENT_QUOTAS"}


if __name__ == "__main__":
    for each in CASES:
        rows = ",\n".join(json.dumps(row) for row in read(each))
        (GOLDEN / each / "requests.json").write_text(f"[\n{rows}\n]\n")
