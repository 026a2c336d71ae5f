"""What an ingest read: an overview, the tables, and the proof that no line is lost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.publish_table import write_partitions
from spark_jobs.jobs.read_logs import FILE, QUARANTINED, REQUEST
from spark_jobs.tables import FILES, QUARANTINE, REQUESTS


@dataclass(frozen=True, slots=True)
class Overview:
    """How many requests and quarantined lines there are, by day, broker and reason."""

    rows: tuple[dict[str, Any], ...]

    def days(self, row_kind: str) -> list[dt.date]:
        """Return the days that rows of a kind belong to, in order."""
        return sorted(
            {dt.date.fromisoformat(r["date"]) for r in self.rows if r["row_kind"] == row_kind}
        )

    @property
    def broker_ids(self) -> list[int]:
        """Return every broker that logged a request, on whatever day."""
        return sorted({r["broker_id"] for r in self.rows if r["row_kind"] == REQUEST})

    @property
    def first_request_ms(self) -> int:
        """Return the time of the first request."""
        return min(int(r["first_ms"]) for r in self.rows if r["row_kind"] == REQUEST)

    @property
    def quarantined(self) -> dict[str, int]:
        """Return how many lines were quarantined, by reason."""
        counts: dict[str, int] = {}
        for row in self.rows:
            if row["row_kind"] == QUARANTINED:
                counts[row["reason"]] = counts.get(row["reason"], 0) + row["lines"]
        return counts


def overview(lines: DataFrame) -> Overview:
    """Return the counts of rows of ``read_logs.INGESTED`` (with ``date``)."""
    rows = (
        lines.where(F.col("row_kind") != FILE)
        .groupBy("row_kind", "date", "broker_id", "reason")
        .agg(F.count("*").alias("lines"), F.min("log_time_ms").alias("first_ms"))
        .collect()
    )
    return Overview(tuple(row.asDict() for row in rows))


def audited_days(seen: Overview, archive: Archive, day: dt.date | None) -> list[dt.date]:
    """Return the days to write; raises BadInputError where ``day``, or any request, is missing."""
    found = seen.days(REQUEST)
    if not found:
        reasons = ", ".join(f"{n} {reason}" for reason, n in seen.quarantined.items())
        raise BadInputError(
            f"No request was read from {len(archive.request_logs)} file(s) under {archive.root}: "
            f"found {reasons or 'empty files'}. Expected lines of kafka.request.logger like "
            "'[2026-11-21 02:40:27,064] DEBUG Completed request:{…} (kafka.request.logger)'."
        )
    if day is None:
        return found
    if day not in found:
        covered = ", ".join(map(str, found))
        raise BadInputError(f"{archive.root} holds no request of {day}; it covers {covered}.")
    return [day]


def collect_files(lines: DataFrame, days: Sequence[dt.date]) -> list[dict[str, Any]]:
    """Return the rows of ``files`` (with ``date``) of ``days``."""
    counted = lines.where((F.col("row_kind") == FILE) & F.col("date").isin(_texts(days)))
    return [row.asDict() for row in counted.select("date", *FILES.names).collect()]


def write_lines(
    lines: DataFrame, seen: Overview, cluster: str, warehouse: Path, days: Sequence[dt.date]
) -> None:
    """Write the partitions of ``days`` of the tables requests and quarantine."""
    for row_kind, table, schema in (
        (REQUEST, "requests", REQUESTS),
        (QUARANTINED, "quarantine", QUARANTINE),
    ):
        of_days = (F.col("row_kind") == row_kind) & F.col("date").isin(_texts(days))
        rows = lines.where(of_days).select("date", *schema.names)
        filled = set(days) & set(seen.days(row_kind))
        write_partitions(rows, table, warehouse, cluster, days, filled)


def check_conservation(
    spark: SparkSession,
    files: Sequence[dict[str, Any]],
    warehouse: Path,
    cluster: str,
    days: Sequence[dt.date],
) -> None:
    """Raise AuditFailedError unless every line of ``files`` is accounted for.

    Requests and quarantined lines are counted again in the tables as written.
    """
    for table, column in (("requests", "requests"), ("quarantine", "quarantined")):
        written = _written(spark, warehouse / table, cluster, days)
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


def _written(
    spark: SparkSession, table: Path, cluster: str, days: Sequence[dt.date]
) -> dict[tuple[str, str], int]:
    folders = [table / f"cluster={cluster}" / f"date={day}" for day in days]
    existing = [str(folder) for folder in folders if folder.is_dir()]
    if not existing:
        return {}
    rows = (
        spark.read.option("basePath", str(table))
        .parquet(*existing)
        .groupBy("source_file", "date")
        .count()
    )
    return {(r["source_file"], str(r["date"])): r["count"] for r in rows.collect()}


def _texts(days: Sequence[dt.date]) -> list[str]:
    return [str(day) for day in days]
