"""Writing a worker's rows as Parquet files beside the warehouse, a file for each table and day."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.ingest.file_report import Part
from spark_jobs.warehouse.tables import TABLES
from spark_jobs.warehouse.worker_files import worker_file

ROW_GROUP_ROWS = 65_536
# Damaged stamps may be of any day: what is open and what waits is bounded whatever they say.
WAITING_ROWS_MAX = 4 * ROW_GROUP_ROWS
WAITING_DAYS_MAX = 64
UNDATED = "undated"
SEARCHED_BY = ("broker_id", "log_time_ms", "api_key", "recorded_estimate_us")


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
            self._writers[key] = _OpenPart(path, worker_file(path, key[0], schema, SEARCHED_BY))
        rows = pa.Table.from_batches(batches, schema)
        self._writers[key].writer.write_table(rows)
        self._writers[key].rows += len(rows)
        self._rows_waiting -= len(rows)
        batches.clear()
