"""Which UTC days an archive covers, without auditing it."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.day_digests import DayDigests, rows_by_day
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import day_of


def archive_days(archive: Archive, timezone: str, prefix: str | None) -> list[dt.date]:
    """Return the UTC days that ``archive`` has requests of, in order.

    Raises BadInputError where no line of it is a request.
    """
    days = {day for log in archive.request_logs for day in days_of_log(log, timezone, prefix)}
    if not days:
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}; "
            "expected lines of the broker's logger kafka.request.logger at DEBUG."
        )
    return sorted(days)


def days_of_log(log: LogFile, timezone: str, prefix: str | None) -> dict[dt.date, str]:
    """Return the UTC days of the requests in one file, each with the digest of its requests."""
    options = LogOptions(timezone=timezone, prefix=prefix, listener_brokers={})
    digests = DayDigests()
    # The broker does not matter here, so a file without one is read as broker 0's.
    source = LineSource(log.source_file, log.broker_id or 0, 1)
    state = ChunkState()
    with suppress(TruncatedFileError):  # an ingest says so; the days before that point count
        for block in line_blocks(log.path, ratio_max=IngestSettings().unpacked_ratio_max):
            parsed, state = parse_chunk(block, source, options, state, is_last=False)
            for day, rows in rows_by_day(parsed.requests):
                digests.take(day, rows)
        last, _ = parse_chunk(b"", source, options, state, is_last=True)
        for day, rows in rows_by_day(last.requests):
            digests.take(day, rows)
    return {day_of(day): digest for day, digest in digests.found().items()}
