"""Which UTC days an archive covers, without auditing it."""

from __future__ import annotations

import datetime as dt

import pyarrow.compute as pc

from spark_jobs.errors import BadInputError
from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.log_stream import TruncatedFileError, line_blocks
from spark_jobs.jobs.utc_days import DAY_MS, day_of
from spark_jobs.request_log.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.settings import IngestSettings


def archive_days(archive: Archive, timezone: str, prefix: str | None) -> list[dt.date]:
    """Return the UTC days that ``archive`` has requests of, in order.

    Raises BadInputError where no line of it is a request.
    """
    options = LogOptions(timezone=timezone, prefix=prefix, listener_brokers={})
    days: set[int] = set()
    ratio_max = IngestSettings().unpacked_ratio_max
    for log in archive.request_logs:
        # The broker does not matter here, so a file without one is read as broker 0's.
        source = LineSource(log.source_file, log.broker_id or 0, 1)
        state = ChunkState()
        try:
            for block in line_blocks(log.path, ratio_max=ratio_max):
                parsed, state = parse_chunk(block, source, options, state, is_last=False)
                times = parsed.requests["log_time_ms"]
                days |= set(pc.unique(pc.divide(times, DAY_MS)).to_pylist())
        except TruncatedFileError:
            continue  # an ingest says so; the days before that point count
    if not days:
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}; "
            "expected lines of the broker's logger kafka.request.logger at DEBUG."
        )
    return [day_of(day) for day in sorted(days)]
