"""Workers' side of an ingest: one log file → Parquet files of its requests and quarantined lines.

Rows go from Arrow straight into Parquet; only counts, and the few requests that alter quotas,
travel to the driver.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.archive_days import DayDigests, rows_by_day
from spark_jobs.ingest.file_report import (
    QUARANTINE_TABLE,
    REQUESTS_TABLE,
    Count,
    FileReport,
    Part,
)
from spark_jobs.ingest.lines.chunk import ChunkState, LineSource, LogOptions, parse_chunk
from spark_jobs.ingest.lines.served_apis import ServedApis, beyond_of_requests
from spark_jobs.ingest.log_stream import UNPACKED_RATIO_MAX, TruncatedFileError, line_blocks
from spark_jobs.warehouse.days import AHEAD_MS, DAY_MS
from spark_jobs.warehouse.tables import QUARANTINE, TABLES
from spark_jobs.warehouse.worker_files import worker_file

UNREADABLE_FILE = "unreadable_file"
UNDATED_ROWS_MAX = 65_536
"""More lines than these do not wait for the first that has a day; they are the archive's first's.
"""
ALTERATION_COLUMNS = (
    "broker_id", "log_time_ms", "client_id", "correlation_id", "is_forwarded",
    "quota_alterations", "validate_only", "error_codes", "remote_time_us",
    "response_queue_time_us", "send_time_us", "source_file", "source_line",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadTask:
    """How to read files, where to stage their rows, and of which UTC day number (None: all).

    Of the day after, its first minutes are staged too: they tell of the last throttles.
    A file that unpacks to more than ``unpacked_ratio_max`` times its size is refused.
    """

    options: LogOptions
    folder: Path
    day: int | None
    unpacked_ratio_max: int = UNPACKED_RATIO_MAX


def read_archived(log: LogFile, task: ReadTask) -> FileReport:
    """Return the report of one file; ``refused`` and ``warning`` say what is wrong with it.

    Nothing is raised for the file's sake: a worker's exception would reach people as a traceback.
    """
    try:
        report = read_log_file(log, task)
    except BadInputError as error:
        return FileReport(log.source_file, log.broker_id, log.size_bytes, refused=str(error))
    return with_changes(report, log)


def with_changes(report: FileReport, log: LogFile) -> FileReport:
    """Return ``report`` with what happened to the file since the archive was listed."""
    report.modified_ns = log.modified_ns
    try:
        now = log.path.stat()
    except OSError as error:
        report.warning = (
            f"{log.path} was read, but has been renamed or removed since "
            f"({error.strerror or error}): lines that were written at the end may be missing"
        )
        return report
    if now.st_size > log.size_bytes:
        report.warning = (
            f"{log.path} grew from {log.size_bytes:,} to {now.st_size:,} bytes while it was read: "
            "its last line may be cut, and later ones are missing. Ingest again when it is closed"
        )
    elif now.st_size != log.size_bytes or log.modified_ns not in (None, now.st_mtime_ns):
        report.refused = (
            f"{log.path} was replaced or rewritten while it was read ({log.size_bytes:,} bytes "
            f"when the archive was listed, {now.st_size:,} now): what was read is of neither file. "
            "Run again; copy files into the archive when they are closed."
        )
    return report


def read_log_file(log: LogFile, task: ReadTask) -> FileReport:
    """Return the report of one file, whose rows of the day asked for were written as Parquet."""
    reader = _FileReader(log, task)
    state = ChunkState()
    digest = xxhash.xxh3_128()
    blocks = line_blocks(log.path, ratio_max=task.unpacked_ratio_max)
    try:
        for data in chain(blocks, [b""]):
            digest.update(data)
            source = LineSource(log.source_file, log.broker_id, reader.report.lines_read + 1)
            parsed, state = parse_chunk(data, source, task.options, state, is_last=not data)
            reader.report.lines_read += parsed.lines_read
            reader.report.other += parsed.other
            reader.take_requests(parsed.requests)
            reader.take_quarantine(parsed.quarantine)
    except TruncatedFileError as error:
        reader.cut(str(error))
    reader.report.digest = digest.hexdigest()
    return reader.close(state.served)


class _FileReader:
    """Counts and writes the rows of one file, day by day."""

    def __init__(self, log: LogFile, task: ReadTask) -> None:
        self.report = FileReport(log.source_file, log.broker_id, log.size_bytes)
        self._task = task
        self._writer = PartWriter(task.folder)
        self._counts: Counter[tuple[str, int | None, str | None]] = Counter()
        self._digests = DayDigests()
        self._broker_ids: set[int] = set()
        self._served = ServedApis()
        self._undated: list[pa.RecordBatch] = []
        self._last_day: int | None = None

    def take_requests(self, rows: pa.RecordBatch) -> None:
        """Take a block's requests."""
        if not len(rows):
            return
        for day, of_day in rows_by_day(rows):
            self._counts[REQUESTS_TABLE, day, None] += len(of_day)
            self._digests.take(day, of_day)
            self._write(REQUESTS_TABLE, day, of_day)
        self._last_day = rows["log_time_ms"][-1].as_py() // DAY_MS
        self._broker_ids |= set(pc.unique(rows["broker_id"]).to_pylist())
        self._take_served(rows)
        first_ms = pc.min(rows["log_time_ms"]).as_py()
        known_ms = self.report.first_request_ms
        self.report.first_request_ms = first_ms if known_ms is None else min(known_ms, first_ms)
        altering = rows.filter(
            pc.greater(pc.fill_null(pc.list_value_length(rows["quota_alterations"]), 0), 0)
        )
        self.report.alterations += altering.select(list(ALTERATION_COLUMNS)).to_pylist()

    def _take_served(self, rows: pa.RecordBatch) -> None:
        key, version = (rows[name].to_numpy() for name in ("api_key", "api_version"))
        if beyond_of_requests(key, version):
            broker = rows["broker_id"].to_numpy()
            for broker_id in np.unique(broker).tolist():
                own = broker == broker_id
                self._served.take(broker_id, beyond_of_requests(key[own], version[own]))

    def take_quarantine(self, rows: pa.RecordBatch) -> None:
        """Take a block's quarantined lines; one without a time belongs to the day around it."""
        if not len(rows):
            return
        if self._last_day is None and rows["log_time_ms"].null_count:
            self._undated.append(rows)
            if sum(map(len, self._undated)) >= UNDATED_ROWS_MAX:
                self._date_undated()
            return
        self._date_and_write(rows)

    def cut(self, why: str) -> None:
        """Count the unreadable rest of the file as one quarantined line."""
        self.report.lines_read += 1
        row = {
            "broker_id": self.report.broker_id,
            "log_time_ms": None,
            "source_file": self.report.source_file,
            "source_line": self.report.lines_read,
            "reason": UNREADABLE_FILE,
            "text": f"the file ends early: {why}",
        }
        self.take_quarantine(pa.RecordBatch.from_pylist([row], schema=QUARANTINE))

    def close(self, answered: ServedApis) -> FileReport:
        """Return the finished report; ``answered`` is what API_VERSIONS was answered."""
        for broker_id, served in answered.beyond.items():
            self._served.take(broker_id, served)
        self.report.served_beyond = self._served.beyond
        self._date_undated()
        self.report.parts = self._writer.close()
        self.report.day_digests = self._digests.found()
        self.report.broker_ids = sorted(self._broker_ids)
        self.report.counts = [
            Count(table, day, reason, rows) for (table, day, reason), rows in self._counts.items()
        ]
        return self.report

    def _date_undated(self) -> None:
        """Write the lines before the first request under its day, without one under no day."""
        for rows in self._undated:
            self._date_and_write(rows)
        self._undated.clear()

    def _date_and_write(self, rows: pa.RecordBatch) -> None:
        days = [
            self._last_day if at_ms is None else at_ms // DAY_MS
            for at_ms in rows["log_time_ms"].to_pylist()
        ]
        for day in sorted(set(days), key=str):
            of_day = rows.filter(pa.array([d == day for d in days]))
            for reason, count in Counter(of_day["reason"].to_pylist()).items():
                self._counts[QUARANTINE_TABLE, day, reason] += count
            self._write(QUARANTINE_TABLE, day, of_day)

    def _write(self, table: str, day: int | None, rows: pa.RecordBatch) -> None:
        asked = self._task.day
        if asked is None or day is None or day == asked:
            self._writer.add(table, day, rows)
        elif table == REQUESTS_TABLE and day == asked + 1:
            first_minutes = pc.less(rows["log_time_ms"], day * DAY_MS + AHEAD_MS)
            if pc.any(first_minutes).as_py():
                self._writer.add(table, day, rows.filter(first_minutes))


ROW_GROUP_ROWS = 65_536
# Damaged stamps may be of any day: what is open and what waits is bounded whatever they say.
WAITING_ROWS_MAX = 4 * ROW_GROUP_ROWS
WAITING_DAYS_MAX = 64
UNDATED = "undated"


def part_folder(folder: Path, table: str, day: int | None) -> Path:
    """Return the folder in which the files of a table and UTC day number are staged."""
    return folder / table / (UNDATED if day is None else f"day={day}")


@dataclass(slots=True)
class _OpenPart:
    path: Path
    writer: pq.ParquetWriter
    rows: int = 0


class PartWriter:
    """Collects batches into row groups; the files have names no other task attempt has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[tuple[str, int | None], list[pa.RecordBatch]] = {}
        self._writers: dict[tuple[str, int | None], _OpenPart] = {}
        self._parts: list[Part] = []
        self._rows_waiting = 0

    def add(self, table: str, day: int | None, rows: pa.RecordBatch) -> None:
        """Take rows of ``table`` that belong to ``day``."""
        key = (table, day)
        batches = self._waiting.setdefault(key, [])
        batches.append(rows)
        self._rows_waiting += len(rows)
        if sum(map(len, batches)) >= ROW_GROUP_ROWS:
            self._flush(key)
        elif self._rows_waiting >= WAITING_ROWS_MAX or len(self._waiting) > WAITING_DAYS_MAX:
            self._close_all()

    def close(self) -> list[Part]:
        """Write what waits and return the files."""
        self._close_all()
        return self._parts

    def _close_all(self) -> None:
        for key in list(self._waiting):
            self._flush(key)
            self._close(key)
        self._waiting.clear()

    def _close(self, key: tuple[str, int | None]) -> None:
        if (part := self._writers.pop(key, None)) is not None:
            part.writer.close()
            self._parts.append(Part(*key, str(part.path), part.rows))

    def _flush(self, key: tuple[str, int | None]) -> None:
        batches = self._waiting[key]
        if not batches:
            return
        schema = TABLES[key[0]]
        if key not in self._writers:
            path = part_folder(self._folder, *key) / f"part-{uuid.uuid4().hex}.parquet"
            self._writers[key] = _OpenPart(path, worker_file(path, key[0], schema))
        rows = pa.Table.from_batches(batches, schema)
        self._writers[key].writer.write_table(rows)
        self._writers[key].rows += len(rows)
        self._rows_waiting -= len(rows)
        batches.clear()
