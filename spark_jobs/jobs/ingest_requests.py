"""Step ingest_requests: an archive → requests, quarantine, files, brokers, quota_events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.broker_facts import broker_facts
from spark_jobs.jobs.ingest_options import IngestOptions
from spark_jobs.jobs.publish_table import write_arrow, write_partitions
from spark_jobs.jobs.quota_sources import known_quotas
from spark_jobs.jobs.read_logs import (
    FILE,
    INGESTED,
    LOG_FILES,
    QUARANTINED,
    REQUEST,
    read_log_files,
)
from spark_jobs.request_log.chunk import LogOptions
from spark_jobs.tables import BROKERS, FILES, QUARANTINE, QUOTA_EVENTS, REQUESTS

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
        days = _audited_days(lines, archive, day)
        _write_lines(lines, archive, warehouse, days)
        files = _check_conservation(spark, lines, warehouse, archive.cluster, days)
        alterations = _alterations(lines)
        broker_ids, first_ms = _brokers_and_begin(lines)
    finally:
        lines.unpersist()
    facts = broker_facts(archive, options, broker_ids)
    known = known_quotas(archive, options, alterations, broker_ids, first_ms)
    for one_day in days:
        end_ms = _day_ms(one_day) + 86_400_000
        table = pa.Table.from_pylist(
            [e for e in known.rows if e["earliest_ms"] < end_ms], QUOTA_EVENTS
        )
        write_arrow(spark, table, "quota_events", warehouse, archive.cluster, one_day)
        brokers = pa.Table.from_pylist(facts, BROKERS)
        write_arrow(spark, brokers, "brokers", warehouse, archive.cluster, one_day)
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


def _audited_days(lines: DataFrame, archive: Archive, day: dt.date | None) -> list[dt.date]:
    requests = lines.where(F.col("row_kind") == REQUEST)
    found = {
        r["date"]: r["n"] for r in requests.groupBy("date").agg(F.count("*").alias("n")).collect()
    }
    if not found:
        reasons = lines.where(F.col("row_kind") == QUARANTINED).groupBy("reason").count().collect()
        seen = ", ".join(f"{r['count']} {r['reason']}" for r in reasons) or "empty files"
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}: "
            f"found {seen}. Expected lines of kafka.request.logger like "
            "'[2026-11-21 02:40:27,064] DEBUG Completed request:{…} (kafka.request.logger)'."
        )
    if day is None:
        return sorted(dt.date.fromisoformat(d) for d in found)
    if str(day) not in found:
        raise BadInputError(
            f"{archive.root} holds no request of {day}; it covers {', '.join(sorted(found))}."
        )
    return [day]


def _write_lines(
    lines: DataFrame, archive: Archive, warehouse: Path, days: Sequence[dt.date]
) -> None:
    of_days = lines.where(F.col("date").isin([str(d) for d in days]))
    for row_kind, table, schema in (
        (REQUEST, "requests", REQUESTS),
        (QUARANTINED, "quarantine", QUARANTINE),
        (FILE, "files", FILES),
    ):
        rows = of_days.where(F.col("row_kind") == row_kind).select("date", *schema.names)
        write_partitions(rows, table, warehouse, archive.cluster, days)


def _check_conservation(
    spark: SparkSession, lines: DataFrame, warehouse: Path, cluster: str, days: Sequence[dt.date]
) -> list[dict[str, Any]]:
    """Return the files of ``days``; raise AuditFailedError unless every line is accounted for.

    Requests and quarantined lines are counted again in the tables as written.
    """
    dates = [str(d) for d in days]
    counted = lines.where((F.col("row_kind") == FILE) & F.col("date").isin(dates))
    files = [r.asDict() for r in counted.select("date", *FILES.names).collect()]
    for table in ("requests", "quarantine"):
        written = _written(spark, warehouse / table, cluster, dates)
        column = "requests" if table == "requests" else "quarantined"
        for file in files:
            stored = written.get((file["source_file"], file["date"]), 0)
            if stored != file[column]:
                raise AuditFailedError(
                    f"{file['source_file']}, {file['date']}: {file[column]} lines were read as "
                    f"{column}, but the table {table} holds {stored}. The warehouse is not to be "
                    "trusted; run the ingest again."
                )
    for file in files:
        parts = [int(file[c]) for c in ("requests", "quarantined", "other", "other_days")]
        if sum(parts) != file["lines_read"]:
            raise AuditFailedError(
                f"{file['source_file']}: {file['lines_read']} lines were read, but "
                f"{' + '.join(map(str, parts))} = {sum(parts)} were accounted for "
                "(requests + quarantined + other + other days)."
            )
    return files


def _written(
    spark: SparkSession, table: Path, cluster: str, dates: list[str]
) -> dict[tuple[str, str], int]:
    if not (table / f"cluster={cluster}").exists():
        return {}
    rows = (
        spark.read.parquet(str(table))
        .where((F.col("cluster") == cluster) & F.col("date").isin(dates))
        .groupBy("source_file", "date")
        .count()
    )
    return {(r["source_file"], r["date"]): r["count"] for r in rows.collect()}


def _alterations(lines: DataFrame) -> list[dict[str, Any]]:
    """Return the quota alterations of every day read: older ones may still be in force."""
    rows = lines.where((F.col("row_kind") == REQUEST) & (F.size("quota_alterations") > 0))
    return [r.asDict(recursive=True) for r in rows.select(*ALTERATION_COLUMNS).collect()]


def _brokers_and_begin(lines: DataFrame) -> tuple[list[int], int]:
    """Return every broker that logged a request, on whatever day, and the first one's time."""
    requests = lines.where(F.col("row_kind") == REQUEST)
    rows = requests.groupBy("broker_id").agg(F.min("log_time_ms").alias("first_ms")).collect()
    return sorted(r["broker_id"] for r in rows), min(r["first_ms"] for r in rows)


def _day_ms(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days * 86_400_000
