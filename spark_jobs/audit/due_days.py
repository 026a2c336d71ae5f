"""Which days of an archive have to be audited, or audited again, and why.

The tables ``files`` of the audited days are the manifest: what was read, how large it was and when
it had been written, and what it said of each day. A file that only grew by another day's lines, or
has another name since it was rotated, makes no day due.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archive_days import days_of_log
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.days import CALENDAR_END_MS, DAY_MS, day_number
from spark_jobs.warehouse.read import older_tables, read_table
from spark_jobs.warehouse.scope import APPENDED, RunScope, days_of
from spark_jobs.wording.visible_text import visible

_NAMED = 3
_COLUMNS = ["source_file", "broker_id", "bytes_read", "modified_ns", "day_digest", "days"]
Digests = Mapping[dt.date, str]
"""What a file says of each of its days (:class:`spark_jobs.ingest.archive_days.DayDigests`)."""
ReadLogs = Callable[[Sequence[LogFile]], Sequence[Digests]]
_Manifest = Mapping[dt.date, Mapping[str, Mapping[str, Any]]]
_NOTHING: Mapping[str, Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class DueDay:
    """A day to audit, half a sentence why, and the request logs that may say something of it."""

    day: dt.date
    reason: str
    logs: tuple[LogFile, ...]


@dataclass(slots=True)
class _Changes:
    """Files with requests of one day that its audit did not read, or has read otherwise."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # an older version did not note what it read


def due_days(
    archive: Archive, warehouse: Path, read_logs: ReadLogs, until_ms: int = CALENDAR_END_MS
) -> list[DueDay]:
    """Return the days of ``archive`` that are due, in order.

    ``read_logs`` tells of files that no audit has read as they are now. A day from ``until_ms`` on
    is of the future: an earlier version audited it, and no lines make it now.
    """
    audited = _manifest(warehouse, archive.cluster)
    changes: defaultdict[dt.date, _Changes] = defaultdict(_Changes)
    known_days = {log: _known_days(log, audited) for log in archive.request_logs}
    for log, days in known_days.items():
        for day in days or ():
            if log.source_file not in audited.get(day, _NOTHING):
                changes[day].new.append(visible(log.source_file))
    unread = [log for log, days in known_days.items() if days is None]
    fresh = dict(zip(unread, read_logs(unread) if unread else (), strict=True))
    said = {(log.broker_id, digest) for log, found in fresh.items() for digest in found.values()}
    for log, digests in fresh.items():
        _compare(log, digests, said, audited, changes)
        known_days[log] = set(digests)
    reasons = {day: _reason(change, day in audited) for day, change in changes.items()}
    for day in audited.keys() & set().union(*(days or () for days in known_days.values())):
        own = RunScope(warehouse, archive.cluster, day)
        found = reasons.get(day) or _begins_otherwise(own), _made_by_older(own)
        if any(found):
            reasons[day] = "; ".join(reason for reason in found if reason)
    logs_of = {
        # Also those without any request at all.
        day: tuple(log for log, days in known_days.items() if not days or day in days)
        for day in reasons
        if day_number(day) * DAY_MS < until_ms
    }
    return [DueDay(day, reasons[day], logs_of[day]) for day in sorted(logs_of)]


def read_with(spark: SparkSession, archive: Archive, options: LogOptions) -> ReadLogs:
    """Return the reading of log files on Spark's workers, one task a file."""

    def read(logs: Sequence[LogFile]) -> Sequence[Digests]:
        read_one = partial(days_of_log, options=options)
        absolute = [replace(log, path=log.path.absolute()) for log in logs]
        return on_workers(spark, absolute, read_one, read=archive.root.absolute())

    return read


def _manifest(warehouse: Path, cluster: str) -> _Manifest:
    """Return the rows of ``files`` by day and file; null is what an older version did not note."""
    rows_of = {
        day: read_table(RunScope(warehouse, cluster, day), "files", _COLUMNS, of_any_version=True)
        for day in days_of(warehouse, cluster)
    }
    return {
        day: {row["source_file"]: row for row in rows.to_pylist()} for day, rows in rows_of.items()
    }


def _made_by_older(scope: RunScope) -> str | None:
    """Return a reason naming the tables that an older version wrote otherwise, None without any."""
    made_by = older_tables(scope).items()
    # No audit writes what was applied.
    older = [f"{table} {made.schema}" for table, made in made_by if table not in APPENDED]
    return f"made by an older version: {_files(older)}" if older else None


def _known_days(log: LogFile, audited: _Manifest) -> set[dt.date] | None:
    """Return the days of a file's requests; None where no audit has read it as it is now."""
    there = log.size_bytes, log.modified_ns
    for rows in audited.values():
        row = rows.get(log.source_file)
        if row is None or row["days"] is None:
            continue
        if there == (row["bytes_read"], row["modified_ns"]):
            return {dt.date.fromisoformat(day) for day in row["days"]}
    return None


def _compare(
    log: LogFile,
    digests: Digests,
    said: set[tuple[int | None, str]],
    audited: _Manifest,
    changes: defaultdict[dt.date, _Changes],
) -> None:
    """Note the days of which a file says what their audits have read of no file, or no longer does.

    ``said`` is what all such files say now: of a file that was rotated, another one does.
    """
    name = visible(log.source_file)
    for day, digest in digests.items():
        rows = audited.get(day, _NOTHING)
        if any((r["broker_id"], r["day_digest"]) == (log.broker_id, digest) for r in rows.values()):
            continue
        known = rows.get(log.source_file)
        if known is None:
            changes[day].new.append(name)
        else:
            is_noted = known["day_digest"] is not None
            (changes[day].changed if is_noted else changes[day].unknown).append(name)
    for day, rows in audited.items():
        row = rows.get(log.source_file)
        if row is None or row["day_digest"] is None or day in digests:
            continue
        if (row["broker_id"], row["day_digest"]) not in said:
            changes[day].changed.append(name)


def _begins_otherwise(own: RunScope) -> str | None:
    """Return the reason why a replay did not begin with the day before's published states."""
    before, began = own.day_before.carried(), own.carried()
    if began is None or before is None or began["before"] == before["after"]:
        return None
    how = "audited after it" if began["before"] is None else "audited again, and left other states"
    return f"{own.day_before.day} was {how}"


def _reason(change: _Changes, is_audited: bool) -> str:
    if not is_audited:
        return f"not audited yet ({_files(change.new)})"
    parts = [
        (change.new, "new"),
        (change.changed, "changed since"),
        (change.unknown, "an older version did not note what it read"),
    ]
    return "; ".join(f"{what}: {_files(names)}" for names, what in parts if names)


def _files(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more
