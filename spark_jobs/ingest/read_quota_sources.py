"""Every quota value an archive knows of, from all that tells of one: rows of quota_events."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archived_file import read_small_text, text_of
from spark_jobs.ingest.broker_facts import static_configs
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.log_stream import TruncatedFileError, log_lines
from spark_jobs.ingest.quota_sources.events import QuotaEvent
from spark_jobs.ingest.quota_sources.journal import read_journal
from spark_jobs.ingest.quota_sources.logged_alterations import logged_alterations
from spark_jobs.ingest.quota_sources.out_of_scope import (
    out_of_scope_alterations,
    out_of_scope_settings,
)
from spark_jobs.ingest.quota_sources.server_log import ServerLog, read_server_log
from spark_jobs.ingest.quota_sources.snapshot import read_snapshot
from spark_jobs.ingest.quota_sources.static_config import StaticConfig
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.storage import is_in_bucket

_EPOCH_MS = re.compile(r"(?<!\d)\d{13}(?!\d)")


@dataclass(frozen=True, slots=True)
class KnownQuotas:
    """Rows of ``tables.QUOTA_EVENTS`` in the order of time, and what people should know of them.

    ``server_logs`` tell of more than quotas.
    """

    rows: list[dict[str, Any]]
    warnings: tuple[str, ...]
    server_logs: tuple[ServerLog, ...] = ()


def known_quotas(
    archive: Archive,
    options: IngestOptions,
    alterations: Sequence[Mapping[str, Any]],
    broker_ids: Sequence[int],
    first_request_ms: int,
) -> KnownQuotas:
    """Return every quota value the archive knows of.

    ``alterations`` are the requests that alter quotas. A snapshot shows what held when the log
    began (``first_request_ms``), unless its name holds its own time as epoch milliseconds. Raises
    BadInputError where a snapshot, a journal or a server.properties does not read.
    """
    of_brokers = static_configs(archive, options, first_request_ms)
    server_logs = _server_logs(archive, options, broker_ids, of_brokers)
    configs = of_brokers.values()
    events = [
        *logged_alterations(alterations),
        *(event for log in server_logs.values() for event in log.quota_events),
        *_file_events(archive, options, first_request_ms),
        *(event for config in configs for event in config.quota_events),
    ]
    warnings = [
        f"{file}: {len(log.unread_lines)} line(s) about quotas in an unknown wording, the first is "
        f"line {log.unread_lines[0]}; they are left out of the timeline"
        for file, log in server_logs.items()
        if log.unread_lines
    ]
    warnings += _out_of_scope(archive, options, alterations, server_logs)
    warnings += [
        f"server.properties: {name} is not read by this broker version and left out"
        for name in sorted({name for config in configs for name in config.ignored})
    ]
    rows = [e.row() for e in sorted(events, key=_order)]
    return KnownQuotas(rows, tuple(warnings), tuple(server_logs.values()))


def _out_of_scope(
    archive: Archive,
    options: IngestOptions,
    alterations: Sequence[Mapping[str, Any]],
    server_logs: Mapping[str, ServerLog],
) -> list[str]:
    properties = archive.properties.values() if options.use_server_properties else ()
    texts = (*archive.journals, *archive.snapshots, *options.snapshots, *properties)
    warnings = [*out_of_scope_alterations(alterations)]
    for path in texts:
        warnings += out_of_scope_settings(_text(path, archive, "replace"), _name(path, archive))
    warnings += [
        f"{file}: {len(log.out_of_scope_lines)} line(s) about connection-rate quotas, the first is "
        f"line {log.out_of_scope_lines[0]}: out of scope (only quotas of clients are audited)"
        for file, log in server_logs.items()
        if log.out_of_scope_lines
    ]
    return warnings


def _order(event: QuotaEvent) -> tuple[object, ...]:
    file, line = event.source_file or "", event.source_line or 0
    return event.earliest_ms, event.latest_ms, event.source, file, line


def _server_logs(
    archive: Archive,
    options: IngestOptions,
    broker_ids: Sequence[int],
    configs: Mapping[int, StaticConfig],
) -> dict[str, ServerLog]:
    if not options.use_server_logs:
        return {}
    timezone = zoneinfo.ZoneInfo(options.timezone)
    of_brokers = [log for log in archive.server_logs if log.broker_id in broker_ids]
    with_zookeeper = {id_ for id_, config in configs.items() if config.uses_zookeeper}
    return {
        log.source_file: _server_log(log, timezone, uses_zookeeper=log.broker_id in with_zookeeper)
        for log in of_brokers
    }


def _server_log(log: LogFile, timezone: dt.tzinfo, *, uses_zookeeper: bool) -> ServerLog:
    assert log.broker_id is not None
    ratio_max = IngestSettings().unpacked_ratio_max
    lines = (line.decode("utf-8", "replace") for line in log_lines(log.path, ratio_max))
    try:
        return read_server_log(
            lines, log.broker_id, log.source_file, timezone, uses_zookeeper=uses_zookeeper
        )
    except TruncatedFileError as error:
        raise BadInputError(
            f"{log.source_file}: cannot be decompressed ({error}). Archive it again, or pass "
            "--ignore-server-logs to audit without it."
        ) from error


def _file_events(
    archive: Archive, options: IngestOptions, first_request_ms: int
) -> Iterator[QuotaEvent]:
    for path in archive.journals:
        yield from read_journal(_text(path, archive), _name(path, archive))
    for path in (*archive.snapshots, *options.snapshots):
        named_ms = _EPOCH_MS.search(path.name)
        taken_at_ms = int(named_ms[0]) if named_ms else first_request_ms
        yield from read_snapshot(_text(path, archive), taken_at_ms, _name(path, archive))


def check_snapshot(path: Path) -> None:
    """Raise BadInputError where a file that an option names is no snapshot.

    A pipe of the shell's is left alone: it can be read only once.
    """
    if path.is_file():
        read_snapshot(text_of(path.read_bytes(), path), 0, path.name)


def _text(path: Path, archive: Archive, errors: str = "strict") -> str:
    if _is_inside(path, archive):
        return read_small_text(path, errors)
    return text_of(path.read_bytes(), path, errors)  # an option: it may be a pipe of the shell's


def _name(path: Path, archive: Archive) -> str:
    inside = _is_inside(path, archive)
    return path.relative_to(archive.root).as_posix() if inside else path.name


def _is_inside(path: Path, archive: Archive) -> bool:
    # A file is never below a key of a bucket.
    return is_in_bucket(path) == is_in_bucket(archive.root) and path.is_relative_to(archive.root)
