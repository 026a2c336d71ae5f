"""Every quota value an archive knows of, from all that tells of one: rows of quota_events."""

from __future__ import annotations

import datetime as dt
import io
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.jobs.archive import Archive, LogFile
from spark_jobs.jobs.broker_facts import static_configs
from spark_jobs.jobs.ingest_options import IngestOptions
from spark_jobs.jobs.log_stream import open_log
from spark_jobs.timeline.events import QuotaEvent
from spark_jobs.timeline.journal import read_journal
from spark_jobs.timeline.logged_alterations import logged_alterations
from spark_jobs.timeline.server_log import read_server_log
from spark_jobs.timeline.snapshot import read_snapshot


def quota_events(
    archive: Archive,
    options: IngestOptions,
    alterations: Sequence[Mapping[str, Any]],
    broker_ids: Sequence[int],
) -> list[dict[str, Any]]:
    """Return rows of ``tables.QUOTA_EVENTS`` in the order of time.

    ``alterations`` are the requests that alter quotas. Raises BadInputError where a snapshot, a
    journal or a server.properties does not read.
    """
    events = [
        *logged_alterations(alterations),
        *_server_log_events(archive, options, broker_ids),
        *_file_events(archive, options),
        *(e for config in static_configs(archive, options).values() for e in config.quota_events),
    ]
    return [event.row() for event in sorted(events, key=_order)]


def _order(event: QuotaEvent) -> tuple[object, ...]:
    file, line = event.source_file or "", event.source_line or 0
    return event.earliest_ms, event.latest_ms, event.source, file, line


def _server_log_events(
    archive: Archive, options: IngestOptions, broker_ids: Sequence[int]
) -> Iterator[QuotaEvent]:
    if not options.use_server_logs:
        return
    timezone = zoneinfo.ZoneInfo(options.timezone)
    for log in archive.server_logs:
        if log.broker_id not in broker_ids:
            continue
        yield from _server_log(log, timezone)


def _server_log(log: LogFile, timezone: dt.tzinfo) -> tuple[QuotaEvent, ...]:
    assert log.broker_id is not None
    with io.TextIOWrapper(open_log(log.path), "utf-8", errors="replace") as lines:
        return read_server_log(lines, log.broker_id, log.source_file, timezone).quota_events


def _file_events(archive: Archive, options: IngestOptions) -> Iterator[QuotaEvent]:
    for path in archive.journals:
        yield from read_journal(path.read_text("utf-8"), _name(path, archive))
    for path in (*archive.snapshots, *options.snapshots):
        taken_at_ms = int(path.stat().st_mtime * 1000)
        yield from read_snapshot(path.read_text("utf-8"), taken_at_ms, _name(path, archive))


def _name(path: Path, archive: Archive) -> str:
    inside = path.is_relative_to(archive.root)
    return path.relative_to(archive.root).as_posix() if inside else path.name
