"""Step ingest_requests: an archive → requests, quota_events, brokers, files and more tables."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.ingest.archive import Archive
from spark_jobs.ingest.archive_clock import clock_sentences, lines_until_ms, stray_sentences
from spark_jobs.ingest.broker_facts import broker_facts
from spark_jobs.ingest.file_report import (
    FileReport,
    check_none_refused,
    counted_once,
    same_lines_sentences,
    warnings_of,
)
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingested_files import (
    audited_days,
    check_conservation,
    file_rows,
    publish_parts,
)
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.ingest.lines.served_apis import ServedApis, newer_sentences
from spark_jobs.ingest.log_gaps import loss_sentences, write_log_gaps
from spark_jobs.ingest.quota_sources.restarts import (
    BrokerStart,
    ConnectionSpan,
    inferred_starts,
    known_starts,
    restart_spans,
)
from spark_jobs.ingest.quota_sources.server_log import ServerLog
from spark_jobs.ingest.read_logs import ReadTask, read_archived
from spark_jobs.ingest.read_quota_sources import known_quotas
from spark_jobs.settings import IngestSettings
from spark_jobs.spark.on_workers import on_workers
from spark_jobs.warehouse.days import AHEAD_MS, DAY_MS, day_number
from spark_jobs.warehouse.read import read_frame
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import remove_folder
from spark_jobs.warehouse.tables import (
    BROKER_STARTS,
    BROKERS,
    FILES,
    QUOTA_EVENTS,
    THROTTLE_RECORDS,
)
from spark_jobs.warehouse.write import NewRun, begin_draft, write_table


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest read, for people."""

    scopes: tuple[RunScope, ...]  # of the days written, in order
    files: int
    lines_read: int
    requests: int
    quarantined: int
    brokers: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def days(self) -> tuple[dt.date, ...]:
        """Return the days written, in order."""
        return tuple(scope.day for scope in self.scopes)

    def sentence(self) -> str:
        """Return the ingest in one line, and one for each warning."""
        return (
            f"ingested {self.requests:,} requests of {self.lines_read:,} lines in {self.files} "
            f"files ({self.quarantined:,} quarantined), days {', '.join(map(str, self.days))}; "
            + "; ".join(self.brokers)
            + "".join(f"\nwarning: {warning}" for warning in self.warnings)
        )


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """What was read of every file, the days written, and the rows of the table ``files``.

    ``warnings`` are of clocks that are wrong.
    """

    reports: list[FileReport]
    scopes: list[RunScope]
    files: list[dict[str, Any]]
    warnings: tuple[str, ...]


def ingest_requests(
    spark: SparkSession,
    archive: Archive,
    warehouse: Path,
    day: dt.date | None,
    options: IngestOptions,
    run: NewRun | None = None,
    now: dt.datetime | None = None,
) -> IngestReport:
    """Write the ingested tables of ``day``, or of every day the archive holds.

    They are the beginning of ``run``, which somebody has to publish; without one they are
    published at once. Lines are of the future seen from ``now`` (None: the clock). Raises
    BadInputError where there is nothing to audit, AuditFailedError where the lines written are not
    the lines read.
    """
    read = read_archive(spark, archive, warehouse, day, options, run, now)
    reports, scopes, files = read.reports, read.scopes, read.files
    broker_ids = sorted({broker_id for report in reports for broker_id in report.broker_ids})
    first_ms = min(r.first_request_ms for r in reports if r.first_request_ms is not None)
    alterations = [row for report in reports for row in report.alterations]
    served = ServedApis.of_all(report.served_beyond for report in reports)
    facts = broker_facts(archive, options, broker_ids, served.beyond)
    known = known_quotas(archive, options, alterations, broker_ids, first_ms)
    for scope in scopes:
        # A replay looks ahead so far.
        end_ms = (day_number(scope.day) + 1) * DAY_MS + AHEAD_MS
        events = [e for e in known.rows if e["earliest_ms"] < end_ms]
        of_day = [f for f in files if f["date"] == scope.day]
        write_table(pa.Table.from_pylist(of_day, FILES), "files", scope)
        write_table(pa.Table.from_pylist(events, QUOTA_EVENTS), "quota_events", scope)
        write_table(pa.Table.from_pylist(facts, BROKERS), "brokers", scope)
    starts = inferred_starts(_connection_spans(spark, scopes))
    write_server_log_tables(scopes, known.server_logs, starts)
    return IngestReport(
        scopes=tuple(scopes),
        files=len({f["source_file"] for f in files}),
        lines_read=sum({f["source_file"]: f["lines_read"] for f in files}.values()),
        requests=sum(f["requests"] for f in files),
        quarantined=sum(f["quarantined"] for f in files),
        warnings=(
            *warnings_of(reports),
            *read.warnings,
            *same_lines_sentences(reports),
            *known.warnings,
            *newer_sentences(facts),
            *_losses(spark, scopes, files, starts),
        ),
        brokers=tuple(
            f"broker {f['broker_id']}: {f['version'] or 'version unknown'} ({f['version_source']})"
            for f in facts
        ),
    )


def read_archive(
    spark: SparkSession,
    archive: Archive,
    warehouse: Path,
    day: dt.date | None,
    options: IngestOptions,
    run: NewRun | None = None,
    now: dt.datetime | None = None,
) -> ReadArchive:
    """Write ``requests`` and ``quarantine`` of ``day``, or of every day the archive holds.

    ``run``, ``now`` and what is raised are as :func:`ingest_requests` does.
    """
    folder = warehouse / f".staged-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    until_ms = options.until_ms
    if until_ms is None:
        until_ms = lines_until_ms(archive, options.timezone, options.prefix, warehouse, now)
    try:
        reports = _read(spark, archive, options, folder, day, until_ms)
        check_none_refused(reports)
        reports = counted_once(reports)
        days = audited_days(reports, archive, day)
        files = file_rows(reports, days)
        check_conservation(reports, files, days)
        scopes = [RunScope(warehouse, archive.cluster, one_day) for one_day in days]
        if run is not None:
            scopes = [begin_draft(scope, run) for scope in scopes]
        publish_parts(reports, scopes)
    finally:
        remove_folder(folder)
    warnings = (*clock_sentences(reports, until_ms, now), *stray_sentences(reports, days))
    return ReadArchive(reports, scopes, files, warnings)


def _losses(
    spark: SparkSession,
    scopes: Sequence[RunScope],
    files: Sequence[Mapping[str, Any]],
    starts: Iterable[BrokerStart],
) -> Iterator[str]:
    """Yield a sentence a day about requests that are missing from the log."""
    down = restart_spans(starts)
    for scope in scopes:
        requests = sum(f["requests"] for f in files if f["date"] == scope.day)
        for sentence in loss_sentences(write_log_gaps(spark, scope, down), requests):
            yield f"{scope.day}: {sentence}"


def _read(
    spark: SparkSession,
    archive: Archive,
    options: IngestOptions,
    folder: Path,
    day: dt.date | None,
    until_ms: int,
) -> list[FileReport]:
    """Return every file's report; one task a file, the largest first."""
    log_options = LogOptions(
        timezone=options.timezone,
        prefix=options.prefix,
        listener_brokers=dict(options.listener_brokers),
        until_ms=until_ms,
    )
    ratio_max = IngestSettings().unpacked_ratio_max
    task = ReadTask(log_options, folder, None if day is None else day_number(day), ratio_max)
    logs = sorted(archive.request_logs, key=lambda log: -log.size_bytes)
    logs = [replace(log, path=log.path.absolute()) for log in logs]
    read = partial(read_archived, task=task)
    return on_workers(spark, logs, read, read=archive.root.absolute(), written=folder)


def write_server_log_tables(
    scopes: Sequence[RunScope], server_logs: Iterable[ServerLog], inferred: Iterable[BrokerStart]
) -> None:
    """Write ``broker_starts`` and ``throttle_records`` of ingested days of one cluster.

    Of brokers whose server log tells of no start, the ``inferred`` ones count.
    """
    logs = list(server_logs)
    starts = [s.row() for s in known_starts((s for log in logs for s in log.starts), inferred)]
    throttles = [record.row() for log in logs for record in log.throttles]
    throttles.sort(key=lambda r: (r["at_ms"], r["source_file"], r["source_line"]))
    for scope in scopes:
        of_day = _of_day(starts, "started_ms", scope)
        write_table(pa.Table.from_pylist(of_day, BROKER_STARTS), "broker_starts", scope)
        of_day = _of_day(throttles, "at_ms", scope)
        write_table(pa.Table.from_pylist(of_day, THROTTLE_RECORDS), "throttle_records", scope)


def _of_day(
    rows: Iterable[Mapping[str, Any]], time_column: str, scope: RunScope
) -> list[Mapping[str, Any]]:
    day = day_number(scope.day)
    return [row for row in rows if row[time_column] // DAY_MS == day]


def _connection_spans(spark: SparkSession, scopes: Sequence[RunScope]) -> list[ConnectionSpan]:
    """Return the connections of all days; one open at midnight is one span."""
    columns = (
        "broker_id", "connection", "log_time_ms", "recorded_earliest_ms", "api_name",
        "correlation_id",
    )  # fmt: skip
    # Clients ask for a broker's versions when they connect, and count their requests from 0.
    opens = (F.col("api_name") == "API_VERSIONS") | (F.col("correlation_id") == 0)
    written = F.struct("log_time_ms", "correlation_id")
    days = [read_frame(spark, "requests", scope).select(*columns) for scope in scopes]
    found = (
        reduce(DataFrame.union, days)
        .groupBy("broker_id", "connection")
        .agg(
            F.min("recorded_earliest_ms").alias("first_ms"),
            F.max("log_time_ms").alias("last_ms"),
            F.min_by(opens, written).alias("is_opened"),
        )
        .toArrow()
    )
    return [ConnectionSpan(**row) for row in found.to_pylist()]
