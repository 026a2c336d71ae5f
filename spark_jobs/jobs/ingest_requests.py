"""Step ingest_requests: an archive → requests, quarantine, files, brokers, quota_events."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.broker_facts import broker_facts
from spark_jobs.jobs.ingest_options import IngestOptions
from spark_jobs.jobs.ingested_lines import (
    audited_days,
    check_conservation,
    collect_files,
    overview,
    write_lines,
)
from spark_jobs.jobs.local_table import write_local
from spark_jobs.jobs.quota_sources import known_quotas
from spark_jobs.jobs.read_logs import (
    DAY_MS,
    INGESTED,
    LOG_FILES,
    REQUEST,
    read_log_files,
)
from spark_jobs.request_log.chunk import LogOptions
from spark_jobs.tables import BROKERS, FILES, QUOTA_EVENTS
from spark_jobs.warehouse import RunScope

ALTERATION_COLUMNS = (
    "broker_id", "log_time_ms", "client_id", "correlation_id", "is_forwarded",
    "quota_alterations", "validate_only", "error_codes", "remote_time_us",
    "response_queue_time_us", "send_time_us", "source_file", "source_line",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest read, for people."""

    days: tuple[dt.date, ...]
    files: int
    lines_read: int
    requests: int
    quarantined: int
    brokers: tuple[str, ...]
    warnings: tuple[str, ...]

    def sentence(self) -> str:
        """Return the ingest in one line, and one for each warning."""
        return (
            f"ingested {self.requests:,} requests of {self.lines_read:,} lines in {self.files} "
            f"files ({self.quarantined:,} quarantined), days {', '.join(map(str, self.days))}; "
            + "; ".join(self.brokers)
            + "".join(f"\nwarning: {warning}" for warning in self.warnings)
        )


def ingest_requests(
    spark: SparkSession,
    archive: Archive,
    warehouse: Path,
    day: dt.date | None,
    options: IngestOptions,
) -> IngestReport:
    """Write the ingested tables of ``day``, or of every day the archive holds.

    Raises BadInputError where there is nothing to audit, AuditFailedError where the lines written
    are not the lines read.
    """
    lines = _read(spark, archive, options).persist()
    try:
        seen = overview(lines)
        days = audited_days(seen, archive, day)
        files = collect_files(lines, days)
        write_lines(lines, seen, archive.cluster, warehouse, days)
        check_conservation(spark, files, warehouse, archive.cluster, days)
        alterations = _alterations(lines)
    finally:
        lines.unpersist()
    facts = broker_facts(archive, options, seen.broker_ids)
    known = known_quotas(archive, options, alterations, seen.broker_ids, seen.first_request_ms)
    for one_day in days:
        scope = RunScope(warehouse, archive.cluster, one_day)
        end_ms = _day_ms(one_day) + DAY_MS
        events = [e for e in known.rows if e["earliest_ms"] < end_ms]
        of_day = [f for f in files if f["date"] == str(one_day)]
        write_local(pa.Table.from_pylist(of_day, FILES), "files", scope)
        write_local(pa.Table.from_pylist(events, QUOTA_EVENTS), "quota_events", scope)
        write_local(pa.Table.from_pylist(facts, BROKERS), "brokers", scope)
    return IngestReport(
        days=tuple(days),
        files=len({f["source_file"] for f in files}),
        lines_read=sum({f["source_file"]: f["lines_read"] for f in files}.values()),
        requests=sum(f["requests"] for f in files),
        quarantined=sum(f["quarantined"] for f in files),
        warnings=known.warnings,
        brokers=tuple(
            f"broker {f['broker_id']}: {f['version'] or 'version unknown'} ({f['version_source']})"
            for f in facts
        ),
    )


def _read(spark: SparkSession, archive: Archive, options: IngestOptions) -> DataFrame:
    """Return every line of the archive as rows of INGESTED; one task a file."""
    files = [
        {
            "path": str(f.path.absolute()),
            "source_file": f.source_file,
            "broker_id": f.broker_id,
            "size_bytes": f.size_bytes,
            "fallback_ms": int(f.path.stat().st_mtime * 1000),
        }
        for f in sorted(archive.request_logs, key=lambda f: -f.size_bytes)
    ]
    named = spark.createDataFrame(
        pa.Table.from_pylist(files, LOG_FILES), schema=from_arrow_schema(LOG_FILES)
    ).repartitionByRange(len(files), "source_file")
    log_options = LogOptions(
        timezone=options.timezone,
        prefix=options.prefix,
        listener_brokers=dict(options.listener_brokers),
    )
    return named.mapInArrow(read_log_files(log_options), from_arrow_schema(INGESTED)).withColumn(
        "date",
        F.date_format(F.date_add(F.lit("1970-01-01").cast("date"), F.col("day")), "yyyy-MM-dd"),
    )


def _alterations(lines: DataFrame) -> list[dict[str, Any]]:
    """Return the quota alterations of every day read: older ones may still be in force."""
    rows = lines.where((F.col("row_kind") == REQUEST) & (F.size("quota_alterations") > 0))
    return [r.asDict(recursive=True) for r in rows.select(*ALTERATION_COLUMNS).collect()]


def _day_ms(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days * DAY_MS
