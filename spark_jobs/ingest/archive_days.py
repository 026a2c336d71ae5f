"""The UTC days a log file has requests of, with a digest each: without auditing the archive."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archive_clock import lines_until_ms
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import DAY_MS, day_of

# They tell a logged request from every other one, and all but never change with the reader.
_COLUMNS = ("log_time_ms", "correlation_id", "api_key", "total_time_us")


def archive_days(
    archive: Archive, timezone: str, prefix: str | None, now: dt.datetime | None = None
) -> list[dt.date]:
    """Return the UTC days that ``archive`` has requests of, in order.

    Requests of the future, seen from ``now`` (None: the clock), count as an ingest counts them.
    Raises BadInputError where no line of it is a request.
    """
    options = day_options(archive, timezone, prefix, now=now)
    days = {day for log in archive.request_logs for day in days_of_log(log, options)}
    if not days:
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}; "
            "expected lines of the broker's logger kafka.request.logger at DEBUG."
        )
    return sorted(days)


def day_options(
    archive: Archive,
    timezone: str,
    prefix: str | None,
    warehouse: Path | None = None,
    now: dt.datetime | None = None,
) -> LogOptions:
    """Return the options with which :func:`days_of_log` finds the days that an ingest would have.

    Without a ``warehouse``: an ingest into an empty one.
    """
    until_ms = lines_until_ms(archive, timezone, prefix, warehouse, now)
    return LogOptions(timezone, prefix, {}, until_ms)


def days_of_log(log: LogFile, options: LogOptions) -> dict[dt.date, str]:
    """Return the UTC days of the requests in one file, each with the digest of its requests."""
    digests = DayDigests()
    # The broker does not matter here, so a file without one is read as broker 0's.
    source = LineSource(log.source_file, log.broker_id or 0, 1)
    state = ChunkState()
    with suppress(TruncatedFileError):  # an ingest says so; the days before that point count
        blocks = line_blocks(log.path, ratio_max=IngestSettings().unpacked_ratio_max)
        for block in chain(blocks, [b""]):
            parsed, state = parse_chunk(block, source, options, state, is_last=not block)
            for day, rows in rows_by_day(parsed.requests):
                digests.take(day, rows)
    return {day_of(day): digest for day, digest in digests.found().items()}


def rows_by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield number of day and rows of a block of requests, in their order."""
    if not len(rows):
        return
    days = np.asarray(rows["log_time_ms"]) // DAY_MS
    if days.min() == days.max():
        yield int(days[0]), rows
        return
    for day in np.unique(days).tolist():
        yield day, rows.filter(pa.array(days == day))


class DayDigests:
    """Digests that grow with the requests of a file, however it is cut into blocks."""

    def __init__(self) -> None:
        self._digests: dict[int, list[xxhash.xxh3_128]] = {}

    def take(self, day: int, rows: pa.RecordBatch) -> None:
        """Take the next requests of a day."""
        digests = self._digests.setdefault(day, [xxhash.xxh3_128() for _ in _COLUMNS])
        for digest, name in zip(digests, _COLUMNS, strict=True):
            digest.update(_numbers(rows[name]))

    def found(self) -> dict[int, str]:
        """Return the digest of each day, in hex."""
        return {
            day: xxhash.xxh3_128_hexdigest(b"".join(digest.digest() for digest in digests))
            for day, digests in self._digests.items()
        }


def _numbers(column: pa.Array) -> memoryview:
    return np.ascontiguousarray(pc.fill_null(column.cast(pa.int64()), -1)).data
