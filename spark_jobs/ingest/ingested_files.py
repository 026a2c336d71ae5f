"""Driver's side of an ingest: the reports of all files → days, conservation, tables."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.ingest.archive import Archive
from spark_jobs.ingest.file_report import QUARANTINE_TABLE, REQUESTS_TABLE, FileReport
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.warehouse.days import day_number, day_of
from spark_jobs.warehouse.parquet import parquet_file
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import storage_path
from spark_jobs.warehouse.write import put_files

AHEAD = "_ahead"
"""Beside a day's requests, those of the first minutes after it. Engines pass such folders over."""
_HINTS = {
    Reason.BEFORE_2_0: " Brokers before 2.0 held throttled responses back, which cannot be "
    "audited.",
    Reason.FUTURE: " Requests are later than this machine's clock: set it, or look at the broker's "
    "clock and --timezone. QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX allows more.",
}
_ACCOUNTED = ("requests", "quarantined", "other", "other_days", "duplicated")


def audited_days(
    reports: Sequence[FileReport], archive: Archive, day: dt.date | None
) -> list[dt.date]:
    """Return the days to write; raises BadInputError where ``day``, or any request, is missing."""
    counts = [count for report in reports for count in report.counts]
    found = sorted(
        {day_of(c.day) for c in counts if c.table == REQUESTS_TABLE and c.day is not None}
    )
    if not found:
        reasons: Counter[str] = Counter()
        for count in counts:
            reasons[str(count.reason)] += count.rows
        seen = ", ".join(f"{n} {reason}" for reason, n in reasons.items())
        hint = "".join(text for reason, text in _HINTS.items() if reason in reasons)
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}: "
            f"found {seen or 'empty files'}. Expected lines of kafka.request.logger like "
            "'[2026-11-21 02:40:27,064] DEBUG Completed request:{…} (kafka.request.logger)'." + hint
        )
    if day is None:
        return found
    if day not in found:
        covered = ", ".join(map(str, found))
        raise BadInputError(f"{archive.root} holds no request of {day}; it covers {covered}.")
    return [day]


def file_rows(reports: Sequence[FileReport], days: Sequence[dt.date]) -> list[dict[str, Any]]:
    """Return the rows of the table ``files`` (with ``date``) of ``days``.

    A file without any time, or with another's lines, is told of on the first of them.
    """
    rows = []
    for report in reports:
        total = sum(count.rows for count in report.counts)
        for day in days:
            requests = report.rows(REQUESTS_TABLE, day_number(day))
            quarantined = report.rows(QUARANTINE_TABLE, day_number(day))
            if day == days[0]:
                quarantined += report.rows(QUARANTINE_TABLE, None)
            if requests + quarantined == 0 and (total or day != days[0]):
                continue
            rows.append(
                {
                    "date": day,
                    "source_file": report.source_file,
                    "broker_id": report.broker_id,
                    "bytes_read": report.bytes_read,
                    "modified_ns": report.modified_ns,
                    "lines_read": report.lines_read,
                    "requests": requests,
                    "quarantined": quarantined,
                    "other": report.other,
                    "other_days": total - requests - quarantined,
                    "duplicated": report.duplicated,
                    "duplicate_of": report.duplicate_of,
                    "digest": report.digest,
                    "day_digest": report.day_digests.get(day_number(day)),
                    "days": [str(day_of(number)) for number in sorted(report.day_digests)],
                }
            )
    return rows


def check_conservation(
    reports: Sequence[FileReport], files: Sequence[dict[str, Any]], days: Sequence[dt.date]
) -> None:
    """Raise AuditFailedError unless every line read is in a table, or counted as left out.

    What the tables hold is read from the Parquet files as written.
    """
    for file in files:
        parts = [int(file[name]) for name in _ACCOUNTED]
        if sum(parts) != file["lines_read"]:
            raise AuditFailedError(
                f"{file['source_file']}: {file['lines_read']} lines were read, but "
                f"{' + '.join(map(str, parts))} = {sum(parts)} were accounted for "
                "(requests + quarantined + other + other days + duplicated)."
            )
    wanted = {None, *map(day_number, days)}
    for report in reports:
        stored: Counter[tuple[str, int | None]] = Counter()
        for part in report.parts:
            with parquet_file(part.path) as written:
                stored[part.table, part.day] += written.metadata.num_rows
        counted: Counter[tuple[str, int | None]] = Counter()
        for count in report.counts:
            if count.day in wanted:
                counted[count.table, count.day] += count.rows
        for table, day in sorted(stored.keys() | counted.keys(), key=str):
            if day in wanted and stored[table, day] != counted[table, day]:
                raise AuditFailedError(
                    f"{report.source_file}: {counted[table, day]} lines were read for the table "
                    f"{table}, but {stored[table, day]} were written. Run the ingest again."
                )


def publish_parts(reports: Sequence[FileReport], scopes: Sequence[RunScope]) -> None:
    """Replace the partitions of days of requests and quarantine by what workers wrote.

    Files that no report names, of a task that was started twice, are left behind.
    """
    for table in (REQUESTS_TABLE, QUARANTINE_TABLE):
        for scope in scopes:
            numbers = {day_number(scope.day)} | ({None} if scope is scopes[0] else set())
            paths = [
                storage_path(part.path)
                for report in reports
                for part in report.parts
                if part.table == table and part.day in numbers
            ]
            ahead = _first_minutes_after(reports, scopes, scope) if table == REQUESTS_TABLE else []
            put_files(paths, table, scope, {AHEAD: ahead})


def _first_minutes_after(
    reports: Sequence[FileReport], scopes: Sequence[RunScope], scope: RunScope
) -> list[Path]:
    """Return the files of the day after ``scope`` where that is not among ``scopes`` itself."""
    after = day_number(scope.day) + 1
    if after in {day_number(other.day) for other in scopes}:
        return []
    parts = (part for report in reports for part in report.parts)
    return [storage_path(p.path) for p in parts if p.table == REQUESTS_TABLE and p.day == after]
