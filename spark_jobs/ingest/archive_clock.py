"""Until when lines of an archive can be: a later one was written by a clock that is wrong.

Where all lines of an archive are later than this machine's clock, and no audited day is earlier,
that clock is behind. Where there is anything before it, a broker's clock was ahead.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archived_file import open_packed, open_regular
from spark_jobs.ingest.file_report import QUARANTINE_TABLE, REQUESTS_TABLE, FileReport
from spark_jobs.ingest.lines.chunk import first_times_ms
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.ingest.log_stream import read_block
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import (
    CALENDAR_END_MS,
    day_number,
    day_of,
    since_epoch_ms,
    stray_days,
)
from spark_jobs.warehouse.scope import days_of
from spark_jobs.wording.visible_text import visible

FILES_MAX = 16
_BEGIN_BYTES = 64 << 10
_NAMED = 3


def lines_until_ms(
    archive: Archive,
    timezone: str,
    prefix: str | None,
    warehouse: Path | None = None,
    now: dt.datetime | None = None,
) -> int:
    """Return the time (epoch ms) from which on lines are of the future, seen from ``now``.

    CALENDAR_END_MS where all lines at the begins of FILES_MAX files are, and so are all days that
    ``warehouse`` (None: not known) has of the cluster: then this machine's clock is behind, and
    says nothing of the lines.
    """
    settings = IngestSettings()
    until_ms, latest = since_epoch_ms(settings.latest_moment(now)), settings.latest_day(now)
    if warehouse and any(day <= latest for day in days_of(warehouse, archive.cluster)):
        return until_ms
    zone = zoneinfo.ZoneInfo(timezone)
    times_ms = [ms for log in _some(archive.request_logs) for ms in _times_ms(log, zone, prefix)]
    is_behind = bool(times_ms) and min(times_ms) >= until_ms
    return CALENDAR_END_MS if is_behind else until_ms


def clock_sentences(
    reports: Sequence[FileReport], until_ms: int, now: dt.datetime | None = None
) -> Iterator[str]:
    """Yield sentences for people about a clock that is wrong: this machine's, or a broker's."""
    clock = f"this machine's clock ({now or dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC)"
    if until_ms == CALENDAR_END_MS:
        yield (
            f"all lines of the archive are later than {clock}, which is taken to be behind: no "
            "line is set aside because of its time. Set the clock"
        )
    of_file = {
        report.source_file: sum(
            count.rows
            for count in report.counts
            if (count.table, count.reason) == (QUARANTINE_TABLE, Reason.FUTURE)
        )
        for report in reports
    }
    files = sorted(visible(name) for name, lines in of_file.items() if lines)
    if files:
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        yield (
            f"{sum(of_file.values()):,} requests are later than {clock} and were set aside "
            f"(quarantine, reason {Reason.FUTURE}), in {', '.join(files[:_NAMED])}{more}. Look at "
            "the broker's clock and --timezone; QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX allows more"
        )


def stray_sentences(reports: Sequence[FileReport], days: Sequence[dt.date]) -> Iterator[str]:
    """Yield a sentence for each of the audited ``days`` that a wrong clock may have made."""
    rows_of: Counter[dt.date] = Counter()
    for report in reports:
        for count in report.counts:
            if count.table == REQUESTS_TABLE and count.day is not None:
                rows_of[day_of(count.day)] += count.rows
    for day in stray_days(rows_of):
        if day in days:
            number = day_number(day)
            files = sorted(visible(r.source_file) for r in reports if number in r.day_digests)
            more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
            yield (
                f"{day} has few requests ({rows_of[day]:,}) and is far from the archive's other "
                f"days: a wrong clock may have written them, in {', '.join(files[:_NAMED])}{more}"
            )


def _some(logs: Sequence[LogFile]) -> Sequence[LogFile]:
    """Return up to FILES_MAX of ``logs``, spread over all of them."""
    count = min(len(logs), FILES_MAX)
    return [logs[index * len(logs) // count] for index in range(count)]


def _times_ms(log: LogFile, timezone: dt.tzinfo, prefix: str | None) -> list[int]:
    try:
        with open_regular(log.path) as raw:
            block, _, _ = read_block(open_packed(raw, log.path.suffix), _BEGIN_BYTES)
    except (BadInputError, OSError):  # an ingest says why
        return []
    return first_times_ms(block, timezone, prefix)
