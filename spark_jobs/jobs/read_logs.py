"""Workers' side of an ingest: one file → record batches of requests, quarantine and counts."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.jobs.log_stream import TruncatedFileError, line_blocks
from spark_jobs.request_log.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.tables import FILES, QUARANTINE, REQUESTS

DAY_MS = 86_400_000
UNREADABLE_FILE = "unreadable_file"

# One stream carries all three tables; ``row_kind`` tells them apart.
REQUEST, QUARANTINED, FILE = "request", "quarantined", "file"
LOG_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("source_file", pa.string()),
        ("broker_id", pa.int32()),
        ("size_bytes", pa.int64()),
        ("fallback_ms", pa.int64()),
    ]
)


def _ingested_schema() -> pa.Schema:
    fields = {"row_kind": pa.field("row_kind", pa.string())}
    fields["day"] = pa.field("day", pa.int32())
    for schema in (REQUESTS, QUARANTINE, FILES):
        for column in schema:
            fields.setdefault(column.name, column.with_nullable(True))
    return pa.schema(list(fields.values()))


INGESTED = _ingested_schema()


@dataclass(slots=True)
class _Counts:
    """Lines of one file, by the day they belong to."""

    lines_read: int = 0
    other: int = 0
    requests: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    quarantined: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, tally: dict[int, int], days: np.ndarray) -> None:
        for day, count in zip(*np.unique(days, return_counts=True), strict=True):
            tally[int(day)] += int(count)


def read_log_files(
    options: LogOptions,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that reads the files named by rows of LOG_FILES."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from _read_file(row, options)

    return run


def _read_file(row: dict[str, object], options: LogOptions) -> Iterator[pa.RecordBatch]:
    path, source_file = Path(str(row["path"])), str(row["source_file"])
    counts = _Counts()
    state = ChunkState()
    last_ms = int(str(row["fallback_ms"]))
    blocks = line_blocks(path)
    while True:
        try:
            data = next(blocks, None)
        except TruncatedFileError as error:
            broken = _unreadable(row, counts.lines_read + 1, last_ms, str(error))
            # The rest of the file counts as one line that could not be read.
            counts.lines_read += 1
            counts.add(counts.quarantined, _days(broken, last_ms))
            yield _tagged(broken, QUARANTINED, _days(broken, last_ms))
            break
        source = LineSource(
            source_file=source_file,
            broker_id=row["broker_id"],  # type: ignore[arg-type]
            first_line=counts.lines_read + 1,
        )
        parsed, state = parse_chunk(data or b"", source, options, state, is_last=data is None)
        counts.lines_read += parsed.lines_read
        counts.other += parsed.other
        if len(parsed.requests):
            times = parsed.requests["log_time_ms"]
            days = times.to_numpy() // DAY_MS
            counts.add(counts.requests, days)
            yield _tagged(parsed.requests, REQUEST, days)
            last_ms = int(pc.max(times).as_py())
        if len(parsed.quarantine):
            days = _days(parsed.quarantine, last_ms)
            counts.add(counts.quarantined, days)
            yield _tagged(parsed.quarantine, QUARANTINED, days)
        if data is None:
            break
    yield from _file_rows(row, counts, last_ms)


def _unreadable(row: dict[str, object], line: int, last_ms: int, why: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "broker_id": row["broker_id"],
                "log_time_ms": None,
                "source_file": row["source_file"],
                "source_line": line,
                "reason": UNREADABLE_FILE,
                "text": f"the file ends early: {why}",
            }
        ],
        schema=QUARANTINE,
    )


def _days(rows: pa.RecordBatch, fallback_ms: int) -> np.ndarray:
    """Return each row's UTC day number; a line without a time belongs to the day before it."""
    return np.asarray(pc.fill_null(rows["log_time_ms"], fallback_ms)) // DAY_MS


def _file_rows(row: dict[str, object], counts: _Counts, last_ms: int) -> Iterator[pa.RecordBatch]:
    days = sorted({*counts.requests, *counts.quarantined}) or [last_ms // DAY_MS]
    total = sum(counts.requests.values()) + sum(counts.quarantined.values())
    rows = []
    for day in days:
        requests, quarantined = counts.requests.get(day, 0), counts.quarantined.get(day, 0)
        rows.append(
            {
                "source_file": row["source_file"],
                "broker_id": row["broker_id"],
                "bytes_read": row["size_bytes"],
                "lines_read": counts.lines_read,
                "requests": requests,
                "quarantined": quarantined,
                "other": counts.other,
                "other_days": total - requests - quarantined,
            }
        )
    yield _tagged(pa.RecordBatch.from_pylist(rows, schema=FILES), FILE, np.array(days))


def _tagged(rows: pa.RecordBatch, row_kind: str, days: np.ndarray) -> pa.RecordBatch:
    own = {
        "row_kind": pa.array([row_kind] * len(rows), pa.string()),
        "day": pa.array(days, pa.int32()),
    }
    columns = [
        own[f.name] if f.name in own
        else rows[f.name].cast(f.type) if f.name in rows.schema.names
        else pa.nulls(len(rows), f.type)
        for f in INGESTED
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=INGESTED)


def day_of(number: int) -> dt.date:
    """Return the date of a UTC day number (days since the epoch)."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=number)
