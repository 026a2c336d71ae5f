"""Saying which days of an archive are due, and reading what has to be read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from pyspark.sql import SparkSession

from spark_jobs.audit.due_days import Digests, ReadLogs, due_days
from spark_jobs.ingest.archive import Archive, LogFile
from spark_jobs.ingest.archive_days import days_of_log
from spark_jobs.spark.on_workers import on_workers


def print_due(
    archive: Archive,
    warehouse: Path,
    timezone: str,
    prefix: str | None,
    session: Callable[[], SparkSession],
) -> None:
    """Print ``day reason`` for each day that is due; nothing where none is.

    ``session`` starts Spark: only where there are files that no audit has read.
    """
    reading: ReadLogs = lambda logs: read_with(session(), archive, timezone, prefix)(logs)  # noqa: E731
    for due in due_days(archive, warehouse, reading):
        typer.echo(f"{due.day} {due.reason}")


def read_with(spark: SparkSession, archive: Archive, timezone: str, prefix: str | None) -> ReadLogs:
    """Return what reads log files on Spark's workers, one task a file."""

    def read(logs: Sequence[LogFile]) -> Sequence[Digests]:
        read_one = partial(days_of_log, timezone=timezone, prefix=prefix)
        absolute = [replace(log, path=log.path.absolute()) for log in logs]
        return on_workers(spark, absolute, read_one, read=archive.root.absolute())

    return read
