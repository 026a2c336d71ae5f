"""The reader of whole blocks and the reader of single lines, beside each other."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.ingest.lines.chunk import (
    ChunkState,
    LineSource,
    LogOptions,
    ParsedChunk,
    parse_chunk,
    parse_line_by_line,
)

ROOT = Path(__file__).parents[4]
CAPTURES = sorted(
    [
        *(ROOT / "examples" / "capture").glob("broker=*/kafka-request.log.gz"),
        *(ROOT / "tests" / "golden" / "captures").glob("*/broker=*/kafka-request.log.gz"),
    ]
)
GOLDEN = sorted((ROOT / "tests" / "golden" / "request_log").glob("*/kafka-request.log"))
UTC = LogOptions(timezone="UTC", prefix=None, listener_brokers={})


def capture(path: Path) -> bytes:
    """Return the lines of a capture."""
    return gzip.decompress(path.read_bytes())


def name_of(path: Path) -> str:
    """Return which capture a path is of."""
    return "/".join(path.parts[-3:-1])


def assert_same(
    data: bytes,
    cuts: Sequence[int] = (),
    options: LogOptions = UTC,
    broker_id: int | None = 1,
) -> ParsedChunk:
    """Assert that both read the same of a file, block by block; return the last block.

    ``cuts`` are the numbers of the lines at which a block ends.
    """
    lines = _lines(data)
    bounds = [0, *sorted({min(c, len(lines)) for c in cuts}), len(lines)]
    ours, theirs = ChunkState(), ChunkState()
    for begin, end in itertools.pairwise(bounds):
        source = LineSource("broker=1/kafka-request.log", broker_id, begin + 1)
        block, is_last = b"".join(lines[begin:end]), end == len(lines)
        found, ours = parse_chunk(block, source, options, ours, is_last=is_last)
        expected, theirs = parse_line_by_line(block, source, options, theirs, is_last=is_last)
        found.requests.validate(full=True)
        _same_rows(found.requests, expected.requests)
        _same_rows(found.quarantine, expected.quarantine)
        assert (found.lines_read, found.other) == (expected.lines_read, expected.other)
        assert left_behind(ours) == left_behind(theirs)
    return found


def left_behind(state: ChunkState) -> dict[str, Any]:
    """Return all that a block leaves to the next."""
    assert state.clock is not None
    return {
        "last stamp": state.clock._last_ms,
        "second pass": state.clock._is_second_pass,
        "parts": state.envelope.parts,
        "after other": state.is_after_other,
        "waits": {t: state.waits._counts[n].tolist() for t, n in state.waits._numbers.items()},
        "version": (state.version.is_before_2_0, state.version.held_in_a_row),
    }


def _lines(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _same_rows(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    assert found.schema.equals(expected.schema, check_metadata=True)
    for name in expected.schema.names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    assert found.equals(expected)
